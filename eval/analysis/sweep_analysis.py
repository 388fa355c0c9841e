"""Analysis of a sweep: the table of its runs, their ranking against the expected one, and its criteria.

The columns suit a league of fixed references. They contain the base model's Elo (lower is better), the gap from it to
the best checkpoint, the total reference drop, and the KL. Win and top-3 rates say little in a league whose opponents
learn. Columns without values are omitted; the sweep's own measures are added. Values of a run are means over its seeds,
with the sample standard deviation for two or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from sparring.configs.core.errors import InputError, suggestion
from sparring.eval.analysis.record import (
    History,
    RunNotFoundError,
    RunRecord,
    RunSource,
    history_rows,
    not_found,
    option,
)
from sparring.eval.analysis.reports.run_report import REWARDS
from sparring.eval.analysis.reports.series import BASE_MODEL, elo_gap, no_elo_gap
from sparring.eval.analysis.sweeps.criteria import BETWEEN, EVERY, STD, Criterion, Measure, read_measure
from sparring.eval.analysis.sweeps.file import PrimaryMeasure, SweepFile, SweepRun, parse_sweep, sweep_files
from sparring.eval.analysis.sweeps.sweep_folder import DONE, SUFFIX, Row, SweepFolder, measured, read_rows
from sparring.eval.analysis.trends import kendall_tau

HELD, MISSED, OPEN = "held", "not held", "open"
USUAL = {
    "base_model Elo": "last(elo/base_model)",
    "reference drop": "last(league/reference_drop)",
    "KL mean": "mean(kl/mean)",
    "KL max": "max(kl/max)",
    "win rate": "final(game/win_bonus_rate)",
    "top-3 rate": "final(placement/top3_rate)",
}
"""Columns of every sweep besides the Elo gap, by heading."""
Figure = Callable[[Sequence[Row]], float]


@dataclass(frozen=True)
class SweepSeed:
    """One run folder of a sweep."""

    name: str
    letter: str
    seed: int
    outcome: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class RunFigures:
    """One letter of a sweep: its seeds, and each column's values over the seeds that have one."""

    letter: str
    description: str
    seeds: tuple[SweepSeed, ...]
    values: dict[str, tuple[float, ...]]

    def mean(self, column: str) -> float:
        """Return the mean over the seeds; NaN without a value."""
        return float(np.mean(self.values[column])) if self.values[column] else math.nan

    @property
    def no_elo_gap(self) -> str:
        """Why no seed has an Elo gap; empty if a seed has one, or if no seed has ratings."""
        metrics = {name for seed in self.seeds for row in seed.rows for name in row}
        return "" if self.values["Elo gap"] else no_elo_gap(metrics)

    def std(self, column: str) -> float:
        """Return the sample standard deviation over the seeds; NaN below two."""
        return float(np.std(self.values[column], ddof=1)) if len(self.values[column]) > 1 else math.nan


@dataclass(frozen=True)
class CriterionResult:
    """A criterion, whether it holds (held, not held, open), and the values that decide it."""

    criterion: Criterion
    state: str
    evidence: str


@dataclass(frozen=True)
class SweepAnalysis:
    """Everything that `analyze-sweep` prints."""

    name: str
    file: SweepFile
    columns: tuple[str, ...]
    runs: tuple[RunFigures, ...]
    ranking: tuple[str, ...]
    """Letters with a value of the primary measure, best first."""
    unresolved: tuple[tuple[str, str], ...]
    """Tied neighbours in the ranking: equal, or closer than two standard errors with at least two seeds each."""
    tau: float
    """Kendall's tau-b of the ranking and the expected one; NaN without at least two letters in both."""
    criteria: tuple[CriterionResult, ...]


def find_sweep(name: str, root: Path) -> SweepFolder:
    """Return the sweep's folder under `root`; raises `RunNotFoundError` naming the nearest, or how to run it."""
    names = sorted(path.name.removesuffix(SUFFIX) for path in root.glob(f"*{SUFFIX}") if path.is_dir())
    if name in names:
        return SweepFolder(root / f"{name}{SUFFIX}")
    if name in sweep_files():
        raise RunNotFoundError(f"sweep {name!r} has not been run in {root}; run it with: python train.py +sweep={name}")
    choices = [*names, *sweep_files()]
    raise RunNotFoundError(f"no sweep {name!r} in {root}: choose from {', '.join(choices)}{suggestion(name, choices)}")


@dataclass(frozen=True)
class ChosenRuns:
    """Runs of any source by their names, as `sweep_compute` reads them."""

    sources: dict[str, tuple[RunSource, RunRecord]]

    def record(self, id: str) -> RunRecord:
        """Return one run."""
        return self.sources[id][1]

    def history(self, id: str) -> History:
        """Return its rows."""
        return self.sources[id][0].history(id)


