"""Runs to compare: grouped by configuration without the seed, and aligned at equal steps, seconds or updates.

All runs are compared up to the compute that every one of them reached. The value of a metric there is the mean over the
last tenth of that compute, or the last value before it where a metric is written seldom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.eval.analysis.options import find_run
from sparring.eval.analysis.record import History, RunRecord, RunSource, flatten, option
from sparring.eval.analysis.reports.power_law import Compute, ComputeChoice, compute_of, difference_of_means, mean_of
from sparring.eval.stats.aggregate import Estimate

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
    """Runs that differ only in their seed; several may have the same one, or an unknown one."""

    label: str
    runs: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        """Number of different seeds, 0 if one is unknown."""
        return 0 if any(run.seed is None for run in self.runs) else len({repr(run.seed) for run in self.runs})


@dataclass(frozen=True)
class PairedDifference:
    """Difference of a group from the baseline, what it is a mean of, and from how many seeds a side (0: none)."""

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
    for number, run in enumerate(runs):
        flat = flatten(run.record.config, lists=True)
        same = {key: value for key, value in flat.items() if not _ignored(key)}
        groups.setdefault(repr(sorted(same.items())) if flat else number, []).append(run)
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

    Of runs with one seed the mean is paired; runs that are left out are counted in what the difference is a mean of.
    One run each: the mean difference of their curves, with blocks of neighbouring windows; it says nothing of seeds.
    """
    ours, theirs = (_by_seed(group, metric, limit) for group in (other, base))
    shared = sorted(ours.keys() & theirs.keys() - {UNKNOWN_SEED})
    if len(shared) >= 2:
        pairs = np.array([np.mean(ours[seed]) - np.mean(theirs[seed]) for seed in shared])
        used = sum(len(values[seed]) for values in (ours, theirs) for seed in shared)
        basis = f"{len(shared)} pairs of seeds"
        basis += f", means of {used} runs" if used > 2 * len(shared) else ""
        rest = len(other.runs) + len(base.runs) - used
        basis += f"; {rest} run{'s' * (rest > 1)} without a partner or a value" if rest else ""
        return PairedDifference(mean_of(pairs), basis, len(shared))
    if len(other.runs) > 1 and len(base.runs) > 1 and ours and theirs:
        values = [np.concatenate([*side.values()]) for side in (ours, theirs)]
        sizes = [len(side) for side in values]
        seeds = all(group.seeds == len(group.runs) for group in (other, base))
        basis = f"{sizes[0]} and {sizes[1]} {'seeds' if seeds else 'runs'}"
        least = min(len(side.get(UNKNOWN_SEED, ())) + len(side.keys() - {UNKNOWN_SEED}) for side in (ours, theirs))
        return PairedDifference(difference_of_means(*values), basis, least)
    curves = [np.array([run.curve(metric, limit) for run in group.runs]) for group in (other, base)]
    gap = _column_means(curves[0]) - _column_means(curves[1])
    known = gap[np.isfinite(gap)]
    if len(known) < 4:
        return None
    return PairedDifference(mean_of(known, dependent=True), f"{len(known)} windows", 0)


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
        known = [name for name in EQUAL if name != equal and (name == "updates" or _axis(name) in compute.axes)]
        hint = f"use --equal {' or '.join(known)}" if known and len(history.step) else "leave the run out"
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
    name, more = group[0].record.id, len(group) - 1
    unit = "seed" if SeedGroup("", tuple(group)).seeds == len(group) else "run"
    return f"{name} and {more} more {unit}{'s' * (more > 1)}" if more else name


def _ignored(name: str) -> bool:
    return name in SAME_OPTIONS or name.startswith("logger.")
