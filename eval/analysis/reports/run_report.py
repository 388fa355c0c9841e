"""Report on one run: the steps of the analysis in order, with cost, throughput, power laws and the rules' findings.

A step names its metrics, and is left out where a run lacks all of them. The order follows the original workflow:
state, training, performance, extraction, rollouts, prefix cache, power law, league, evaluation; the curriculum is added
for PPO.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparring.eval.analysis.record import (
    History,
    RunRecord,
    UnknownMetricError,
    history_rows,
    option,
    unknown_metric,
)
from sparring.eval.analysis.reports import power_law
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
from sparring.eval.analysis.reports.rules import RULES, apply_rules, load_rules, skipped_rules
from sparring.eval.analysis.reports.series import (
    BASE_MODEL,
    Series,
    curriculum_shifts,
    elo_gap,
    first_known,
    matching,
    no_elo_gap,
    series_of,
    with_derived,
)

END = 0.1
"""Fraction of the values averaged as the start and the end of a series."""
MOST_METRICS, MOST_PLOTS = 24, 8


@dataclass(frozen=True)
class SectionPlan:
    """Title and metric patterns of a section; the metrics in `plotted` are drawn."""

    title: str
    metrics: tuple[str, ...]
    plotted: tuple[str, ...]


TRAINING = SectionPlan(
    "Training",
    (
        *("benchmark/loss", "benchmark/kl", "benchmark/reward_mean", "benchmark/reward_std", "benchmark/grad_norm"),
        *("kl/max", "kl/beta", "loss/kl_share", "ppo/clip_fraction", "policy/entropy_mean", "processing/skip_rate"),
        *("rollout/return", "rollout/recent_return", "rollout/win_rate", "train/approx_kl", "train/clip_fraction"),
        *("train/entropy", "train/explained_variance", "train/policy_loss", "train/value_loss", "train/grad_norm"),
        *("train/answer_loss", "train/learning_rate", "guard/rollbacks", "guard/alerts"),
    ),
    (
        *("benchmark/reward_mean", "benchmark/kl", "benchmark/grad_norm", "policy/entropy_mean", "rollout/return"),
        *("rollout/recent_return", "train/approx_kl", "train/clip_fraction", "train/entropy"),
        *("train/explained_variance", "train/answer_loss"),
    ),
)
PERFORMANCE = SectionPlan(
    "Performance",
    (
        *("benchmark/rollout_time_s", "benchmark/training_time_s", "benchmark/pipeline_overlap_s"),
        *("benchmark/trajectories", "time/*"),
    ),
    ("benchmark/rollout_time_s", "time/steps_per_second", "time/tokens_per_second"),
)
LATER = (
    SectionPlan("Extraction of orders", ("extraction/*",), ("extraction/rate",)),
    SectionPlan("Rollouts", ("rollout/max_*", "rollout/failed_count", "rollout/restarts", "guard/*"), ()),
    SectionPlan("Prefix cache", ("cache/*",), ("cache/hit_rate",)),
)
LEAGUE = SectionPlan(
    "League",
    ("elo/challenger", "elo/win_rate", "elo/games_played", "elo/base_model", "league/*"),
    ("elo/challenger", "elo/base_model", "league/best_elo", "league/elo"),
)
EVALUATION = SectionPlan(
    "Evaluation", ("eval/*", "placement/mean_rank", "placement/top3_rate", "dumbbot/*"), ("eval/*/win_rate",)
)


def planned(plan: SectionPlan, history: History, text: Sequence[str] = ()) -> ReportSection | None:
    """Return the section of a plan: its metrics at start, end and extremes; None if the run lacks all of them."""
    names = matching(history, plan.metrics)
    if not names:
        return ReportSection(plan.title, tuple(text)) if text else None
    rest = (f"{len(names) - MOST_METRICS} further metrics are left out.",) if len(names) > MOST_METRICS else ()
    rows = tuple(_row(series_of(history, name)) for name in names[:MOST_METRICS])
    table = ReportTable(("metric", "start", "end", "lowest", "highest", "at updates"), rows)
    drawn = matching(history, plan.plotted)[:MOST_PLOTS]
    return ReportSection(
        plan.title, (*text, *rest), (table,), plots_with_lines([plot_of(history, name) for name in drawn])
    )


def plot_of(history: History, metric: str) -> LinePlot:
    """Return a metric over env steps, or over updates where env steps are unknown; shifts are marked."""
    series = series_of(history, metric)
    has_env_steps = bool((history.env_steps >= 0).all())
    x = series.env_steps if has_env_steps else series.rows
    marks = tuple(float(shift.env_steps if has_env_steps else shift.row) for shift in curriculum_shifts(history))
    return LinePlot(
        metric, "env steps" if has_env_steps else "updates", (line("", x.astype(float), series.values),), marks=marks
    )


def performance(history: History, text: Sequence[str]) -> ReportSection | None:
    """Return throughput and the shares of rollout and training."""
    sentences, columns = list(text), history.columns
    rollout, training = _sum(columns.get("benchmark/rollout_time_s")), _sum(columns.get("benchmark/training_time_s"))
    if rollout and training:
        overlap = _sum(columns.get("benchmark/pipeline_overlap_s"))
        trajectories = _sum(columns.get("benchmark/trajectories"))
        sentences.append(
            f"{trajectories / rollout:.3g} trajectories per second of rollout; training takes "
            f"{training / (rollout + training):.0%} of the work, {overlap / (rollout + training):.0%} runs in parallel."
        )
    acting, learning = _sum(columns.get("time/rollout_seconds")), _sum(columns.get("time/update_seconds"))
    if acting and learning:
        sentences.append(f"Rollouts take {acting / (acting + learning):.0%} of rollouts and updates together.")
    return planned(PERFORMANCE, history, sentences)


def cache_text(history: History) -> list[str]:
    """Return the hit rate after warm-up and the tokens saved."""
    queries, hits = (history.columns.get(f"cache/{name}") for name in ("total_queries", "total_hits"))
    if queries is None or hits is None or not _sum(queries):
        return []
    saved, total = _sum(hits), _sum(queries)
    return [f"{saved:,.0f} of {total:,.0f} prompt tokens were found in the cache ({saved / total:.0%})."]


def curriculum(history: History) -> ReportSection | None:
    """Return the shifts of the curriculum, with win rates before and after, and the win rate against every bot."""
    names = matching(history, ["curriculum/*/win_rate"])
    shifts = curriculum_shifts(history)
    if not names and not shifts:
        return None
    tables = []
    if shifts:
        rows = tuple((s.row, s.env_steps, s.before, s.after, s.at_end) for s in shifts)
        columns = ("update", "env steps", "win rate before", "just after", "at the end")
        tables.append(ReportTable(columns, rows, "Changes of phase or stage (win rates are means of 10 updates)"))
    bots = tuple(_row(series_of(history, name)) for name in names[:MOST_METRICS])
    if bots:
        tables.append(ReportTable(("metric", "start", "end", "lowest", "highest", "at updates"), bots))
    plots = plots_with_lines([plot_of(history, name) for name in names[:MOST_PLOTS]])
    return ReportSection("Curriculum", (), tuple(tables), plots)


def _row(series: Series) -> tuple[Cell, ...]:
    values, edge = series.values, max(1, int(len(series) * END))
    low, high = int(values.argmin()), int(values.argmax())
    means = float(values[:edge].mean()), float(values[-edge:].mean())
    at = int(series.rows[low]), int(series.rows[high])
    return (series.name, *means, float(values[low]), float(values[high]), at)


def _sum(values: np.ndarray | None) -> float:
    return 0.0 if values is None else float(np.nansum(values))


REWARDS = (
    *("power_law/reward_at_compute", "benchmark/reward_mean", "rollout/recent_return", "rollout/win_rate"),
    *("rollout/return", "rollout/reward"),
)
"""Metrics taken as the reward of a power law, the first that a run has."""
SHOWN_OPTIONS = (
    *("trainer", "env.id", "seed", "model.name", "model.lora_rank", "ppo.learning_rate", "ppo.rollout_steps"),
    *("ppo.minibatch_size", "ppo.epochs", "ppo.target_kl", "env.num_envs", "grpo.learning_rate", "grpo.groups"),
    *("grpo.samples_per_group", "grpo.rollout_horizon_years", "grpo.kl_beta", "grpo.buffer_depth", "grpo.play"),
)


def analyze_run(
    record: RunRecord,
    history: History,
    artifacts: Sequence[dict[str, Any]],
    choice: power_law.ComputeChoice,
    rules_file: Path = RULES,
) -> RunReport:
    """Analyze one run. Raises `RulesError`, and `UnknownMetricError` for a reward that the run does not have."""
    rules = load_rules(rules_file)
    full = with_derived(record, history)
    compute = power_law.compute_of(record, history, choice)
    findings = tuple(apply_rules(rules, full, record.config))
    skipped = skipped_rules(rules, full, record.config)
    sections = [
        _state(record, history, compute),
        planned(TRAINING, history),
        curriculum(history),
        performance(history, throughput(compute)),
        *(planned(plan, history, cache_text(history) if plan.title == "Prefix cache" else ()) for plan in LATER),
        _power_laws(history, compute, choice.reward),
        planned(LEAGUE, history),
        _evaluation(history, artifacts),
        _skipped(skipped, len(rules)),
    ]
    present = tuple(section for section in sections if section)
    return RunReport(
        f"Analysis of {record.id}",
        present,
        findings,
        tuple(dict.fromkeys((*record.damage, *history.damage))),
        tuple(dict.fromkeys((*record.notes, *history.notes))),
        (len(rules) - len(skipped), len(rules)),
    )


def reward_metric(history: History, chosen: str) -> str | None:
    """Return the metric of the reward: `chosen`, or the first known of `REWARDS`. Raises `UnknownMetricError`."""
    if chosen and first_known(history, [chosen]) != chosen:
        raise UnknownMetricError(f"--reward: {unknown_metric(chosen, history.columns)}")
    return chosen or first_known(history, REWARDS)


def throughput(compute: power_law.Compute) -> list[str]:
    """Return sentences on compute per second and the cost."""
    seconds = compute.total("seconds")
    if not seconds:
        return ["Time is unknown: neither timestamps nor times of updates are recorded."]
    speeds = [
        f"{number(total / seconds)} {power_law.AXES[axis]}"
        for axis in ("env_steps", "games", "tokens", "flops")
        if (total := compute.total(axis))
    ]
    sentences = [f"Throughput per second: {', '.join(speeds)}."] if speeds else []
    return [*sentences, _cost(compute, seconds)]


def _cost(compute: power_law.Compute, seconds: float) -> str:
    price = compute.price
    if price is None:
        return f"{seconds / power_law.HOUR:.3g} hours of the machine; give --price for the cost in money."
    total = seconds / power_law.HOUR * price.per_hour
    return f"Cost: {total:.4g} {price.currency}, {seconds / power_law.HOUR:.3g} hours at {price.per_hour:g} an hour."


def _state(record: RunRecord, history: History, compute: power_law.Compute) -> ReportSection:
    rows: list[tuple[Cell, ...]] = [
        ("status", record.status),
        ("source", f"{record.source}: {record.path}"),
        ("last written", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record.updated)) if record.updated else "-"),
        ("updates", len(history.step)),
        *((power_law.AXES[axis], compute.total(axis)) for axis in power_law.AXES if axis in compute.axes),
        ("parameters", compute.parameters),
        ("tags", ", ".join(record.tags) or "-"),
    ]
    rows += [(name, str(value)) for name in SHOWN_OPTIONS if (value := option(record.config, name)) is not None]
    game = f"{option(record.config, 'env.package')}:{option(record.config, 'env.id')}: "
    texts = (str(event.get("event", "")) for event in history.events if event.get("kind") == "info")
    rows += [("game", text.removeprefix(game)) for text in texts if text.startswith(game)][:1]
    alerts = [str(event.get("event", "")) for event in history.events if event.get("kind") == "alert"]
    text = [*_elo_gap(history), *([f"{len(alerts)} alerts; the last: {alerts[-1]}"] if alerts else [])]
    return ReportSection("State and configuration", tuple(text), (ReportTable(("", ""), tuple(rows)),))


def _elo_gap(history: History) -> list[str]:
    """Return a sentence on the Elo gap, which a stronger base does not blur, or on why it is unknown."""
    gap = elo_gap(history_rows(history))
    if gap is None:
        problem = no_elo_gap(matching(history, ["elo/*", "league/*"]))
        return [f"Elo gap unknown: {problem}."] if problem else []
    base = series_of(history, BASE_MODEL).values
    change = f"the base model's own went from {base[0]:.0f} to {base[-1]:.0f}"
    best = f"the best checkpoint's {gap.best:.0f} ({gap.metric})"
    return [f"Elo gap {gap.value:+.0f}: {best} minus the base model's {gap.base:.0f}; {change}."]


def _power_laws(history: History, compute: power_law.Compute, chosen: str) -> ReportSection | None:
    """Return the fit against every known measure of compute, and a plot of the first three."""
    metric = reward_metric(history, chosen)
    if metric is None or not compute.axes:
        return None
    reward, rows, plots = history.columns[metric], [], []
    for axis, values in compute.axes.items():
        name = power_law.label(axis, compute.price)
        try:
            law = power_law.fit_run(values, reward)
        except power_law.PowerLawError as error:
            return ReportSection("Power law", (f"{metric}: no fit: {error}",))
        rows.append((name, *law_cells(law)))
        plots.append(law_plot(f"{metric} and {name}", name, [("", values, reward)], law))
    text = [f"{metric} = a compute^b. An interval of b that holds 0 means no scaling within this run."]
    if curriculum_shifts(history):
        text.append(
            "The curriculum changed the opponents or the physics during the run, so the reward is not one quantity."
        )
    table = ReportTable(LAW_COLUMNS, tuple(rows))
    return ReportSection("Power law", tuple(text), (table,), tuple(plots[:3]))


LAW_COLUMNS = ("compute", "exponent b [95 % interval]", "a", "R2", "points", "left out")


def law_cells(law: power_law.PowerLaw) -> tuple[Cell, ...]:
    """Return the cells of a fit after its name."""
    return law.exponent, law.coefficient, law.r_squared, law.points, law.left_out


def law_plot(
    title: str, x_label: str, runs: Sequence[tuple[str, np.ndarray, np.ndarray]], law: power_law.PowerLaw
) -> LinePlot:
    """Return a log-log plot of runs, (name, compute [N], reward [N]) each, and the fitted line."""
    x = np.concatenate([values[values > 0] for _, values, _ in runs])
    ends = np.geomspace(x.min(), x.max(), 20)
    points = [line(name, values, reward, group=k, dots=True) for k, (name, values, reward) in enumerate(runs)]
    return LinePlot(title, x_label, (*points, line("fit", ends, law.at(ends), group=len(runs))), log=True)


def _skipped(skipped: Sequence[tuple[str, str]], rules: int) -> ReportSection | None:
    """Return the rules that the run could not be asked, with the reasons."""
    if not skipped:
        return None
    text = f"{len(skipped)} of {rules} rules were not looked at:"
    return ReportSection("Rules not looked at", (text,), (ReportTable(("rule", "reason"), tuple(skipped)),))


def _evaluation(history: History, artifacts: Sequence[dict[str, Any]]) -> ReportSection | None:
    kinds = sorted({str(entry.get("kind", "file")) for entry in artifacts})
    counts = [f"{sum(str(entry.get('kind', 'file')) == kind for entry in artifacts)} {kind}" for kind in kinds]
    return planned(EVALUATION, history, [f"Artifacts: {', '.join(counts)}."] if counts else ())