def choose_runs(names: Sequence[str], sources: Sequence[RunSource]) -> ChosenRuns:
    """Return the runs that match one of the names: by name, by prefix, by tag or by W&B group.

    Raises `RunNotFoundError`.
    """
    records = [(source, record) for source in sources for record in source.runs()]
    chosen: dict[str, tuple[RunSource, RunRecord]] = {}
    for name in names:
        fitting = [pair for pair in records if pair[1].id.startswith(name) or name in (*pair[1].tags, pair[1].group)]
        if not fitting:
            groups = {record.group for _, record in records} - {""}
            choices = [*(record.id for _, record in records), *sorted(groups)]
            raise not_found(name, choices, "names, prefixes, tags and W&B groups of runs")
        for pair in fitting:
            chosen.setdefault(pair[1].id, pair)
    return ChosenRuns(dict(sorted(chosen.items())))


def analyze_chosen(chosen: ChosenRuns, title: str) -> SweepAnalysis:
    """Analyse runs without a sweep file: one letter each, ranked by the base model's Elo or else the reward."""
    seeds, described = [], {}
    for number, (name, (source, record)) in enumerate(chosen.sources.items(), 1):
        letter, seed = f"R{number}", option(record.config, "seed")
        described[letter] = SweepRun(name, {})
        outcome = DONE if record.status == "completed" else str(record.status)
        rows = history_rows(source.history(record.id))
        seeds.append(SweepSeed(name, letter, seed if isinstance(seed, int) else 0, outcome, rows))
    metrics = {key for seed in seeds for row in seed.rows for key in row}
    reward = next((metric for metric in REWARDS if metric in metrics), "")
    based = BASE_MODEL in metrics or not reward
    measure = read_measure(USUAL["base_model Elo"] if based else f"final({reward})")
    primary = PrimaryMeasure(measure, "lower" if based else "higher")
    hypothesis = "none; the runs were selected by name, without a sweep file"
    file = SweepFile(title, hypothesis, "", (0,), {}, described, None, primary, (), (), (), {})
    return _analysis(title, file, seeds)


def analyze_sweep(folder: SweepFolder) -> SweepAnalysis:
    """Analyse the runs of a sweep file, finished or not. Raises `InputError` for a grid."""
    content = folder.content()
    if not content:
        raise InputError(f"{folder.name}: a --multirun grid has no hypothesis or measures; write a sweep file")
    file = parse_sweep(folder.name, content, folder.path)
    return _analysis(folder.name, file, _seeds(folder, file))


def _analysis(name: str, file: SweepFile, seeds: Sequence[SweepSeed]) -> SweepAnalysis:
    figures = _figures(file)
    runs = tuple(_figures_of(letter, file, seeds, figures) for letter in file.runs)
    columns = tuple(name for name in figures if any(run.values[name] for run in runs))
    ranking = _ranking(runs, file)
    return SweepAnalysis(
        name=name,
        file=file,
        columns=columns,
        runs=runs,
        ranking=ranking,
        unresolved=_unresolved(runs, ranking, heading_of(file.primary.measure)),
        tau=_tau(runs, file),
        criteria=tuple(judge(criterion, runs) for criterion in file.criteria),
    )


def judge(criterion: Criterion, runs: Sequence[RunFigures]) -> CriterionResult:
    """Return whether a criterion holds; open if the runs so far cannot decide it."""
    seeds = [seed for run in runs for seed in run.seeds]
    values = {seed.name: measured(seed.rows, criterion.measure) for seed in seeds}
    complete = len(seeds) > 0 and all(run.seeds for run in runs) and all(seed.outcome == DONE for seed in seeds)
    recorded = {name: value for name, value in values.items() if not math.isnan(value)}
    if not recorded:
        return CriterionResult(criterion, OPEN, f"no run has {criterion.measure}")
    complete = complete and len(recorded) == len(values)
    if criterion.quantifier == EVERY:
        missed = {name: value for name, value in recorded.items() if not criterion.holds(value)}
        # A count grows until a run ends; a finished run below the bound missed it.
        final = {n: v for n, v in missed.items() if criterion.measure.reduction != "count" or _ended(n, seeds)}
        state = MISSED if final else HELD if complete else OPEN
        return CriterionResult(criterion, state, _evidence(final or recorded))
    means = {run.letter: _mean([values[seed.name] for seed in run.seeds]) for run in runs}
    means = {letter: value for letter, value in means.items() if not math.isnan(value)}
    compared = _compared(criterion, means, {run.letter: [values[seed.name] for seed in run.seeds] for run in runs})
    if not compared:
        return CriterionResult(criterion, OPEN, f"{_evidence(means)}; runs or seeds are missing")
    needs_all = criterion.quantifier == STD
    holds = (all if needs_all else any)(criterion.holds(value) for value in compared.values())
    state = HELD if holds and complete else MISSED if complete else OPEN
    return CriterionResult(criterion, state, _evidence(means if criterion.quantifier == BETWEEN else compared))


