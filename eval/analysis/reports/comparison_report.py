"""Report that compares runs: the first group is the baseline of all differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.configs.core.errors import listed
from sparring.eval.analysis.record import UnknownMetricError, unknown_metric
from sparring.eval.analysis.reports.comparison import (
    EQUAL,
    GRID,
    LEAST_SEEDS,
    ComparedRun,
    ComparisonOptions,
    SeedGroup,
    common_limit,
    config_differences,
    difference,
    group_curve,
    grouped,
)
from sparring.eval.analysis.reports.power_law import AXES, PowerLawError, fit_run, fit_runs, label
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
from sparring.eval.stats.aggregate import mean_estimate

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
        _values(groups, metrics, limit, where),
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
    patterns = options.metrics or DEFAULT_METRICS
    common = set.intersection(*(set(matching(run.history, patterns)) for run in runs))
    ordered = [name for pattern in patterns for name in sorted(common & set(matching(runs[0].history, [pattern])))]
    return list(dict.fromkeys(ordered))[: None if options.metrics else MOST_METRICS]


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


def _values(groups: Sequence[SeedGroup], metrics: Sequence[str], limit: float, where: str) -> ReportSection:
    rows = [(metric, *(_group_value(group, metric, limit) for group in groups)) for metric in metrics]
    text = f"Means of the last tenth before {where}; of several runs the mean and its 95 % Student t interval"
    text += ", for rates within [0, 1]; of two runs the mean alone, since their interval is 12.7 times their distance."
    table = ReportTable(("metric", *(group.label for group in groups)), tuple(rows))
    return ReportSection(f"Metrics at {where}", (text,), (table,))


def _group_value(group: SeedGroup, metric: str, limit: float) -> Cell:
    values = np.array([run.value(metric, limit) for run in group.runs])
    values = values[np.isfinite(values)]
    if len(values) <= 2:
        return float(values.mean()) if len(values) else None
    return mean_estimate(values, least=0.0, most=1.0) if metric.endswith(RATES) else mean_estimate(values)


def _paired(groups: Sequence[SeedGroup], metrics: Sequence[str], limit: float) -> list[ReportSection]:
    """Return the differences of each other group from the first."""
    base, *others = groups
    sections = []
    text = (
        f"Means over pairs of seeds, or over runs, where there are several; fewer than {LEAST_SEEDS} give no verdict, "
        "since their interval is too narrow. With one run a side they are over windows of the whole curve, drawn in "
        "blocks of neighbours; such an interval says nothing of other seeds."
    )
    for other in others:
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
    rows, said, plots = [], [f"{metric} = a compute^b."], []
    for axis in axes:
        name = label(axis, options.compute.price)
        points = [(run.record.id, run.compute.axes[axis], run.history.columns[metric]) for run in runs]
        if axis == axes[0]:
            rows += [row for run_id, x, y in points if (row := _run_law(run_id, name, x, y, said))]
        try:
            law = fit_runs([(x, y) for _, x, y in points])
        except PowerLawError as error:
            said += [f"Across the runs: {error}."] if axis == axes[0] else []
            continue
        rows.append(("all runs", name, *law_cells(law)))
        plots.append(law_plot(f"{metric} and {AXES[axis]}", name, points, law))
    tables = (ReportTable(("run", *LAW_COLUMNS), tuple(rows)),) if rows else ()
    return ReportSection(title, tuple(said), tables, tuple(plots[:3]))


def _run_law(run_id: str, name: str, x: np.ndarray, y: np.ndarray, said: list[str]) -> tuple[Cell, ...] | None:
    try:
        return (run_id, name, *law_cells(fit_run(x, y)))
    except PowerLawError as error:
        said.append(f"{run_id}: {error}.")
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
