"""Several seeds of one configuration as one result: `python eval/seeds.py RUN RUN RUN [--against RUN RUN]`.

Reads the eval.json that `eval/run.py` wrote for each run. A score is the win rate of one run against one opponent
under one physics. The runs are summarized by the interquartile mean (IQM), the mean of the middle half of all scores,
which is robust to a single lucky or failed seed. Its 95 % interval is a stratified percentile bootstrap: within each
opponent and physics, runs are resampled with replacement. With `--against` the probability of improvement is
P(X > Y) + P(X = Y) / 2 for a random run X of the first group and Y of the second, averaged over opponents.
Source: R. Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice", NeurIPS 2021.

Below four scores nothing is cut and the IQM is the mean. A bootstrap interval of three to five runs is too narrow: it
does not cover failed seeds unless one is in the sample. The same files and options give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/seeds.py")

from sparring.configs.core.errors import InputError
from sparring.envs.dogfight.rules import HELD_OUT
from sparring.eval.command import CommandReport, make_folders, publish_report, run_command
from sparring.eval.options import SEED, CommandOptions, CommandText, argument, parse
from sparring.eval.stats.results import RunGroup, Task, read_groups
from sparring.eval.stats.tables import percent, table

if TYPE_CHECKING:
    from sparring.eval.stats.aggregate import Estimate, Spread

OVERALL, HELD_OUT_OVERALL = "overall", "held out"
RESAMPLES = "[100, 1000000]"

_EXAMPLES = """\
examples:
  python eval/seeds.py q1 q2 q3                                three runs' eval.json, by the runs' names
  python eval/seeds.py new1 new2 new3 --against old1 old2 old3 is the new configuration better?
  python eval/seeds.py a/eval.json b/eval.json --out results

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class SeedOptions(CommandOptions):
    """Options of the command; the files have not been located."""

    TEXT = CommandText(
        "eval/seeds.py",
        "Sum up the evaluations of several seeds: interquartile mean, bootstrap intervals, mean and worst.",
        _EXAMPLES,
    )
    runs: tuple[str, ...] = argument((), metavar="RUN", positional=True)
    """Runs' names or folders, or eval.json files."""
    against: tuple[str, ...] = argument((), metavar="RUN")
    """The seeds of another configuration."""
    seed: int = argument(0, SEED, metavar="N")
    """Seed of the bootstrap (default: 0)."""
    resamples: int = argument(9999, RESAMPLES, metavar="N")
    """Bootstrap samples per interval."""
    out: Path | None = argument(None, metavar="DIR")
    """Write seeds.json and seeds.md there."""

    def check(self) -> None:
        """Raise `InputError` for a group of a single run."""
        for name, least in {"runs": 2, "against": 0}.items():
            given = len(getattr(self, name))
            if given == 1 or given < least:
                raise InputError(f"{name}: {given} given, at least 2 are needed: one seed has no spread")


@dataclass(frozen=True)
class SeedRow:
    """Result for one opponent under one physics, or for all: the first group, and the comparison with the second."""

    regime: str
    opponent: str
    scores: Spread
    against: Spread | None = None
    improvement: Estimate | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/seeds.py", lambda words: publish_report(seeds(parse(SeedOptions, words))), arguments)


def summarize_groups(ours: RunGroup, theirs: RunGroup | None, *, seed: int, resamples: int) -> list[SeedRow]:
    """Return for each physics a row per opponent, one over all that are not held out, and one over those that are.

    With several physics the last two are also over all of them.
    Every row has its own generator seeded with `seed`, so rows do not depend on each other.
    """
    rows = []
    for regime in ours.regimes:
        tasks = [task for task in ours.tasks if task[0] == regime]
        cells = [(opponent, [(regime, opponent)]) for _, opponent in tasks]
        rows += [_row(ours, theirs, regime, *cell, seed, resamples) for cell in [*cells, *_groups(tasks)]]
    if len(ours.regimes) > 1:
        rows += [_row(ours, theirs, "all", *group, seed, resamples) for group in _groups(ours.tasks)]
    return rows


