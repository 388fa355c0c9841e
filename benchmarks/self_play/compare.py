"""Win rates of best responses to policies that recipes of self-play continued, at equal cost: a table.

    python benchmarks/self_play/compare.py --recipes "small pool" exploiters --seeds 3

Every recipe continues the same policy for the same number of env steps; then one best response per seed begins with the
weights of the result and trains against it alone. A last row has the mixture of all seeds, one of which is drawn for
every match. Finished runs are reused.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

import sparring
from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from benchmarks.self_play.recipes import EXPLOITERS, RECIPES, follow
from sparring.configs.core.errors import InputError, choose

NAMES = (*RECIPES, EXPLOITERS)
MARKS = (100_000, 200_000, 500_000, 1_000_000, 2_000_000)
"""Env steps of the best response at which its win rate is shown."""


def main() -> int:
    args = parse()
    rows = []
    for recipe in tqdm(args.recipes, desc="recipes", unit="recipe"):
        places = {seed: Path(args.folder, f"{recipe}-{seed}".replace(" ", "-")) for seed in range(1, args.seeds + 1)}
        policies = []
        for seed, folder in places.items():
            policies.append(follow(recipe, args.policy, args.updates, partial(train, folder, seed, args.threads)))
            rows.append([recipe, str(seed), *responses(policies[-1:], folder, args)])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
        if args.seeds > 1:
            folder = Path(args.folder, f"{recipe}-mixture".replace(" ", "-"))
            rows.append([recipe, f"mixture of {args.seeds}", *responses(policies, folder, args)])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ("recipe", "seed", *(f"{steps / 1e6:g} M" for steps in MARKS if steps <= args.steps))
    publish(f"{heading('Best responses after self-play', ('torch',))}\n{table(head, rows)}\n", args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipes", nargs="+", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--policy", default="released/dogfight_bots_only", help="policy that every recipe continues")
    parser.add_argument("--updates", type=int, default=300, help="updates of every recipe, of 32,768 env steps each")
    parser.add_argument("--steps", type=int, default=2_000_000, help="env steps of every best response")
    parser.add_argument("--seeds", type=int, default=3, help="runs per recipe, seeds 1 to N")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 is all")
    parser.add_argument("--folder", default="checkpoints/self_play", help="folder of the runs; finished ones count")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    for name in args.recipes:
        choose("--recipes", name, NAMES)
    if args.updates < 20:
        raise InputError(f"--updates {args.updates}: must be at least 20, for ten parts of the rounds of {EXPLOITERS}")
    if args.seeds < 1:
        raise InputError(f"--seeds {args.seeds}: must be at least 1")
    return args


def train(folder: Path, seed: int, threads: int, name: str, options: list[str]) -> str:
    """Train one run, unless it has ended, and return its final policy."""
    place = [f"name={name.replace(' ', '-')}", f"checkpoint_dir={folder}", "logger.progress=false"]
    return str(sparring.train("bots_only", [f"seed={seed}", f"threads={threads}", *place, *options]))


def responses(policies: list[str], folder: Path, args: argparse.Namespace) -> list[str]:
    """Return the scores of warm best responses, in percent with intervals, at `MARKS`.

    To one policy there is one; to a mixture of several there is one that begins with the weights of each.
    """
    options = {"steps": args.steps, "seeds": len(policies), "start": ["warm"], "threads": args.threads}
    report = sparring.exploit(policies, out=folder / "response", **options)
    (curve,) = report.data["curves"]
    points = {point["steps"]: point for point in curve["points"]}
    return [percent(points[steps]) for steps in MARKS if steps <= args.steps]


def percent(point: dict[str, Any]) -> str:
    """Return a score in percent with its 95 % interval, and the win rate."""
    score, low, high, wins = (100.0 * share for share in (point["score"], *point["score_interval"], point["win_rate"]))
    return f"{score:.1f} ({low:.1f} to {high:.1f}), wins {wins:.1f}"


if __name__ == "__main__":
    sys.exit(run_script(main))
