"""Cost of a sweep, the power law of its reward against compute, and its analysis as text and plain data.

Compute is counted per run as in `analyze` and added up over the seeds of a letter. The power law is fitted to all runs
of the sweep together, and to the seeds of each letter against the first measure of compute; both need three runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparring.eval.analysis.record import History
from sparring.eval.analysis.reports import power_law
from sparring.eval.analysis.reports.report import cell_text, number
from sparring.eval.analysis.reports.run_report import LAW_COLUMNS, law_cells, reward_metric
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sweep_analysis import ChosenRuns, RunFigures, SweepAnalysis, joined, tied
from sparring.eval.analysis.sweeps.sweep_folder import DONE, SweepFolder, ranked_trials, search_summary, shown
from sparring.eval.stats.tables import table

LAW_AXES = ("games", "tokens", "flops", "seconds", "money", "env_steps")


@dataclass(frozen=True)
class SweepCompute:
    """Compute of a sweep."""

    totals: dict[str, dict[str, float]]
    """By letter ("all" for the sweep): total of each measure of compute over the seeds, in its label."""
    reward: str
    """Metric of the power law, empty if the runs do not share one."""
    laws: tuple[tuple[str, str, power_law.PowerLaw], ...]
    """Letter or "all", label of the measure, and the fit."""
    problem: str
    """Why a fit across the sweep failed, empty if it did not."""


@dataclass(frozen=True)
class _Seed:
    letter: str
    history: History
    compute: power_law.Compute


def sweep_compute(
    analysis: SweepAnalysis, folders: RunFolders | ChosenRuns, choice: power_law.ComputeChoice
) -> SweepCompute:
    """Return the compute of a sweep's runs in `folders`. Raises `UnknownMetricError` if they lack the reward."""
    seeds = [
        _Seed(run.letter, history, power_law.compute_of(record, history, choice))
        for run in analysis.runs
        for seed in run.seeds
        if len((history := folders.history(seed.name)).step) and (record := folders.record(seed.name))
    ]
    letters = list(dict.fromkeys(seed.letter for seed in seeds))
    totals = {letter: _totals([seed for seed in seeds if seed.letter == letter], choice) for letter in letters}
    totals |= {"all": _totals(seeds, choice)} if len(letters) > 1 else {}
    metrics = {reward_metric(seed.history, choice.reward) for seed in seeds}
    metric = metrics.pop() if len(metrics) == 1 else None
    if not metric:
        return SweepCompute(totals, "", (), "the runs have no reward in common; choose one with --reward")
    axes = [axis for axis in LAW_AXES if all(axis in seed.compute.axes for seed in seeds)]
    laws: list[tuple[str, str, power_law.PowerLaw]] = []
    problem = "no measure of compute is known in all runs"
    for axis in axes:
        law = _fit(seeds, axis, metric)
        problem = law if isinstance(law, str) else ""
        laws += [("all", power_law.label(axis, choice.price), law)] if isinstance(law, power_law.PowerLaw) else []
    for letter in letters if axes and len(letters) > 1 else ():
        law = _fit([seed for seed in seeds if seed.letter == letter], axes[0], metric)
        laws += [(letter, power_law.label(axes[0], choice.price), law)] if isinstance(law, power_law.PowerLaw) else []
    return SweepCompute(totals, metric, tuple(laws), "" if laws else problem)


def _totals(seeds: Sequence[_Seed], choice: power_law.ComputeChoice) -> dict[str, float]:
    """Return the totals of the measures that all seeds have, and games or env steps for each second."""
    axes = [axis for axis in LAW_AXES if seeds and all(axis in seed.compute.axes for seed in seeds)]
    sums = {axis: sum(seed.compute.total(axis) or 0.0 for seed in seeds) for axis in axes}
    totals = {power_law.label(axis, choice.price): value for axis, value in sums.items()}
    seconds = sums.get("seconds")
    speeds = {
        f"{power_law.label(axis)} / s": sums[axis] / seconds
        for axis in ("games", "env_steps")
        if seconds and axis in sums
    }
    return totals | speeds