def _groups(tasks: Sequence[Task]) -> list[tuple[str, list[Task]]]:
    """Return the tasks against opponents that are not held out and those that are, by name, without empty groups."""
    held_out = [task for task in tasks if task[1] in HELD_OUT]
    others = [task for task in tasks if task not in held_out]
    return [(name, members) for name, members in ((OVERALL, others), (HELD_OUT_OVERALL, held_out)) if members]


def seeds_markdown(ours: RunGroup, theirs: RunGroup | None, rows: Sequence[SeedRow], command: str) -> str:
    """Return the markdown report: the runs, a table per physics, and the meaning of the columns."""
    parts = [f"# {len(ours.names)} runs: {', '.join(ours.names)}"]
    if theirs:
        parts.append(f"against {len(theirs.names)} runs: {', '.join(theirs.names)}")
    parts.append(ours.conditions)
    headings = ["opponent", "IQM", "95 % interval", "mean", "min"]
    headings += ["IQM, other", "95 % interval", "P(better) %", "95 % interval"] if theirs else []
    for regime in dict.fromkeys(row.regime for row in rows):
        cells = [_cells(row) for row in rows if row.regime == regime]
        parts.append(f"## Physics: {regime}\n\n{table(headings, cells)}")
    parts.append(
        "Win %. IQM: mean of the middle half of the scores of all runs and opponents; intervals: stratified bootstrap "
        "over runs; min: the worst run against its worst opponent."
    )
    return "\n\n".join([*parts, f"Command: `{command}`"]) + "\n"


def seeds_json(ours: RunGroup, theirs: RunGroup | None, rows: Sequence[SeedRow], options: SeedOptions) -> str:
    """Return the report as JSON; win rates in [0, 1]."""
    content = {
        "kind": "seeds",
        "runs": ours.names,
        "against": theirs.names if theirs else [],
        "seed": options.seed,
        "resamples": options.resamples,
        "rows": [asdict(row) for row in rows],
        "command": options.command,
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(
    ours: RunGroup,
    theirs: RunGroup | None,
    regime: str,
    opponent: str,
    tasks: Sequence[tuple[str, str]],
    seed: int,
    resamples: int,
) -> SeedRow:
    from sparring.eval.stats.aggregate import improvement, spread  # Imported late: it loads SciPy.

    mine = ours.scores(tasks)
    if theirs is None:
        return SeedRow(regime, opponent, spread(mine, seed, resamples))
    other = theirs.scores(tasks)
    better = improvement(mine, other, seed, resamples)
    return SeedRow(regime, opponent, spread(mine, seed, resamples), spread(other, seed, resamples), better)


def _cells(row: SeedRow) -> list[str]:
    scores = row.scores
    cells = [row.opponent, *_estimate(scores.iqm), percent(scores.mean), percent(scores.least)]
    if row.against and row.improvement:
        cells += [*_estimate(row.against.iqm), *_estimate(row.improvement)]
    return cells


def _estimate(estimate: Estimate) -> list[str]:
    low, high = estimate.interval
    return [percent(estimate.value), f"{percent(low)} to {percent(high)}"]


def seeds(options: SeedOptions) -> CommandReport:
    """Sum up evaluations. Raises `InputError` for bad input."""
    make_folders([options.out])
    ours, theirs = read_groups(options.runs, options.against)
    rows = summarize_groups(ours, theirs, seed=options.seed, resamples=options.resamples)
    text, data = seeds_markdown(ours, theirs, rows, options.command), seeds_json(ours, theirs, rows, options)
    files = {options.out / "seeds.json": data, options.out / "seeds.md": text} if options.out else {}
    return CommandReport(text, data, files)


if __name__ == "__main__":
    sys.exit(main())
