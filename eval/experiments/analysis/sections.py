"""The steps of an analysis as sections: each names its metrics, and is left out where a run has none of them.

The order is that of the original workflow: state, training, performance, extraction, rollouts, prefix cache, power law,
league, evaluation; the curriculum is added for PPO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.eval.experiments.analysis.derived import curriculum_shifts
from sparring.eval.experiments.analysis.series import Series, matching, series_of
from sparring.eval.experiments.record import History
from sparring.eval.experiments.reports.report import (
    Cell,
    LinePlot,
    ReportSection,
    ReportTable,
    line,
    plots_with_lines,
)

END = 0.1
"""Fraction of the values averaged as the start and the end of a series."""
MOST_METRICS, MOST_PLOTS = 24, 8


@dataclass(frozen=True)
class SectionPlan:
    """Title and metric patterns of a section; those of `plotted` are drawn."""

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
    """Return the section of a plan: its metrics at start, end and extremes; None if the run has none of them."""
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
    known = bool((history.env_steps >= 0).all())
    x = series.env_steps if known else series.rows
    marks = tuple(float(shift.env_steps if known else shift.row) for shift in curriculum_shifts(history))
    return LinePlot(
        metric, "env steps" if known else "updates", (line("", x.astype(float), series.values),), marks=marks
    )


def performance(history: History, text: Sequence[str]) -> ReportSection | None:
    """Return throughput and the shares of rollout and training."""
    said, columns = list(text), history.columns
    rollout, training = _sum(columns.get("benchmark/rollout_time_s")), _sum(columns.get("benchmark/training_time_s"))
    if rollout and training:
        overlap = _sum(columns.get("benchmark/pipeline_overlap_s"))
        trajectories = _sum(columns.get("benchmark/trajectories"))
        said.append(
            f"{trajectories / rollout:.3g} trajectories per second of rollout; training takes "
            f"{training / (rollout + training):.0%} of the work, {overlap / (rollout + training):.0%} runs in parallel."
        )
    acting, learning = _sum(columns.get("time/rollout_seconds")), _sum(columns.get("time/update_seconds"))
    if acting and learning:
        said.append(f"Rollouts take {acting / (acting + learning):.0%} of rollouts and updates together.")
    return planned(PERFORMANCE, history, said)


def cache_text(history: History) -> list[str]:
    """Return the hit rate after warm-up and the tokens saved."""
    asked, hits = (history.columns.get(f"cache/{name}") for name in ("total_queries", "total_hits"))
    if asked is None or hits is None or not _sum(asked):
        return []
    found, total = _sum(hits), _sum(asked)
    return [f"{found:,.0f} of {total:,.0f} prompt tokens were found in the cache ({found / total:.0%})."]


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
