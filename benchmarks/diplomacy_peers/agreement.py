"""Comparison of our adjudicator with the `diplomacy` package: full games, the same orders, every phase.

Both get the same legal orders phase by phase, and should agree on units, dislodged units, retreats, centres and next
phase. Orders are drawn uniformly by our own batch (`drawn`), or chosen from the package's list of legal orders so that
they interact (`moves`, `supports`, `convoys`), some being left out; `crowds` are single phases of crowded positions.
For a difference `readings.py` looks for the reason, which has to reproduce the package's result exactly; any other is
unexplained, and the command then exits with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from benchmarks.command import run_script
from benchmarks.diplomacy_peers.match import CROWDS, DRAWN, Crowds, Match
from benchmarks.diplomacy_peers.orders import STYLES
from benchmarks.diplomacy_peers.tally import Tally
from benchmarks.report import heading, publish, table

ALL_STYLES = (DRAWN, *STYLES, CROWDS)
KINDS = {"M": "movement", "R": "retreats", "A": "adjustments"}


def main() -> int:
    args = parse()
    head = heading("Diplomacy: agreement with the diplomacy package", ("diplomacy", "numpy", "torch", "warp-lang"))
    tallies = sample(args.styles, args.phases, args.seeds, args.games)
    publish("\n".join([head, *report(tallies)]), args.out)
    compared = sum(sum(tally.phases.values()) for tally in tallies.values())
    return 1 if not compared or any(tally.unexplained for tally in tallies.values()) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--phases", type=int, default=20_000, help="phases to compare, shared by styles and seeds")
    parser.add_argument("--styles", nargs="+", choices=ALL_STYLES, default=list(ALL_STYLES), help="kinds of orders")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--games", type=int, default=16, help="games side by side")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def sample(styles: list[str], phases: int, seeds: list[int], games: int) -> dict[str, Tally]:
    """Play every style with every seed, the phases divided among them; return the results by style."""
    share = -(-phases // (len(styles) * len(seeds)))
    tallies = {style: Tally() for style in styles}
    with tqdm(total=share * len(styles) * len(seeds), unit="phase", disable=None) as bar:
        for seed in seeds:
            for style in styles:
                bar.set_description(f"{style}, seed {seed}")
                tallies[style].add(play(style, share, seed, games, bar))
    return tallies


def play(style: str, phases: int, seed: int, games: int, bar: tqdm) -> Tally:
    """Play at least so many phases in one style."""
    match = Crowds(games, seed) if style == CROWDS else Match(games, style, seed)
    done = 0
    while done < phases:
        compared = match.step()
        bar.update(min(compared, phases - done))
        done += compared
    match.close()
    return match.tally


def report(tallies: dict[str, Tally]) -> list[str]:
    """Return tables of the phases compared, the reasons of differences and the contents of the sample."""
    return [
        compared(tallies),
        "## Differences\n",
        by_style(tallies, "reason", lambda tally: tally.differences),
        "## What the sample held\n",
        by_style(tallies, "events", lambda tally: tally.events),
        *(f"```\n{text}\n```" for tally in tallies.values() for text in tally.unexplained),
    ]


def compared(tallies: dict[str, Tally]) -> str:
    """Return the phases of each kind that were compared and that agreed."""
    rows = []
    for style, tally in tallies.items():
        total, other = sum(tally.phases.values()), tally.events["differences"]
        kinds = [f"{tally.phases[kind]:,}" for kind in KINDS]
        rows.append([style, f"{total:,}", *kinds, f"{total - other:,}", f"{other:,}", f"{len(tally.unexplained):,}"])
    sums = [sum(int(row[column].replace(",", "")) for row in rows) for column in range(1, len(rows[0]))]
    rows.append(["all", *(f"{value:,}" for value in sums)])
    return table(["orders", "phases", *KINDS.values(), "agree", "differ", "unexplained"], rows)


def by_style(tallies: dict[str, Tally], name: str, pick: Callable[[Tally], Counter[str]]) -> str:
    """Return counts, one row each, one column per style."""
    names = sorted({key for tally in tallies.values() for key in pick(tally)})
    rows = [[key, *(f"{pick(tally)[key]:,}" for tally in tallies.values())] for key in names]
    return table([name, *tallies], rows)


if __name__ == "__main__":
    sys.exit(run_script(main))
