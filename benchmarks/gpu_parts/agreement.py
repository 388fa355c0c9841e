"""Comparison of two states of the same matches: rows equal to the bit, close, or different.

A CPU and a GPU round differently: a GPU multiplies and adds in one step and has its own sine. One tick after the same
state, numbers may differ in their last bits. Everything may differ where a decision depends on such a bit (does this
bullet hit, is that target within the cone). So a row is bit-identical, close (integers equal, others within a tolerance
of their size), or different. The share of different rows decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from benchmarks.gpu_parts.part import Found, PartOptions, percent

TOLERANCE = 1e-5
"""Relative to a float's size, at least 1: for a position of 1,000 m, 1 cm."""
SEEN_TOLERANCE = {"obs": 1e-3, "final_obs": 1e-3, "reward": 1e-3}
"""For values derived from the state: an arc cosine near 1 turns a difference of 1e-7 into one of 3e-4."""
PADDING = "pad"
AT_MOST_DIFFERENT = 0.001
"""Share of matches x ticks, each from the same state, in which a decision may depend on rounding."""
JUDGED_TICK, AT_LEAST_CLOSE = 10, 0.98
"""Of free play: the tick that is judged, and the share of matches that are not different then."""

Arrays = Mapping[str, np.ndarray]


@dataclass
class Agreement:
    """Rows compared so far, by kind; `fields` counts the rows in which a field was different.

    `largest` is the largest difference of a float of the state in rows that are not different; `largest_seen` is the
    same for observations and rewards. `tolerances` by field, "array.field", replace `TOLERANCE`.
    """

    tolerances: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0
    equal: int = 0
    different: int = 0
    largest: float = 0.0
    largest_seen: float = 0.0
    fields: Counter[str] = field(default_factory=Counter)

    def add(self, one: Arrays, other: Arrays) -> np.ndarray:
        """Compare two states, arrays [N, ...] by name; return the different rows, bool [N]."""
        columns = _columns(one, other)
        rows = len(columns[0][1])
        equal, wrong = np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
        gaps = {False: np.zeros(rows), True: np.zeros(rows)}  # of the state, of what is seen
        for name, mine, theirs in columns:
            same = (mine.view(_bits(mine)) == theirs.view(_bits(theirs))).reshape(rows, -1).all(axis=1)
            off, size = _gaps(mine, theirs)
            allowed = self.tolerances.get(name, SEEN_TOLERANCE.get(name, TOLERANCE))
            far = (off > allowed * size).any(axis=1) if mine.dtype.kind == "f" else ~same
            equal &= same
            wrong |= far
            seen = name in SEEN_TOLERANCE
            gaps[seen] = np.maximum(gaps[seen], off.max(axis=1, initial=0.0))
            self.fields[name] += int(far.sum())
        self.rows += rows
        self.equal += int(equal.sum())
        self.different += int(wrong.sum())
        self.largest = max(self.largest, float(gaps[False][~wrong].max(initial=0.0)))
        self.largest_seen = max(self.largest_seen, float(gaps[True][~wrong].max(initial=0.0)))
        return wrong

    @property
    def equal_share(self) -> float:
        """Share of rows that are equal to the bit."""
        return self.equal / max(self.rows, 1)

    @property
    def different_share(self) -> float:
        """Share of rows that are different."""
        return self.different / max(self.rows, 1)

    def worst_fields(self, most: int = 4) -> str:
        """Return the fields that were different most often, with their counts."""
        found = [f"{name} {count}" for name, count in self.fields.most_common(most) if count]
        return ", ".join(found) or "none"

    def cells(self) -> list[str]:
        """Return a row of a table: rows, shares equal and different, largest gaps, worst fields."""
        shares = [percent(self.equal_share), percent(self.different_share)]
        return [f"{self.rows:,}", *shares, f"{self.largest:.2g}", f"{self.largest_seen:.2g}", self.worst_fields()]


Looks = dict[int, Agreement]
"""Agreement of free play by tick."""


