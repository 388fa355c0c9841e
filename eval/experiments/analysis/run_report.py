"""Report on one run: the steps of the analysis in order, with cost, throughput, power laws and the rules' findings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparring.eval.experiments.analysis.compute import AXES, HOUR, Compute, Price, compute_of, label
from sparring.eval.experiments.analysis.derived import curriculum_shifts, with_derived
from sparring.eval.experiments.analysis.power_law import PowerLaw, PowerLawError, fit_run
from sparring.eval.experiments.analysis.rules import RULES, apply_rules, load_rules, option, skipped_rules
from sparring.eval.experiments.analysis.sections import (
    EVALUATION,
    LATER,
    LEAGUE,
    TRAINING,
    cache_text,
    curriculum,
    performance,
    planned,
)
from sparring.eval.experiments.analysis.series import first_known, series_of
from sparring.eval.experiments.record import History, RunRecord, UnknownMetricError, unknown_metric
from sparring.eval.experiments.reports.report import Cell, LinePlot, ReportSection, ReportTable, RunReport, line, number

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


@dataclass(frozen=True)
class AnalysisOptions:
    """Options of an analysis: rules, the reward of power laws, the size of the network, and the machine's price."""

    rules: Path = RULES
    reward: str = ""
    parameters: int | None = None
    price: Price | None = None


def analyze_run(
    record: RunRecord, history: History, artifacts: Sequence[dict[str, Any]], options: AnalysisOptions
) -> RunReport:
    """Analyze one run. Raises `RulesError`, and `UnknownMetricError` for a reward that the run does not have."""
    rules = load_rules(options.rules)
    full = with_derived(record, history)
    compute = compute_of(record, history, parameters=options.parameters, price=options.price)
    findings = tuple(apply_rules(rules, full, record.config))
    sections = [
        _state(record, history, compute),
        planned(TRAINING, history),
        curriculum(history),
        performance(history, throughput(compute)),
        *(planned(plan, history, cache_text(history) if plan.title == "Prefix cache" else ()) for plan in LATER),
        _power_laws(history, compute, options.reward),
        planned(LEAGUE, history),
        _evaluation(history, artifacts),
        _skipped(skipped_rules(rules, full, record.config), len(rules)),
    ]
    kept = tuple(section for section in sections if section)
    return RunReport(
        f"Analysis of {record.id}",
        kept,
        findings,
        tuple(dict.fromkeys((*record.damage, *history.damage))),
        tuple(dict.fromkeys((*record.notes, *history.notes))),
    )


def reward_metric(history: History, wanted: str) -> str | None:
    """Return the metric of the reward: `wanted`, or the first known of `REWARDS`. Raises `UnknownMetricError`."""
    if wanted and first_known(history, [wanted]) != wanted:
        raise UnknownMetricError(f"--reward: {unknown_metric(wanted, history.columns)}")
    return wanted or first_known(history, REWARDS)


def throughput(compute: Compute) -> list[str]:
    """Return sentences on compute per second and the cost."""
    seconds = compute.total("seconds")
    if not seconds:
        return ["Time is unknown: neither timestamps nor times of updates are recorded."]
    speeds = [
        f"{number(total / seconds)} {AXES[axis]}"
        for axis in ("env_steps", "games", "tokens", "flops")
        if (total := compute.total(axis))
    ]
    said = [f"Throughput per second: {', '.join(speeds)}."] if speeds else []
    return [*said, _cost(compute, seconds)]


def _cost(compute: Compute, seconds: float) -> str:
    price = compute.price
    if price is None:
        return f"{seconds / HOUR:.3g} hours of the machine; give --price for the cost in money."
    total = seconds / HOUR * price.per_hour
    return f"Cost: {total:.4g} {price.currency}, {seconds / HOUR:.3g} hours at {price.per_hour:g} an hour."


def _state(record: RunRecord, history: History, compute: Compute) -> ReportSection:
    rows: list[tuple[Cell, ...]] = [
        ("status", record.status),
        ("source", f"{record.source}: {record.path}"),
        ("last written", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record.updated)) if record.updated else "-"),
        ("updates", len(history.step)),
        *((AXES[axis], compute.total(axis)) for axis in AXES if axis in compute.axes),
        ("parameters", compute.parameters),
        ("tags", ", ".join(record.tags) or "-"),
    ]
    rows += [(name, str(value)) for name in SHOWN_OPTIONS if (value := option(record.config, name)) is not None]
    alerts = [str(event.get("event", "")) for event in history.events if event.get("kind") == "alert"]
    text = [*_elo_gap(history), *([f"{len(alerts)} alerts; the last: {alerts[-1]}"] if alerts else [])]
    return ReportSection("State and configuration", tuple(text), (ReportTable(("", ""), tuple(rows)),))


def _elo_gap(history: History) -> list[str]:
    """Return the learner's last rating minus the base model's, the figure that a stronger base does not blur."""
    learner, base = (series_of(history, f"elo/{name}").values for name in ("challenger", "base_model"))
    if not len(learner) or not len(base):
        return []
    change = f"; the base model's own went from {base[0]:.0f} to {base[-1]:.0f}"
    gap = learner[-1] - base[-1]
    return [f"Elo gap {gap:+.0f}: the learner's {learner[-1]:.0f} minus the base model's {base[-1]:.0f}{change}."]


def _power_laws(history: History, compute: Compute, wanted: str) -> ReportSection | None:
    """Return the fit against every known measure of compute, and a plot of the first three."""
    metric = reward_metric(history, wanted)
    if metric is None or not compute.axes:
        return None
    reward, rows, plots = history.columns[metric], [], []
    for axis, values in compute.axes.items():
        name = label(axis, compute.price)
        try:
            law = fit_run(values, reward)
        except PowerLawError as error:
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


def law_cells(law: PowerLaw) -> tuple[Cell, ...]:
    """Return the cells of a fit after its name."""
    return law.exponent, law.coefficient, law.r_squared, law.points, law.left_out


def law_plot(title: str, x_label: str, runs: Sequence[tuple[str, np.ndarray, np.ndarray]], law: PowerLaw) -> LinePlot:
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
    found = [f"{sum(str(entry.get('kind', 'file')) == kind for entry in artifacts)} {kind}" for kind in kinds]
    return planned(EVALUATION, history, [f"Artifacts: {', '.join(found)}."] if found else ())
