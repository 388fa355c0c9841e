"""Cumulative compute of a run: env steps, games, tokens, years, seconds, floating-point operations and money.

Seconds are those of the rows' timestamps where they are known, else sums of the time that every row reports. FLOPs are
estimates with P parameters: 2 P for a forward pass of a sample or token, 6 P for a forward and backward pass. PPO:
(2 + 6 E) P for each env step in an update of E epochs. GRPO: 2 P for each token that was computed for sampling (those
found in the prefix cache are not), 8 P for each prompt token of a trained sample (6 P, and 2 P for the reference).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparring.eval.experiments.analysis.series import first_known
from sparring.eval.experiments.record import History, RunRecord

AXES: Mapping[str, str] = {
    "env_steps": "env steps",
    "games": "games",
    "years": "simulated years",
    "tokens": "prompt tokens",
    "seconds": "seconds",
    "flops": "FLOPs (estimate)",
    "money": "cost",
}
"""Names of the measures of compute, and their labels."""
GAMES = ("rollout/matches", "rollout/episodes", "game/total_games")
HOUR = 3600.0
_WEIGHTS = re.compile(r"\((?P<count>[\d,]+) weights\)")


@dataclass(frozen=True)
class Price:
    """Price of an hour of the machine, in a currency."""

    per_hour: float
    currency: str = "USD"


@dataclass(frozen=True)
class Compute:
    """Cumulative compute at the end of each of N rows, float64 [N] by the names of `AXES`, without unknown ones."""

    axes: Mapping[str, np.ndarray]
    parameters: int | None
    price: Price | None

    def total(self, axis: str) -> float | None:
        """Return the compute of the whole run, None if unknown."""
        return float(self.axes[axis][-1]) if axis in self.axes and len(self.axes[axis]) else None


def compute_of(
    record: RunRecord, history: History, *, parameters: int | None = None, price: Price | None = None
) -> Compute:
    """Return the compute of a run; `parameters` are read from the run's events if not given."""
    count = parameters or _parameters(record, history)
    axes: dict[str, np.ndarray] = {}
    if (history.env_steps >= 0).all() and len(history.env_steps):
        axes["env_steps"] = history.env_steps.astype(np.float64)
    games = first_known(history, GAMES)
    sums = {"games": games, "tokens": first_known(history, ("cache/prompt_tokens", "train/tokens"))}
    axes |= {name: _total(history, metric) for name, metric in sums.items() if metric}
    if "power_law/cumulative_simulated_years" in history.columns:
        axes["years"] = np.fmax.accumulate(history.columns["power_law/cumulative_simulated_years"])
    seconds = _seconds(history)
    if seconds is not None:
        axes["seconds"] = np.cumsum(seconds)
        if price:
            axes["money"] = axes["seconds"] / HOUR * price.per_hour
    if count and (flops := _flops(history, count)) is not None:
        axes["flops"] = np.cumsum(flops)
    return Compute(axes, count, price)


def label(axis: str, price: Price | None = None) -> str:
    """Return the label of a measure of compute."""
    return f"cost ({price.currency} at {price.per_hour:g} an hour)" if axis == "money" and price else AXES[axis]


def _seconds(history: History) -> np.ndarray | None:
    """Return the seconds [N] that each row took; None if nothing says so."""
    stamps, get = history.timestamp, history.columns.get
    if np.isfinite(stamps).all() and len(stamps) > 1 and stamps[-1] > stamps[0]:
        steps = np.maximum(np.diff(stamps), 0.0)  # The first row's start is unknown: it is taken as usual.
        return np.concatenate([[np.median(steps)], steps])
    for speed, work in (
        ("time/steps_per_second", _env_steps(history)),
        ("time/tokens_per_second", get("train/tokens")),
    ):
        if speed in history.columns and work is not None:
            known = np.nan_to_num(history.columns[speed])
            return np.divide(np.nan_to_num(work), known, out=np.zeros(len(known)), where=known > 0)
    parts = [get(f"benchmark/{name}") for name in ("rollout_time_s", "training_time_s", "pipeline_overlap_s")]
    if parts[0] is None or parts[1] is None:
        return None
    rollout, training, overlap = (np.zeros(len(stamps)) if part is None else np.nan_to_num(part) for part in parts)
    return np.maximum(rollout + training - overlap, 0.0)


def _env_steps(history: History) -> np.ndarray | None:
    if not len(history.env_steps) or (history.env_steps < 0).any():
        return None
    return np.maximum(np.diff(history.env_steps, prepend=0), 0).astype(np.float64)


def _flops(history: History, parameters: int) -> np.ndarray | None:
    if "cache/total_queries" in history.columns:
        computed = _known(history, "cache/total_queries") - _known(history, "cache/total_hits")
        trained = _known(history, "cache/prompt_tokens") * (1.0 - _known(history, "processing/skip_rate"))
        return parameters * (2.0 * np.maximum(computed, 0.0) + 8.0 * trained)
    steps = _env_steps(history)
    if steps is None or "train/epochs_completed" not in history.columns:
        return None
    return parameters * (2.0 + 6.0 * _known(history, "train/epochs_completed")) * steps


def _known(history: History, metric: str) -> np.ndarray:
    return np.nan_to_num(history.columns.get(metric, np.zeros(len(history.step))))


def _total(history: History, metric: str) -> np.ndarray:
    return np.cumsum(_known(history, metric))


def _parameters(record: RunRecord, history: History) -> int | None:
    """Return the weights of the network, which the first event of a PPO run names; None if unknown."""
    stored = record.summary.get("parameters")
    if isinstance(stored, int) and stored > 0:
        return stored
    found = (_WEIGHTS.search(str(event.get("event", ""))) for event in history.events[:5])
    return next((int(match["count"].replace(",", "")) for match in found if match), None)