def _fit(seeds: Sequence[_Seed], axis: str, metric: str) -> power_law.PowerLaw | str:
    """Return the fit across runs, or the reason why it failed."""
    points: list[tuple[np.ndarray, np.ndarray]] = [
        (seed.compute.axes[axis], seed.history.columns[metric]) for seed in seeds
    ]
    try:
        return power_law.fit_runs(points)
    except power_law.PowerLawError as error:
        return str(error)


DIGITS = {"Elo gap": "+.0f", "base_model Elo": ".0f", "reference drop": ".0f", "win rate": ".1%", "top-3 rate": ".1%"}
"""Formats of columns; others have four significant digits."""


def sweep_markdown(analysis: SweepAnalysis, compute: SweepCompute) -> str:
    """Return the table, the ranking and the criteria as markdown that is also readable in a terminal."""
    file = analysis.file
    headings = ["run", "description", "seeds done", *analysis.columns]
    rows = [_row(run, analysis.columns) for run in _ranked(analysis)]
    parts = [f"# Sweep {analysis.name}", f"Hypothesis: {file.hypothesis}", table(headings, rows), _ranking(analysis)]
    if analysis.criteria:
        lines = [f"- {result.state}: `{result.criterion}` ({result.evidence})" for result in analysis.criteria]
        parts.append("Criteria:\n\n" + "\n".join(lines))
    parts += _compute(compute)
    return "\n\n".join(parts) + "\n"


def sweep_plain(analysis: SweepAnalysis, compute: SweepCompute) -> dict[str, Any]:
    """Return the analysis as JSON-like data; values that are unknown are NaN."""
    runs = [
        {
            "run": run.letter,
            "description": run.description,
            "seeds": [{"name": seed.name, "seed": seed.seed, "outcome": seed.outcome} for seed in run.seeds],
            "values": {name: list(run.values[name]) for name in analysis.columns},
            "mean": {name: run.mean(name) for name in analysis.columns},
            "std": {name: run.std(name) for name in analysis.columns},
            "no_elo_gap": run.no_elo_gap,
        }
        for run in _ranked(analysis)
    ]
    return {
        "kind": "sweep",
        "sweep": analysis.name,
        "hypothesis": analysis.file.hypothesis,
        "primary": {"measure": str(analysis.file.primary.measure), "goal": analysis.file.primary.goal},
        "runs": runs,
        "ranking": list(analysis.ranking),
        "expected": list(analysis.file.expected),
        "kendall_tau": analysis.tau,
        "unresolved": [list(pair) for pair in analysis.unresolved],
        "criteria": [
            {"criterion": str(entry.criterion), "state": entry.state, "evidence": entry.evidence}
            for entry in analysis.criteria
        ],
        "compute": compute.totals,
        "power_law": {
            "reward": compute.reward,
            "problem": compute.problem,
            "fits": [{"runs": runs, "compute": axis, **asdict(law)} for runs, axis, law in compute.laws],
        },
    }


def sweep_cells(analysis: SweepAnalysis) -> tuple[list[str], list[list[Any]]]:
    """Return headings and rows, one per run and seed set, for CSV; values that are unknown are NaN."""
    headings = ["run", "description", "seeds_done", *analysis.columns]
    cells = [
        [run.letter, run.description, str(_done(run)), *(run.mean(name) for name in analysis.columns)]
        for run in _ranked(analysis)
    ]
    return headings, cells


def search_markdown(folder: SweepFolder) -> str:
    """Return a search's trials, best first, and its summary."""
    headings, rows = search_cells(folder)
    return f"# Search {folder.name}\n\n{table(headings, rows)}\n\n" + "  \n".join(search_summary(folder)) + "\n"


def search_plain(folder: SweepFolder) -> dict[str, Any]:
    """Return a search's trials as JSON-like data."""
    summary = search_summary(folder)
    trials = ranked_trials(folder)
    return {"kind": "search", "sweep": folder.name, "trials": trials, "text": summary}


