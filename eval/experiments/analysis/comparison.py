"""Runs to compare: grouped by configuration without the seed, and aligned at equal steps, seconds or updates.

All runs are compared up to the compute that every one of them reached. The value of a metric there is the mean over the
last tenth of that compute, or the last value before it where a metric is written seldom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.eval.experiments.analysis.compute import Compute, Price, compute_of
from sparring.eval.experiments.analysis.resampling import difference_of_means, mean_of
from sparring.eval.experiments.analysis.rules import option
from sparring.eval.experiments.find import find_run
from sparring.eval.experiments.record import History, RunRecord, RunSource
from sparring.eval.stats.aggregate import Estimate

EQUAL: Mapping[str, str] = {"steps": "env steps", "seconds": "seconds", "updates": "updates"}
SAME_OPTIONS = ("seed", "name", "checkpoint_dir", "resume", "threads", "device")
"""Options in which the runs of a group may differ, and all of logger."""
GRID = 60
"""Windows of a curve that is averaged over runs or compared between two runs."""
LAST = 0.1
LEAST_SEEDS = 6
"""Seeds a side from which there is a verdict: five pairs differ with one sign by chance once in 16 times."""


class ComparisonError(InputError):
    """Raised for runs that cannot be compared; the message says why and what to do."""


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of a comparison; `equal` is a key of `EQUAL`, empty metrics mean those that all runs have."""

    metrics: tuple[str, ...] = ()
    equal: str = "steps"
    reward: str = ""
    parameters: int | None = None
    price: Price | None = None


@dataclass(frozen=True)
class ComparedRun:
    """A run with its history, its compute, and x [N], the axis that the runs are aligned on."""

    record: RunRecord
    history: History
    compute: Compute
    x: np.ndarray

    @property
    def seed(self) -> Any:
        """Seed of the run, None if its configuration has none."""
        return option(self.record.config, "seed")

    def values(self, metric: str, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """Return x and the finite values of a metric up to `limit`."""
        y = self.history.columns.get(metric, np.full(len(self.x), np.nan))
        known = np.isfinite(y) & (self.x <= limit)
        return self.x[known], y[known]

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
    """Runs that differ only in their seed."""

    label: str
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True)
class PairedDifference:
    """Difference of a group from the baseline, what it is a mean of, and from how many seeds a side (0: from none)."""

    estimate: Estimate
    basis: str
    seeds: int

    @property
    def verdict(self) -> str:
        """Return what the interval allows to say, empty if it holds 0."""
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
    choose("value of --equal", options.equal, EQUAL)
    if len(names) < 2:
        raise ComparisonError(f"compare needs at least two different runs, not {len(names)}: name them")
    return tuple(_load(name, sources, options) for name in names)


def grouped(runs: Sequence[ComparedRun]) -> list[SeedGroup]:
    """Group runs by their configuration without seed and place, in order of appearance."""
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        flat = flattened(run.record.config)
        same = {key: value for key, value in flat.items() if not _ignored(key)}
        groups.setdefault(repr(sorted(same.items())) if flat else run.record.id, []).append(run)
    return [SeedGroup(_label(group), tuple(group)) for group in groups.values()]


def config_differences(groups: Sequence[SeedGroup]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the options in which groups differ, with the value of each group; a dash where it is absent."""
    configs = [flattened(group.runs[0].record.config) for group in groups]
    names = sorted({name for config in configs for name in config if not _ignored(name)})
    rows = [(name, tuple(str(config.get(name, "-")) for config in configs)) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def common_limit(runs: Sequence[ComparedRun]) -> float:
    """Return the compute that all runs reached."""
    return min(float(run.x[-1]) for run in runs)


def difference(base: SeedGroup, other: SeedGroup, metric: str, limit: float) -> PairedDifference | None:
    """Return other - base at equal compute, by seed where seeds are shared; None without values.

    One run each: the mean difference of their curves, with blocks of neighbouring windows; it says nothing of seeds.
    """
    ours, theirs = (_by_seed(group, metric, limit) for group in (other, base))
    shared = sorted(ours.keys() & theirs.keys(), key=str)
    if len(shared) >= 2:
        pairs = np.array([ours[seed] - theirs[seed] for seed in shared])
        return PairedDifference(mean_of(pairs), f"{len(shared)} pairs of seeds", len(shared))
    if len(other.runs) > 1 and len(base.runs) > 1 and ours and theirs:
        estimate = difference_of_means(np.array([*ours.values()]), np.array([*theirs.values()]))
        return PairedDifference(estimate, f"{len(ours)} and {len(theirs)} seeds", min(len(ours), len(theirs)))
    curves = [np.array([run.curve(metric, limit) for run in group.runs]) for group in (other, base)]
    gap = _column_means(curves[0]) - _column_means(curves[1])
    known = gap[np.isfinite(gap)]
    if len(known) < 4:
        return None
    return PairedDifference(mean_of(known, dependent=True), f"{len(known)} windows", 0)


def group_curve(group: SeedGroup, metric: str, limit: float) -> np.ndarray:
    """Return the mean curve [GRID] of a group."""
    return _column_means(np.array([run.curve(metric, limit) for run in group.runs]))


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested options under dotted names, such as phases.0.updates; lists of plain values stay values."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        found |= flattened(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return found


def _load(name: str, sources: Sequence[RunSource], options: ComparisonOptions) -> ComparedRun:
    source, record = find_run(name, sources)
    history = source.history(record.id)
    compute = compute_of(record, history, parameters=options.parameters, price=options.price)
    x = history.step.astype(np.float64) if options.equal == "updates" else compute.axes.get(_axis(options.equal))
    if x is None or not len(x) or not x[-1] > 0:
        known = [name for name in EQUAL if name == "updates" or _axis(name) in compute.axes]
        raise ComparisonError(f"{record.id}: no {EQUAL[options.equal]} are recorded; use --equal {' or '.join(known)}")
    return ComparedRun(record, history, compute, x)


def _axis(equal: str) -> str:
    return "env_steps" if equal == "steps" else equal


def _by_seed(group: SeedGroup, metric: str, limit: float) -> dict[Any, float]:
    values = {run.seed: run.value(metric, limit) for run in group.runs}
    return {seed: value for seed, value in values.items() if np.isfinite(value)}


def _column_means(curves: np.ndarray) -> np.ndarray:
    """Return the means over rows of [R, GRID], of the known values."""
    counts = np.isfinite(curves).sum(axis=0)
    return np.divide(np.nansum(curves, axis=0), counts, out=np.full(curves.shape[1], np.nan), where=counts > 0)


def _label(group: Sequence[ComparedRun]) -> str:
    names = [run.record.id for run in group]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more seed{'s' * (len(names) > 2)}"


def _ignored(name: str) -> bool:
    return name in SAME_OPTIONS or name.startswith("logger.")
