"""Output of every source of runs: a record per run, its history, and the protocol of a source.

N is the number of rows of a history, one per update. A value that is absent, null or not finite in the source is NaN in
a column: the same run reads the same from every source.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from sparring.configs.core.errors import InputError, suggestion

Status = Literal["running", "completed", "killed", "failed", "empty"]
X_AXES = ("_step", "_timestamp", "env_steps")
"""Row number, unix seconds, environment steps."""
DEEPEST, MOST_BITS = 100, 1000
"""Most levels of nested data and most bits of an integer that are read; float64 ends at 1024 bits."""
MOST_SHOWN = 12
"""Most names listed in an error message."""


class RunNotFoundError(InputError):
    """No run of that name in the searched sources; exit code 3. `known` are the names there."""

    known: tuple[str, ...] = ()


class AmbiguousRunError(InputError):
    """A name of several runs; the message lists a unique name for each."""


class UnknownMetricError(InputError):
    """No value of that metric in the run; exit code 3."""


class RunNetworkError(InputError):
    """The W&B server did not answer or rejected the request; exit code 5."""


@dataclass(frozen=True)
class RunRecord:
    """One run, without its history."""

    id: str
    """Name of the run, unique in its source; NAME:ID if several share the name."""
    source: str
    """folder, wandb-offline, tensorboard, trackio or wandb."""
    path: str
    """Folder, file, or ENTITY/PROJECT/ID in the cloud."""
    status: Status
    created: float
    """Unix seconds."""
    updated: float
    config: dict[str, Any] = field(default_factory=dict)
    """Nested plain data."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Last value of each metric; sizes, commit, command and device where known."""
    tags: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    """Unreadable parts, one line each."""
    notes: tuple[str, ...] = ()
    """Omitted parts, one line each, such as rows replaced by later ones."""
    group: str = ""
    """Its group in W&B, empty without one."""


@dataclass(frozen=True)
class History:
    """Rows of one run, in the order of updates."""

    step: np.ndarray
    """Number of the step from 1, the update; W&B's own step for runs without env steps. int64 [N]."""
    timestamp: np.ndarray
    """Unix seconds, NaN where unknown. float64 [N]."""
    env_steps: np.ndarray
    """Environment steps, -1 where unknown. int64 [N]."""
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    """Values by metric, NaN where absent. float64 [N] each."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Events between rows: env_steps, kind, event."""
    damage: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """The rows' places [N] on each of `X_AXES`."""
        return dict(zip(X_AXES, (self.step, self.timestamp, self.env_steps), strict=True))

    def series(self, name: str, x_axis: str = "_step") -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of a metric, float64 [P] each, where both are known."""
        y, x = self.columns[name], self.axes[x_axis].astype(np.float64)
        valid = ~np.isnan(y) & ((x >= 0) if x_axis == "env_steps" else ~np.isnan(x))
        return x[valid], y[valid]


class RunSource(Protocol):
    """One source of runs."""

    name: str

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first."""

    def names(self) -> Iterable[str]:
        """Return the names of the runs; empty if that would cost a request."""

    def record(self, id: str) -> RunRecord:
        """Return one run, its summary and damage from all of its files. Raises `RunNotFoundError`."""

    def history(self, id: str) -> History:
        """Return a run's rows. Raises `RunNotFoundError`."""

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return files of a run: name, kind, bytes, sha256 (None if unknown), path. Raises `RunNotFoundError`."""


def option(config: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted option in nested plain data, None where it is absent."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def flatten(plain: Mapping[str, Any], prefix: str = "", *, lists: bool = False) -> dict[str, Any]:
    """Return the values of nested data by dotted name; with `lists` also those in lists of data: phases.0.updates."""
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        name = f"{prefix}{key}"
        if lists and isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        flat |= flatten(value, f"{name}.", lists=lists) if isinstance(value, Mapping) and value else {name: value}
    return flat


def unknown_metric(name: str, metrics: Iterable[str]) -> str:
    """Return the message for a metric without values: the keys of its group, else the groups, and the nearest."""
    names = sorted(metrics)
    group = [key for key in names if key.partition("/")[0] == name.partition("/")[0]]
    listed = group or sorted({key.partition("/")[0] + "/" for key in names if "/" in key}) or names
    return f"no value of metric {name!r}: the run has {_some(listed) or 'none'}{suggestion(name, names, likeness=0.65)}"


def newest_first(source: str, runs: Iterable[tuple[str, str, Callable[[], RunRecord]]]) -> list[RunRecord]:
    """Return the records of runs, (name, path, reader) each; a failure is stored as damage of its run."""
    records = []
    for name, path, read in runs:
        try:
            records.append(read())
        except Exception as error:
            damage = (f"{path}: cannot be read ({type(error).__name__}: {error})",)
            records.append(RunRecord(name, source, path, "empty", 0.0, 0.0, damage=damage))
    return sorted(records, key=lambda run: run.updated, reverse=True)


def unusable_data(value: Any) -> str:
    """Return why untrusted plain data cannot be shown (nested too deeply, number too long); empty if it can."""
    level = [value]
    for _ in range(DEEPEST):
        if any(isinstance(item, int) and item.bit_length() > MOST_BITS for item in level):
            return "contains an integer with hundreds of digits"
        nested = (
            item.values() if isinstance(item, Mapping) else item for item in level if isinstance(item, Mapping | list)
        )
        level = [inner for each in nested for inner in each]
        if not level:
            return ""
    return f"is nested more than {DEEPEST} deep"


def unique_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return each run's display name by its id: its own name, or NAME:ID if that would match another run too."""
    counts = Counter([*names.values(), *(id for id, name in names.items() if id != name)])
    return {id: f"{name}:{id}" if counts[name] > 1 else name for id, name in names.items()}