@dataclass(frozen=True)
class Comparison:
    """The same matches on the CPU and on a device, with the same random actions.

    Attributes:
        build: begins the matches on a device, by its name.
        step: plays a tick in all batches given, with actions of the generator.
        see: returns the state and the results of a tick on the host.
        tolerances: by field, as in `Agreement`.
        options: device and seed.

    """

    build: Callable[[str], Any]
    step: Callable[[Any, torch.Generator], None]
    see: Callable[[Any], Arrays]
    tolerances: Mapping[str, float]
    options: PartOptions

    def judge(self, name: str, ticks: int, looks: tuple[int, ...], found: Found) -> tuple[Agreement, Looks]:
        """Compare in step and freely, and add the two checks."""
        stepwise, free = self.in_step(ticks), self.freely(ticks, looks)
        share = stepwise.different_share
        found.checks[f"{name}: at most {AT_MOST_DIFFERENT:.1%} of ticks differ"] = share <= AT_MOST_DIFFERENT
        early = free[min(free, key=lambda tick: abs(tick - JUDGED_TICK))]
        close = early.different_share <= 1.0 - AT_LEAST_CLOSE
        found.checks[f"{name}: playing freely, {AT_LEAST_CLOSE:.0%} agree after {JUDGED_TICK} ticks"] = close
        return stepwise, free

    def in_step(self, ticks: int) -> Agreement:
        """Compare every tick; before each, the device's matches are set to the CPU's."""
        draws, agreement = torch.Generator().manual_seed(self.options.seed), Agreement(self.tolerances)
        with closing(self.build("cpu")) as cpu, closing(self.build(self.options.device)) as device:
            for _ in range(ticks):
                device.load_state_dict(cpu.state_dict())
                self.step((cpu, device), draws)
                agreement.add(self.see(cpu), self.see(device))
        return agreement

    def freely(self, ticks: int, looks: tuple[int, ...]) -> Looks:
        """Compare the states after the ticks of `looks`, and at the end, without synchronization."""
        draws, free = torch.Generator().manual_seed(self.options.seed), {}
        with closing(self.build("cpu")) as cpu, closing(self.build(self.options.device)) as device:
            for tick in range(1, ticks + 1):
                self.step((cpu, device), draws)
                if tick in looks or tick == ticks:
                    free[tick] = Agreement(self.tolerances)
                    free[tick].add(cpu.snapshot(), device.snapshot())
        return free


def pairings(players: int, given: int, copies: int) -> np.ndarray:
    """Return players int32 [N, 2]: each of `players` and `given` actions against each other in both seats."""
    ids = (*range(players), given)
    return np.array([[one, other] for one in ids for other in ids] * copies, dtype=np.int32)


def _columns(one: Arrays, other: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return plain arrays by name: of structured arrays their fields, without padding."""
    found = []
    for name, values in one.items():
        if values.dtype.names is None:
            found.append((name, np.ascontiguousarray(values), np.ascontiguousarray(other[name])))
            continue
        for key in values.dtype.names:
            if not key.startswith(PADDING):
                mine, theirs = (np.ascontiguousarray(part[name][key]) for part in (one, other))
                found.append((f"{name}.{key}", mine, theirs))
    return found


def _bits(values: np.ndarray) -> str:
    return f"u{values.dtype.itemsize}"


def _gaps(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return differences float64 [N, ...] of floats, and the sizes they are relative to; NaN counts as infinite."""
    rows = len(one)
    if one.dtype.kind != "f":
        return np.zeros((rows, 1)), np.ones((rows, 1))
    mine, theirs = (values.astype(np.float64).reshape(rows, -1) for values in (one, other))
    with np.errstate(invalid="ignore"):
        off = np.abs(mine - theirs)
    off[np.isnan(mine) != np.isnan(theirs)] = np.inf
    size = np.where(np.isfinite(theirs), np.maximum(1.0, np.abs(theirs)), 1.0)
    return np.nan_to_num(off, nan=0.0, posinf=np.inf), size