def search_cells(folder: SweepFolder) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row per trial, best first."""
    trials = ranked_trials(folder)
    keys = list(dict.fromkeys(key for trial in trials for key in trial.get("options", {})))
    headings = ["trial", "outcome", "updates", "seconds", "value", *keys]
    rows = [
        [
            *(trial["run"], trial["outcome"], str(trial.get("updates", "")), f"{trial.get('seconds', 0.0):.0f}"),
            shown(trial["value"]) if "value" in trial else "",
            *(shown(trial.get("options", {}).get(key, "")) for key in keys),
        ]
        for trial in trials
    ]
    return headings, rows


def _compute(compute: SweepCompute) -> list[str]:
    """Return cost, throughput and the power law as markdown."""
    if not compute.totals:
        return []
    columns = list(dict.fromkeys(name for totals in compute.totals.values() for name in totals))
    rows = [[letter, *(number(totals.get(name)) for name in columns)] for letter, totals in compute.totals.items()]
    parts = ["Compute and throughput, sums over the seeds:", table(["run", *columns], rows)]
    if compute.problem:
        return [*parts, f"Power law of {compute.reward or 'the reward'}: no fit, {compute.problem}."]
    laws = [[runs, axis, *map(cell_text, law_cells(law))] for runs, axis, law in compute.laws]
    head = f"Power law {compute.reward} = a compute^b; the interval resamples whole runs:"
    return [*parts, head, table(["run", *LAW_COLUMNS], laws)]


def _ranking(analysis: SweepAnalysis) -> str:
    primary, expected = analysis.file.primary, analysis.file.expected
    if not analysis.ranking:
        return f"Ranking by {primary.measure}: no run has a value yet."
    lines = []
    if "Elo gap" in analysis.columns:
        gaps = tied(analysis.runs, "Elo gap")
        lines.append(
            f"By the Elo gap, best checkpoint minus base model, which counts where the base gains too: {gaps}."
        )
    lines += [f"{run.letter} has no Elo gap: {run.no_elo_gap}." for run in analysis.runs if run.no_elo_gap]
    ranking = joined(analysis.ranking, analysis.unresolved)
    lines.append(f"Ranking by {primary.measure}, {primary.goal} is better: {ranking}; = is a tie.")
    if expected:
        same = [letter for letter in expected if letter in analysis.ranking] == list(analysis.ranking)
        same = same and not analysis.unresolved
        tau = "" if math.isnan(analysis.tau) else f" (Kendall's tau {analysis.tau:+.2f})"
        lines.append(f"Expected: {', '.join(expected)}; {'as expected' if same else 'not as expected'}{tau}.")
    else:
        lines.append("No ranking was expected.")
    if analysis.unresolved:
        pairs = ", ".join(" and ".join(pair) for pair in analysis.unresolved)
        lines.append(f"Equal, or closer than two standard errors, so tied: {pairs}.")
    elif all(len(run.seeds) < 2 for run in analysis.runs):
        lines.append("One seed each: no error is known, and the order may be chance.")
    return "  \n".join(lines)


def _ranked(analysis: SweepAnalysis) -> list[RunFigures]:
    order = {letter: index for index, letter in enumerate(analysis.ranking)}
    return sorted(analysis.runs, key=lambda run: order.get(run.letter, len(order)))


def _row(run: RunFigures, columns: tuple[str, ...]) -> list[str]:
    cells = [_cell(run, column) for column in columns]
    return [run.letter, run.description, f"{_done(run)}/{len(run.seeds)}", *cells]


def _cell(run: RunFigures, column: str) -> str:
    form = DIGITS.get(column, ".4g")
    if not run.values[column]:
        return ""
    spread = run.std(column)
    return f"{run.mean(column):{form}}" + ("" if math.isnan(spread) else f" ± {spread:{form.lstrip('+')}}")


def _done(run: RunFigures) -> int:
    return sum(seed.outcome == DONE for seed in run.seeds)
