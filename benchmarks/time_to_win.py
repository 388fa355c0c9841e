"""Wall-clock minutes until a run wins against all five bots: our PPO and that of Stable-Baselines3.

Both trainers learn `bots_only`, the same matches under the same curriculum, one run after the other on one machine. Of
each run every kept policy plays the five bots, the oldest first, until one wins the asked share against each of them;
its age is the time of the updates up to it, as the run timed them. Playing those games is not counted.

    python benchmarks/time_to_win.py --seeds 3 --out docs/results/time_to_win.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.envs.dogfight.rules import BOTS

ROOT = Path(__file__).resolve().parents[1]
TRAINERS = {"ppo": "ours", "sb3": "SB3"}
COLUMNS = ("trainer", "seed", "steps/s", "minutes", "million steps", *BOTS)


@dataclass(frozen=True)
class Reached:
    """Progress of one run: its speed, and the first policy that won often enough, else its last one."""

    trainer: str
    seed: int
    speed: float
    minutes: float
    env_steps: int
    win_rates: dict[str, float]
    enough: bool


def main() -> int:
    args = parse()
    found = []
    for seed in range(1, args.seeds + 1):
        for trainer in args.trainers:
            train(trainer, seed, args)
            found.append(measure(trainer, seed, args))
            print(row(found[-1]), file=sys.stderr, flush=True)
    title = heading(f"Time to {args.share:.0%} against all five bots", ("torch", "stable-baselines3"))
    rule = f"The first policy, one every {args.every} updates, to win {args.share:.0%} of {args.games} games per bot."
    publish(f"{title}\n{rule}\n\n{table(COLUMNS, [row(one) for one in found])}\n{verdict(found)}\n", args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=[*TRAINERS], help="which of the two")
    parser.add_argument("--seeds", type=int, default=3, help="runs per trainer, seeds 1 to N")
    parser.add_argument("--share", type=float, default=0.95, help="share of the games to be won against each bot")
    parser.add_argument("--games", type=int, default=200, help="games per bot and policy")
    parser.add_argument("--every", type=int, default=20, help="updates between kept policies")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 is all")
    parser.add_argument("--folder", default="checkpoints/time_to_win", help="where runs are kept; finished ones count")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.add_argument("overrides", nargs="*", help="options of train.py for both, such as max_updates=500")
    args = parser.parse_intermixed_args()
    for name in ("seeds", "games", "every"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}={getattr(args, name)}: must be at least 1")
    if not 0.0 < args.share <= 1.0:
        parser.error(f"--share={args.share}: must be above 0 and at most 1")
    if begun := [override for override in args.overrides if override.partition("=")[0].lstrip("+") == "init_from"]:
        parser.error(f"{begun[0]}: a policy that wins already would reach the share without learning; leave it out")
    return args


def train(trainer: str, seed: int, args: argparse.Namespace) -> None:
    """Train one run with the ordinary command, in a process of its own, unless it exists."""
    if (folder(trainer, seed, args) / "final.pt").exists():
        return
    place = [f"checkpoint_dir={args.folder}", f"name={trainer}-{seed}", f"checkpoint_every={args.every}"]
    options = [f"trainer={trainer}", f"seed={seed}", f"threads={args.threads}", *place, *args.overrides]
    load(["+run=bots_only", *options])  # a slip is answered at once
    subprocess.run([sys.executable, "train.py", "+run=bots_only", *options], cwd=ROOT, check=True)


def folder(trainer: str, seed: int, args: argparse.Namespace) -> Path:
    """Return the folder of a run."""
    return ROOT / args.folder / f"{trainer}-{seed}"


def measure(trainer: str, seed: int, args: argparse.Namespace) -> Reached:
    """Evaluate the run's policies, oldest first, until one wins often enough."""
    path = folder(trainer, seed, args)
    seconds = clock(path / "metrics.jsonl")
    kept = sorted(path.glob("step_*.pt"), key=age)
    if not kept or not seconds:
        raise InputError(f"{path}: holds no step_*.pt, or its metrics.jsonl no update; delete it to train again")
    for checkpoint in kept:
        rates = win_rates(checkpoint, args)
        if enough := min(rates.values()) >= args.share:
            break
    steps, total = age(checkpoint), list(seconds)[-1]
    return Reached(trainer, seed, total / seconds[total], seconds[steps] / 60.0, steps, rates, enough)


def age(checkpoint: Path) -> int:
    """Return the env steps in the name step_<env steps>.pt."""
    return int(checkpoint.stem.removeprefix("step_"))


def clock(path: Path) -> dict[int, float]:
    """Return seconds of training by env steps, from the run's own timing."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if "time/steps_per_second" in row]
    steps = [row["env_steps"] for row in rows]
    sizes = [now - before for before, now in pairwise([0, *steps])]
    taken = [size / row["time/steps_per_second"] for size, row in zip(sizes, rows, strict=True)]
    return dict(zip(steps, accumulate(taken), strict=True))


def win_rates(checkpoint: Path, args: argparse.Namespace) -> dict[str, float]:
    """Return the deterministic policy's share of games won, by bot."""
    from sparring.configs.core.device import set_threads
    from sparring.envs.dogfight.training.matches import MatchSettings, play
    from sparring.envs.dogfight.training.opponents.load import open_player

    set_threads(args.threads)
    policy = open_player(checkpoint, "cpu", old_version=True).contestant
    return {bot: play(policy, bot, games=args.games, seed=777, setting=MatchSettings()).win_rate for bot in BOTS}


def row(one: Reached) -> list[str]:
    """Return a run's row of the table; a run without success is marked."""
    mark = "" if one.enough else "not by "
    rates = [f"{100.0 * one.win_rates[bot]:.1f}" for bot in BOTS]
    minutes, steps = f"{mark}{one.minutes:.1f}", f"{one.env_steps / 1e6:.1f}"
    return [TRAINERS[one.trainer], str(one.seed), f"{one.speed:,.0f}", minutes, steps, *rates]


def verdict(found: list[Reached]) -> str:
    """Return each trainer's median minutes, if more than half of its runs succeeded."""
    parts = []
    for trainer in dict.fromkeys(one.trainer for one in found):
        runs = [one for one in found if one.trainer == trainer]
        minutes = statistics.median(one.minutes if one.enough else float("inf") for one in runs)
        there = sum(one.enough for one in runs)
        median = f", median {minutes:.1f} minutes" if there * 2 > len(runs) else ""
        parts.append(f"{TRAINERS[trainer]}: {there} of {len(runs)} runs{median}")
    return "; ".join(parts) + "."


if __name__ == "__main__":
    sys.exit(run_script(main))
