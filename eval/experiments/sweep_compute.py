"""What a sweep cost, and the power law of its reward against compute.

Compute is counted per run as in `analyze` and added up over the seeds of a letter. The power law is fitted to all runs
of the sweep together, and to the seeds of each letter against the first measure of compute; both need three runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.eval.experiments.analysis.compute import Compute, Price, compute_of, label
from sparring.eval.experiments.analysis.power_law import PowerLaw, PowerLawError, fit_runs
from sparring.eval.experiments.analysis.run_report import reward_metric
from sparring.eval.experiments.record import History
from sparring.eval.experiments.sources.run_folders import RunFolders
from sparring.eval.experiments.sweep_analysis import ChosenRuns, SweepAnalysis

LAW_AXES = ("games", "tokens", "flops", "seconds", "money", "env_steps")


@dataclass(frozen=True)
class ComputeChoice:
    """Basis of the figures: the reward's metric (empty: the first known), the price, and the weights of the network."""

    reward: str = ""
    price: Price | None = None
    parameters: int | None = None


@dataclass(frozen=True)
class SweepCompute:
    """Compute of a sweep."""

    totals: dict[str, dict[str, float]]
    """By letter ("all" for the sweep): total of each measure of compute over the seeds, in its label."""
    reward: str
    """Metric of the power law, empty if the runs have none in common."""
    laws: tuple[tuple[str, str, PowerLaw], ...]
    """Letter or "all", label of the measure, and the fit."""
    problem: str
    """Why there is no fit across the sweep, empty if there is one."""


@dataclass(frozen=True)
class _Seed:
    letter: str
    history: History
    compute: Compute


def sweep_compute(analysis: SweepAnalysis, folders: RunFolders | ChosenRuns, choice: ComputeChoice) -> SweepCompute:
    """Return the compute of a sweep's runs in `folders`. Raises `UnknownMetricError` for a reward that they lack."""
    seeds = [
        _Seed(run.letter, history, compute_of(record, history, parameters=choice.parameters, price=choice.price))
        for run in analysis.runs
        for seed in run.seeds
        if len((history := folders.history(seed.name)).step) and (record := folders.record(seed.name))
    ]
    letters = list(dict.fromkeys(seed.letter for seed in seeds))
    totals = {letter: _totals([seed for seed in seeds if seed.letter == letter], choice) for letter in letters}
    totals |= {"all": _totals(seeds, choice)} if len(letters) > 1 else {}
    metric = _common_reward(seeds, choice)
    if not metric:
        return SweepCompute(totals, "", (), "the runs have no reward in common; choose one with --reward")
    axes = [axis for axis in LAW_AXES if all(axis in seed.compute.axes for seed in seeds)]
    laws: list[tuple[str, str, PowerLaw]] = []
    problem = "no measure of compute is known in all runs"
    for axis in axes:
        law = _fit(seeds, axis, metric)
        problem = law if isinstance(law, str) else ""
        laws += [("all", label(axis, choice.price), law)] if isinstance(law, PowerLaw) else []
    for letter in letters if axes and len(letters) > 1 else ():
        law = _fit([seed for seed in seeds if seed.letter == letter], axes[0], metric)
        laws += [(letter, label(axes[0], choice.price), law)] if isinstance(law, PowerLaw) else []
    return SweepCompute(totals, metric, tuple(laws), "" if laws else problem)


def _totals(seeds: Sequence[_Seed], choice: ComputeChoice) -> dict[str, float]:
    """Return the totals of the measures that all seeds have, and games or env steps for each second."""
    axes = [axis for axis in LAW_AXES if seeds and all(axis in seed.compute.axes for seed in seeds)]
    sums = {axis: sum(seed.compute.total(axis) or 0.0 for seed in seeds) for axis in axes}
    found = {label(axis, choice.price): value for axis, value in sums.items()}
    seconds = sums.get("seconds")
    speeds = {f"{label(axis)} / s": sums[axis] / seconds for axis in ("games", "env_steps") if seconds and axis in sums}
    return found | speeds


def _common_reward(seeds: Sequence[_Seed], choice: ComputeChoice) -> str:
    metrics = {reward_metric(seed.history, choice.reward) for seed in seeds}
    return metrics.pop() or "" if len(metrics) == 1 else ""


def _fit(seeds: Sequence[_Seed], axis: str, metric: str) -> PowerLaw | str:
    """Return the fit across runs, or why there is none."""
    points: list[tuple[np.ndarray, np.ndarray]] = [
        (seed.compute.axes[axis], seed.history.columns[metric]) for seed in seeds
    ]
    try:
        return fit_runs(points)
    except PowerLawError as error:
        return str(error)
