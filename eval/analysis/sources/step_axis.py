"""Which rows of a run were logged again, if the logger's own step does not show it.

A resumed run has several parts: files of W&B under one id, or rows before and after the logger's step falls. W&B counts
the step of an offline part from 0, whatever the run did before. This step cannot distinguish a part that continues from
one that repeats. The run's own step metric can. It is named by `define_metric`, is `global_step` or similar, or is an
integer that always rises from part to part. A row is logged again if a later part has one of its metrics at the same
step of that metric or an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations

import numpy as np

UNIT = r"(env_*)?(steps?|time_*steps?|samples|frames|tokens|iter(ation)?s?|updates?|epochs?)"
OF_RUN = re.compile(rf"(.*/)?(global|env|total|num|n)_*{UNIT}|(.*/)?{UNIT}_(total|so_far|seen)", re.IGNORECASE)
"""Names of steps of a whole run, such as train/global_step and time/total_timesteps."""
STEP = re.compile(rf"(.*/)?(\w*_)?{UNIT}", re.IGNORECASE)
"""Names of any step, also of one that each process may count for itself."""
CLOCK = re.compile(r"time(?!_*step)|stamp|second|clock", re.IGNORECASE)
RESTART = 2
"""A part that begins at one of the first three values of an earlier part, or below, begins again."""
LARGEST = 2.0**53


def step_metric(
    columns: Mapping[str, tuple[np.ndarray, np.ndarray]],
    parts: np.ndarray,
    declared: Sequence[str] = (),
    *,
    by_name: bool = False,
) -> str | None:
    """Return the metric that counts the steps of a run of several parts, or None.

    `columns` are row numbers [P] and values [P] by metric, and `parts` [N] the part of each row, rising. Only metrics
    that continue from part to part count. Priority: a name of a whole run's step, a `declared` metric, a name of any
    step, the finest metric. A whole run's step may also restart: its rows were then logged again. With `by_name` only
    declared and named metrics count.
    """
    ranked = []
    for name, (rows, values) in columns.items():
        of_run, is_named = bool(OF_RUN.fullmatch(name)), name in declared or bool(STEP.fullmatch(name))
        pieces = np.split(values, np.flatnonzero(np.diff(parts[rows])) + 1)
        if len(pieces) < (2 if is_named else parts[-1] + 1) or (not is_named and (by_name or CLOCK.search(name))):
            continue
        if np.ptp(values) == 0 or not all(_counts(piece, strictly=not is_named) for piece in pieces):
            continue
        goes_on = all(later[0] > piece[min(RESTART, len(piece) - 1)] for piece, later in combinations(pieces, 2))
        if goes_on or of_run:
            ranked.append(
                (goes_on and of_run, goes_on and name in declared, of_run, is_named, len(np.unique(values)), name)
            )
    return max(ranked, key=lambda candidate: candidate[:-1])[-1] if ranked else None


def _counts(values: np.ndarray, *, strictly: bool) -> bool:
    """Return whether values are whole numbers from 0 that rise: at each step if `strictly`, else in all."""
    integral = bool(((values >= 0) & (values < LARGEST) & (values == np.floor(values))).all())
    rises = np.diff(values) > 0 if strictly else np.append(np.diff(values) >= 0, len(values) < 2 or np.ptp(values) > 0)
    return integral and bool(rises.all())


def filled(rows: np.ndarray, values: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return a metric's value for all rows [N]: the last before the row in its part, else the first of the part.

    NaN in a part without a value.
    """
    full = np.full(len(parts), np.nan)
    before = np.searchsorted(rows, np.arange(len(parts)), side="right") - 1
    for index in (before + 1, before):
        valid = np.flatnonzero((index >= 0) & (index < len(rows)))
        valid = valid[parts[rows[index[valid]]] == parts[valid]]
        full[valid] = values[index[valid]]
    return full


def repeated(
    columns: Mapping[str, tuple[np.ndarray, np.ndarray]],
    parts: np.ndarray,
    env_steps: np.ndarray,
    logger_steps: np.ndarray,
    declared: Sequence[tuple[str, str]] = (),
) -> tuple[np.ndarray, str, list[str]]:
    """Return the rows, bool [N], that a later part logs again, the metric that shows it, and a note if none does.

    `env_steps` [N] are negative where unknown. `declared` has a pattern of metrics and their step metric each.
    """
    notes = list[str]()
    counted = [part for part in range(1, parts[-1] + 1) if _is_count(logger_steps[parts == part])]
    steps = [step for _, step in declared]
    if len(recorded := np.flatnonzero(env_steps >= 0)):
        name, axis = "env_steps", filled(recorded, env_steps[recorded], parts)
    elif name := step_metric(columns, parts, steps, by_name=not counted) or "":
        axis = filled(*columns[name], parts)
    else:
        axis = np.where(np.isin(parts, counted), np.nan, logger_steps)
        if counted:
            notes.append(
                f"the logger's step restarts at 0 in {len(counted)} later parts, and no metric continues; "
                "all rows are kept, in order of the parts; log the run's own step as global_step"
            )
    repeats = np.zeros(len(parts), bool)
    for metric, (rows, _) in columns.items():
        own_steps = (step for pattern, step in declared if fnmatchcase(metric, pattern) and step in columns)
        step = next((step for step in own_steps if step_metric({step: columns[step]}, parts, [step])), None)
        part, values = parts[rows], (filled(*columns[step], parts) if step else axis)[rows]
        least = np.minimum.accumulate(np.append(np.where(np.isnan(values), np.inf, values), np.inf)[::-1])[::-1]
        repeats[rows] |= values >= least[np.searchsorted(part, part, side="right")]
    return repeats, name, notes


def _is_count(steps: np.ndarray) -> bool:
    """Return whether steps [P] of a part are the logger's count from 0, unrelated to earlier parts."""
    return bool(len(steps)) and bool((steps == np.arange(len(steps))).all())
