"""Runs to compare: grouped by configuration without the seed, and aligned at equal steps, seconds or updates.

All runs are compared up to the compute that every one of them reached. The value of a metric there is the mean over the
last tenth of that compute, or the last value before it if the metric is written rarely. The first group is the
baseline of all differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError, choose, listed
from sparring.eval.analysis.options import find_run
from sparring.eval.analysis.record import (
    History,
    RunRecord,
    RunSource,
    UnknownMetricError,
    flatten,
    option,
    unknown_metric,
)
from sparring.eval.analysis.reports.power_law import (
    AXES,
    Compute,
    ComputeChoice,
    PowerLawError,
    compute_of,
    difference_of_means,
    fit_run,
    fit_runs,
    label,
    mean_of,
)
from sparring.eval.analysis.reports.report import (
    Cell,
    LinePlot,
    ReportSection,
    ReportTable,
    RunReport,
    line,
    number,
    plots_with_lines,
)
from sparring.eval.analysis.reports.run_report import LAW_COLUMNS, law_cells, law_plot, reward_metric
from sparring.eval.analysis.reports.series import matching
from sparring.eval.stats.aggregate import Estimate, mean_estimate

EQUAL: Mapping[str, str] = {"steps": "env steps", "seconds": "seconds", "updates": "updates"}
SAME_OPTIONS = ("seed", "name", "checkpoint_dir", "resume", "threads", "device")
"""Options in which the runs of a group may differ, and all of logger."""
UNKNOWN_SEED = ""
GRID = 60
"""Windows of a curve that is averaged over runs or compared between two runs."""
LAST = 0.1
LEAST_SEEDS = 6
"""Seeds a side from which there is a verdict: five pairs differ with one sign by chance once in 16 times."""


class ComparisonError(InputError):
    """Raised for runs that cannot be compared; the message says why and what to do."""


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of a comparison; empty metrics mean those that all runs have."""

    metrics: tuple[str, ...] = ()
    equal: str = ""
    """A key of `EQUAL`; empty: steps, or updates if a run records no steps."""
    compute: ComputeChoice = field(default_factory=ComputeChoice)