def matching_id(text: str, names: Mapping[str, str], where: str) -> str:
    """Return the id of the run that `text` names by its id, its name or NAME:ID; `names` are the names by id.

    Raises `RunNotFoundError`, or `AmbiguousRunError` with the runs if it matches several.
    """
    fits = [id for id, name in names.items() if text in (id, name, f"{name}:{id}")]
    if len(fits) > 1:
        each = _some([f"{names[id]}:{id}" for id in fits])
        raise AmbiguousRunError(f"{text!r} matches {len(fits)} runs in {where}: name one of {each}")
    if not fits:
        raise not_found(text, [*names, *names.values()], where)
    return fits[0]


def not_found(id: str, choices: Iterable[str], where: str) -> RunNotFoundError:
    """Return the error for an unknown run, with the nearest names."""
    names = sorted(set(choices))
    near = difflib.get_close_matches(id, names, n=3, cutoff=0.5)
    rest = f"did you mean {', '.join(near)}?" if near else f"known: {_some(names)}" if names else "there are no runs"
    error = RunNotFoundError(f"no run {id!r} in {where}; {rest}")
    error.known = tuple(names)
    return error


def _some(names: Sequence[str]) -> str:
    """Return the first names with commas, and the number of others."""
    remainder = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + remainder


STATISTICS = ("count", "first", "last", "min", "max", "mean", "std", "slope")


def history_rows(history: History) -> list[dict[str, Any]]:
    """Return the rows as objects, with `_step`, `_timestamp`, `env_steps`, and the metrics that have a value."""
    lists = {key: column.tolist() for key, column in sorted(history.columns.items())}
    steps, times = history.step.tolist(), history.timestamp.tolist()
    env_steps = history.env_steps.tolist()
    rows = []
    for i in range(len(steps)):
        row: dict[str, Any] = {"_step": steps[i]}
        row |= {"_timestamp": times[i]} if times[i] == times[i] else {}
        row |= {"env_steps": env_steps[i]} if env_steps[i] >= 0 else {}
        rows.append(row | {key: values[i] for key, values in lists.items() if values[i] == values[i]})
    return rows


def wide_rows(history: History, metrics: Sequence[str], x_axis: str) -> list[list[Any]]:
    """Return a row [x, value of each metric] for each row of the history in which one of them has a value."""
    columns = (history.axes[x_axis].tolist(), *(history.columns[metric].tolist() for metric in metrics))
    rows = map(list, zip(*columns, strict=True))
    return [row for row in rows if any(value == value for value in row[1:])]


def statistics(x: np.ndarray, y: np.ndarray) -> dict[str, float | int]:
    """Return figures of a series of P >= 1 values; std of a sample, least-squares slope per unit of x."""
    spread = float(y.std(ddof=1)) if len(y) > 1 else 0.0
    centred = x - x.mean()
    scale = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / scale if scale > 0 else 0.0
    ends = {"count": len(y), "first": float(y[0]), "last": float(y[-1])}
    return ends | {"min": float(y.min()), "max": float(y.max()), "mean": float(y.mean()), "std": spread, "slope": slope}