def _compared(criterion: Criterion, means: dict[str, float], seeds: dict[str, list[float]]) -> dict[str, float]:
    """Return the values compared with the bound, by name; empty if runs or second seeds are missing."""
    if criterion.minus:
        letters, base = criterion.minus
        comparable = [letter for letter in letters if letter in means and base in means]
        return {f"{letter} minus {base}": means[letter] - means[base] for letter in comparable}
    if criterion.quantifier == STD:
        comparable = [letter for letter, values in seeds.items() if sum(not math.isnan(value) for value in values) > 1]
        complete = len(comparable) == len(seeds)
        return {letter: float(np.nanstd(seeds[letter], ddof=1)) for letter in comparable} if complete else {}
    if criterion.quantifier == BETWEEN:
        return {"largest difference": max(means.values()) - min(means.values())} if len(means) > 1 else {}
    return means


def _seeds(folder: SweepFolder, file: SweepFile) -> list[SweepSeed]:
    seeds = []
    for name in folder.runs():
        letter, dash, seed = name.removeprefix(f"{folder.name}-").rpartition("-seed")
        if dash and letter in file.runs and seed.isdigit():
            rows = read_rows(folder.run_folder(name))
            seeds.append(SweepSeed(name, letter, int(seed), str(folder.outcome(name)["outcome"]), rows))
    return sorted(seeds, key=lambda seed: (seed.letter, seed.seed))


def _figures(file: SweepFile) -> dict[str, Figure]:
    """Return the columns by heading."""
    figures: dict[str, Figure] = {"Elo gap": lambda rows: gap.value if (gap := elo_gap(rows)) else math.nan}
    for heading, text in USUAL.items():
        figures[heading] = partial(measured, measure=read_measure(text))
    for measure in [file.primary.measure, *file.secondary]:
        figures[heading_of(measure)] = partial(measured, measure=measure)
    return figures


def heading_of(measure: Measure) -> str:
    """Return the heading of a measure's column."""
    return next((heading for heading, text in USUAL.items() if text == str(measure)), str(measure))


def _figures_of(letter: str, file: SweepFile, seeds: Sequence[SweepSeed], figures: dict[str, Figure]) -> RunFigures:
    members = tuple(seed for seed in seeds if seed.letter == letter)
    values = {
        name: tuple(value for seed in members if not math.isnan(value := figure(seed.rows)))
        for name, figure in figures.items()
    }
    return RunFigures(letter, file.runs[letter].description, members, values)


def _ranking(runs: Sequence[RunFigures], file: SweepFile) -> tuple[str, ...]:
    sign, column = (1.0 if file.primary.goal == "lower" else -1.0), heading_of(file.primary.measure)
    rated = [run for run in runs if run.values[column]]
    return tuple(run.letter for run in sorted(rated, key=lambda run: sign * run.mean(column)))


def _unresolved(runs: Sequence[RunFigures], ranking: Sequence[str], column: str) -> tuple[tuple[str, str], ...]:
    by_letter = {run.letter: run for run in runs}
    close = []
    for first, second in pairwise(ranking):
        pair = by_letter[first], by_letter[second]
        error = math.hypot(*(run.std(column) / math.sqrt(len(run.values[column])) for run in pair))
        gap = abs(pair[0].mean(column) - pair[1].mean(column))
        if gap == 0.0 or gap < 2.0 * error:
            close.append((first, second))
    return tuple(close)


def _tau(runs: Sequence[RunFigures], file: SweepFile) -> float:
    """Return tau-b of the expected places and the values, in which equal values are ties."""
    sign, column = (1.0 if file.primary.goal == "lower" else -1.0), heading_of(file.primary.measure)
    values = {run.letter: sign * run.mean(column) for run in runs if run.values[column]}
    both = [values[letter] for letter in file.expected if letter in values]
    return kendall_tau(both)


def tied(runs: Sequence[RunFigures], column: str) -> str:
    """Return the letters by a column, highest first, "=" between neighbours that are tied; empty without values."""
    rated = sorted((run for run in runs if run.values[column]), key=lambda run: -run.mean(column))
    letters = [run.letter for run in rated]
    close = _unresolved(rated, letters, column)
    return joined(letters, close)


def joined(letters: Sequence[str], close: Sequence[tuple[str, str]]) -> str:
    """Return letters in their order with commas, or "=" between the pairs in `close`."""
    links = [" = " if pair in close else ", " for pair in pairwise(letters)]
    return "".join(letter + link for letter, link in zip(letters, [*links, ""], strict=True))


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if not math.isnan(value)]
    return float(np.mean(finite)) if finite else math.nan


def _ended(name: str, seeds: Sequence[SweepSeed]) -> bool:
    return any(seed.name == name and seed.outcome != "did not end" for seed in seeds)


def _evidence(values: dict[str, float]) -> str:
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if low == high or values[low] == values[high]:
        return f"{values[low]:.4g} ({low})" if len(values) == 1 else f"{values[low]:.4g} in all {len(values)}"
    return f"{values[low]:.4g} ({low}) to {values[high]:.4g} ({high})"