@dataclass(frozen=True)
class ComparedRun:
    """A run with its history, its compute, and x [N], the axis that the runs are aligned on."""

    record: RunRecord
    history: History
    compute: Compute
    x: np.ndarray
    equal: str
    """What `x` is, a key of `EQUAL`."""

    @property
    def seed(self) -> Any:
        """Seed of the run, None if its configuration does not have one."""
        return option(self.record.config, "seed")

    def values(self, metric: str, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """Return x and the finite values of a metric up to `limit`."""
        y = self.history.columns.get(metric, np.full(len(self.x), np.nan))
        valid = np.isfinite(y) & (self.x <= limit)
        return self.x[valid], y[valid]

    def value(self, metric: str, limit: float) -> float:
        """Return the metric at `limit`, NaN if it has no value before."""
        x, y = self.values(metric, limit)
        if not len(y):
            return float("nan")
        late = y[x > (1.0 - LAST) * limit]
        return float(late.mean() if len(late) else y[-1])

    def curve(self, metric: str, limit: float) -> np.ndarray:
        """Return the means [GRID] of a metric in equal windows up to `limit`, NaN where it has no value."""
        x, y = self.values(metric, limit)
        window = np.minimum((x / limit * GRID).astype(int), GRID - 1)
        sums, counts = (np.bincount(window, weights, GRID) for weights in (y, None))
        return np.divide(sums, counts, out=np.full(GRID, np.nan), where=counts > 0)


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ only in their seed; several may have the same one, or an unknown one."""

    label: str
    runs: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        """Number of different seeds, 0 if one is unknown."""
        return 0 if any(run.seed is None for run in self.runs) else len({repr(run.seed) for run in self.runs})


@dataclass(frozen=True)
class PairedDifference:
    """Difference of a group from the baseline, the things it is a mean of, and the seeds a side (0: none)."""

    estimate: Estimate
    basis: str
    seeds: int

    @property
    def verdict(self) -> str:
        """Return the verdict that the interval allows; empty if it contains 0."""
        low, high = self.estimate.interval
        if low <= 0.0 <= high:
            return ""
        if not self.seeds:
            return "not 0 in these runs"
        return "not 0" if self.seeds >= LEAST_SEEDS else "too few seeds"


def load_compared(
    names: Sequence[str], sources: Sequence[RunSource], options: ComparisonOptions
) -> tuple[ComparedRun, ...]:
    """Read the runs. Raises `ComparisonError` for fewer than two, and `RunNotFoundError`."""
    if options.equal:
        choose("value of --equal", options.equal, EQUAL)
    if len(names) < 2:
        raise ComparisonError(f"compare needs at least two different runs, not {len(names)}: name them")
    loaded = [_load(name, sources, options) for name in names]
    places: dict[tuple[str, str], str] = {}
    for name, (record, _, _) in zip(names, loaded, strict=True):
        if (other := places.setdefault((record.source, record.path), name)) != name:
            raise ComparisonError(f"{other} and {name} are the same run: name it once")
    stepless = [record.id for record, _, compute in loaded if not compute.total("env_steps")]
    equal = options.equal or ("updates" if stepless else "steps")
    return tuple(_aligned(record, history, compute, equal) for record, history, compute in loaded)


def grouped(runs: Sequence[ComparedRun]) -> list[SeedGroup]:
    """Group runs by their configuration without seed and place, in order of appearance; one without any is alone."""
    groups: dict[str | int, list[ComparedRun]] = {}
    for index, run in enumerate(runs):
        flat = flatten(run.record.config, lists=True)
        same = {key: value for key, value in flat.items() if not _ignored(key)}
        groups.setdefault(repr(sorted(same.items())) if flat else index, []).append(run)
    return [SeedGroup(_label(group), tuple(group)) for group in groups.values()]


def config_differences(groups: Sequence[SeedGroup]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the options in which groups differ, with the value of each group; a dash where it is absent."""
    configs = [flatten(group.runs[0].record.config, lists=True) for group in groups]
    names = sorted({name for config in configs for name in config if not _ignored(name)})
    rows = [(name, tuple(str(config.get(name, "-")) for config in configs)) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def common_limit(runs: Sequence[ComparedRun]) -> float:
    """Return the compute that all runs reached."""
    return min(float(run.x[-1]) for run in runs)


def difference(base: SeedGroup, other: SeedGroup, metric: str, limit: float) -> PairedDifference | None:
    """Return other - base at equal compute, by seed where seeds are shared; None without values.

    Several runs of one seed are paired by their mean, and a count of runs without a partner is added. With one run
    each it is the mean difference of their curves, in blocks of neighbouring windows, which says nothing about seeds.
    """
    ours, baseline = (_by_seed(group, metric, limit) for group in (other, base))
    shared = sorted(ours.keys() & baseline.keys() - {UNKNOWN_SEED})
    if len(shared) >= 2:
        pairs = np.array([np.mean(ours[seed]) - np.mean(baseline[seed]) for seed in shared])
        used = sum(len(values[seed]) for values in (ours, baseline) for seed in shared)
        basis = f"{len(shared)} pairs of seeds"
        basis += f", means of {used} runs" if used > 2 * len(shared) else ""
        rest = len(other.runs) + len(base.runs) - used
        basis += f"; {rest} run{'s' * (rest > 1)} without a partner or a value" if rest else ""
        return PairedDifference(mean_of(pairs), basis, len(shared))
    if len(other.runs) > 1 and len(base.runs) > 1 and ours and baseline:
        values = [np.concatenate([*side.values()]) for side in (ours, baseline)]
        sizes = [len(side) for side in values]
        seeds = all(group.seeds == len(group.runs) for group in (other, base))
        basis = f"{sizes[0]} and {sizes[1]} {'seeds' if seeds else 'runs'}"
        least = min(len(side.get(UNKNOWN_SEED, ())) + len(side.keys() - {UNKNOWN_SEED}) for side in (ours, baseline))
        return PairedDifference(difference_of_means(*values), basis, least)
    curves = [np.array([run.curve(metric, limit) for run in group.runs]) for group in (other, base)]
    gap = _column_means(curves[0]) - _column_means(curves[1])
    finite = gap[np.isfinite(gap)]
    if len(finite) < 4:
        return None
    return PairedDifference(mean_of(finite, dependent=True), f"{len(finite)} windows", 0)


def group_curve(group: SeedGroup, metric: str, limit: float) -> np.ndarray:
    """Return the mean curve [GRID] of a group."""
    return _column_means(np.array([run.curve(metric, limit) for run in group.runs]))


def _load(name: str, sources: Sequence[RunSource], options: ComparisonOptions) -> tuple[RunRecord, History, Compute]:
    source, record = find_run(name, sources)
    history = source.history(record.id)
    return record, history, compute_of(record, history, options.compute)


def _aligned(record: RunRecord, history: History, compute: Compute, equal: str) -> ComparedRun:
    x = history.step.astype(np.float64) if equal == "updates" else compute.axes.get(_axis(equal))
    if x is None or not len(x) or not x[-1] > 0:
        alternatives = [name for name in EQUAL if name != equal and (name == "updates" or _axis(name) in compute.axes)]
        hint = f"use --equal {' or '.join(alternatives)}" if alternatives and len(history.step) else "leave the run out"
        raise ComparisonError(f"{record.id}: no {EQUAL[equal]} are recorded; {hint}")
    return ComparedRun(record, history, compute, x, equal)


def _axis(equal: str) -> str:
    return "env_steps" if equal == "steps" else equal


def _by_seed(group: SeedGroup, metric: str, limit: float) -> dict[str, list[float]]:
    """Return the values of all runs that have one, by seed."""
    values: dict[str, list[float]] = {}
    for run in group.runs:
        if np.isfinite(value := run.value(metric, limit)):
            values.setdefault(UNKNOWN_SEED if run.seed is None else repr(run.seed), []).append(value)
    return values


def _column_means(curves: np.ndarray) -> np.ndarray:
    """Return the means over rows of [R, GRID], of the known values."""
    counts = np.isfinite(curves).sum(axis=0)
    return np.divide(np.nansum(curves, axis=0), counts, out=np.full(curves.shape[1], np.nan), where=counts > 0)


def _label(group: Sequence[ComparedRun]) -> str:
    name, extra = group[0].record.id, len(group) - 1
    unit = "seed" if SeedGroup("", tuple(group)).seeds == len(group) else "run"
    return f"{name} and {extra} more {unit}{'s' * (extra > 1)}" if extra else name


def _ignored(name: str) -> bool:
    return name in SAME_OPTIONS or name.startswith("logger.")


DEFAULT_METRICS = (
    *(
        "benchmark/reward_mean",
        "elo/challenger",
        "elo/base_model",
        "benchmark/kl",
        "benchmark/loss",
        "rollout/win_rate",
    ),
    *("rollout/return", "rollout/recent_return", "curriculum/*/win_rate", "eval/*/win_rate", "train/approx_kl"),
    *("train/clip_fraction", "train/entropy", "train/explained_variance", "benchmark/grad_norm", "train/answer_loss"),
)
MOST_METRICS, MOST_PLOTS = 16, 8
RATES = ("rate", "share", "fraction")
"""Ends of the names of metrics that lie within [0, 1]."""
LAW_AXES = ("env_steps", "games", "tokens", "flops", "seconds", "money")


def compare_runs(runs: Sequence[ComparedRun], options: ComparisonOptions) -> RunReport:
    """Compare runs. Raises `UnknownMetricError` for a metric that one of them does not have."""
    groups, limit = grouped(runs), common_limit(runs)
    metrics = _metrics(runs, options)
    equal = runs[0].equal
    where = f"{number(limit)} {EQUAL[equal]}"
    sections = (
        _runs(groups),
        _differences_of_config(groups),
        _values(groups, metrics, limit, where, _left_out(runs, options, metrics)),
        *_paired(groups, metrics, limit),
        _power_laws(runs, options),
        _curves(groups, metrics, limit, equal),
    )
    damage, notes = (
        tuple(f"{run.record.id}: {text}" for run in runs for text in dict.fromkeys(lines(run)))
        for lines in (
            lambda run: (*run.record.damage, *run.history.damage),
            lambda run: (*run.record.notes, *run.history.notes),
        )
    )
    if not options.equal and equal == "updates":
        stepless = [run.record.id for run in runs if not run.compute.total("env_steps")]
        notes = (f"no env steps are recorded in {listed(stepless)}: the runs are compared at equal updates", *notes)
    return RunReport(f"Comparison of {len(runs)} runs at {where}", sections, None, damage, notes)


def _metrics(runs: Sequence[ComparedRun], options: ComparisonOptions) -> list[str]:
    for run in runs:
        for name in options.metrics:
            if not matching(run.history, [name]):
                raise UnknownMetricError(f"{run.record.id}: {unknown_metric(name, run.history.columns)}")
    patterns = options.metrics or (*DEFAULT_METRICS, "*")
    common = _in_common(runs)
    ordered = [name for pattern in patterns for name in sorted(common & set(matching(runs[0].history, [pattern])))]
    return list(dict.fromkeys(ordered))[: None if options.metrics else MOST_METRICS]


def _in_common(runs: Sequence[ComparedRun]) -> set[str]:
    return set.intersection(*(set(matching(run.history, ["*"])) for run in runs))


def _left_out(runs: Sequence[ComparedRun], options: ComparisonOptions, metrics: Sequence[str]) -> str:
    """Return a sentence on the metrics that all runs have but that are not compared; empty if all are."""
    rest = sorted(_in_common(runs) - set(metrics))
    if not metrics:
        return "The runs have no metric in common."
    return f"Also in all runs, to choose with -m: {', '.join(rest)}." if rest and not options.metrics else ""


def _runs(groups: Sequence[SeedGroup]) -> ReportSection:
    rows = []
    for letter, group in zip(_letters(groups), groups, strict=True):
        for run in group.runs:
            totals = [run.compute.total(axis) for axis in ("env_steps", "games", "seconds", "flops", "money")]
            steps, _, seconds, *_ = totals
            speed = steps / seconds if steps and seconds else None
            seed = run.seed if run.seed is None or type(run.seed) is int else str(run.seed)
            rows.append((run.record.id, letter, seed, run.record.status, *totals, speed))
    columns = ("run", "group", "seed", "status", *("env steps", "games", "seconds", "FLOPs", "cost", "env steps / s"))
    return ReportSection("Runs", (), (ReportTable(columns, tuple(rows)),))


def _letters(groups: Sequence[SeedGroup]) -> list[str]:
    return [chr(ord("A") + number) if number < 26 else str(number + 1) for number in range(len(groups))]


def _differences_of_config(groups: Sequence[SeedGroup]) -> ReportSection:
    title = "Differences of configuration"
    if len(groups) == 1:
        same = groups[0].seeds < len(groups[0].runs)
        text = "The runs have one configuration, apart from seeds." if same else "The runs differ only in their seeds."
        return ReportSection(title, (text,))
    rows = tuple((name, *values) for name, values in config_differences(groups))
    return ReportSection(title, (), (ReportTable(("option", *(group.label for group in groups)), rows),))


def _values(
    groups: Sequence[SeedGroup], metrics: Sequence[str], limit: float, where: str, left_out: str
) -> ReportSection:
    rows = [(metric, *(_group_value(group, metric, limit) for group in groups)) for metric in metrics]
    text = f"Means of the last tenth before {where}; of several runs the mean and its 95 % Student t interval"
    text += ", for rates within [0, 1]; of two runs the mean alone, since their interval is 12.7 times their distance."
    table = ReportTable(("metric", *(group.label for group in groups)), tuple(rows))
    return ReportSection(f"Metrics at {where}", (text, left_out) if left_out else (text,), (table,))


def _group_value(group: SeedGroup, metric: str, limit: float) -> Cell:
    values = np.array([run.value(metric, limit) for run in group.runs])
    values = values[np.isfinite(values)]
    if len(values) <= 2:
        return float(values.mean()) if len(values) else None
    return mean_estimate(values, least=0.0, most=1.0) if metric.endswith(RATES) else mean_estimate(values)


def _paired(groups: Sequence[SeedGroup], metrics: Sequence[str], limit: float) -> list[ReportSection]:
    """Return the differences of each other group from the first."""
    base, *candidates = groups
    sections = []
    text = (
        f"Means over pairs of seeds, or over runs, where there are several; fewer than {LEAST_SEEDS} give no verdict, "
        "since their interval is too narrow. With one run a side they are over windows of the whole curve, drawn in "
        "blocks of neighbours; such an interval says nothing of other seeds."
    )
    for other in candidates:
        rows = []
        for metric in metrics:
            if gap := difference(base, other, metric, limit):
                rows.append((metric, gap.estimate, gap.verdict, gap.basis))
        table = ReportTable(("metric", "difference [95 % bootstrap]", "verdict", "mean over"), tuple(rows))
        sections.append(ReportSection(f"{other.label} minus {base.label}", (text,), (table,)))
    return sections


def _power_laws(runs: Sequence[ComparedRun], options: ComparisonOptions) -> ReportSection:
    """Return exponents per run over the first known measure, and fits across all runs for every measure."""
    title = "Power law"
    metric = reward_metric(runs[0].history, options.compute.reward)
    if metric is None or any(metric not in run.history.columns for run in runs):
        return ReportSection(title, ("The runs have no reward in common; choose one with --reward.",))
    axes = [axis for axis in LAW_AXES if all(axis in run.compute.axes for run in runs)]
    rows, text, plots = [], [f"{metric} = a compute^b."], []
    for axis in axes:
        name = label(axis, options.compute.price)
        points = [(run.record.id, run.compute.axes[axis], run.history.columns[metric]) for run in runs]
        if axis == axes[0]:
            rows += [row for run_id, x, y in points if (row := _run_law(run_id, name, x, y, text))]
        try:
            law = fit_runs([(x, y) for _, x, y in points])
        except PowerLawError as error:
            text += [f"Across the runs: {error}."] if axis == axes[0] else []
            continue
        rows.append(("all runs", name, *law_cells(law)))
        plots.append(law_plot(f"{metric} and {AXES[axis]}", name, points, law))
    tables = (ReportTable(("run", *LAW_COLUMNS), tuple(rows)),) if rows else ()
    return ReportSection(title, tuple(text), tables, tuple(plots[:3]))


def _run_law(run_id: str, name: str, x: np.ndarray, y: np.ndarray, text: list[str]) -> tuple[Cell, ...] | None:
    try:
        return (run_id, name, *law_cells(fit_run(x, y)))
    except PowerLawError as error:
        text.append(f"{run_id}: {error}.")
        return None


def _curves(groups: Sequence[SeedGroup], metrics: Sequence[str], limit: float, equal: str) -> ReportSection:
    """Return a plot per metric: each run thin, the mean of its group thick."""
    grid = (np.arange(GRID) + 0.5) / GRID * limit
    plots = []
    for metric in metrics[:MOST_PLOTS]:
        lines = []
        for k, group in enumerate(groups):
            if len(group.runs) > 1:
                lines += [line(run.record.id, grid, run.curve(metric, limit), group=k, thin=True) for run in group.runs]
            lines.append(line(group.label, grid, group_curve(group, metric, limit), group=k))
        plots.append(LinePlot(metric, EQUAL[equal], tuple(lines)))
    return ReportSection("Curves", (), (), plots_with_lines(plots))
