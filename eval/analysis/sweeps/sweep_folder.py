"""The folder of a sweep, `checkpoints/NAME-sweep/`, the measures of its runs, and the results and cost of a search.

The folder has the sweep's file, and a configuration, a log and an outcome per run. `sweep.yaml` is the content of the
sweep file (empty for a grid). Files of a run have the run's name; a sweep repeated with more seeds reuses existing
runs. A measure is read from the rows of a run's metrics.jsonl. Optuna is not needed here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sparring.agents.run.folder import FINAL
from sparring.agents.run.log_files import METRICS
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import read_json, read_regular, read_regular_text, write_atomically
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain, read_yaml, to_plain
from sparring.eval.analysis.sweeps.criteria import Measure
from sparring.eval.analysis.sweeps.file import parse_sweep

SUFFIX = "-sweep"
DONE, PRUNED, STOPPED, NEVER = "done", "pruned", "stopped", "did not end"
FINISHED = (DONE, PRUNED)
SWEEP = "sweep.yaml"
NO_RUNS = (SWEEP, "multirun.yaml")
"""Files that are not a run's configuration; Hydra writes the second."""


@dataclass(frozen=True)
class SweepFolder:
    """Files of one sweep; run folders lie beside it."""

    path: Path

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.path.name.removesuffix(SUFFIX)

    def runs(self) -> list[str]:
        """Return the names of the runs, in order of name."""
        return sorted(path.stem for path in self.path.glob("*.yaml") if path.name not in NO_RUNS)

    def create(self, content: Mapping[str, Any], *, fixed: bool) -> None:
        """Make the folder and store the sweep file's content; if `fixed`, refuse one that differs from before."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror}); give another checkpoint_dir=") from error
        if fixed and (self.path / SWEEP).exists() and self.content() != dict(content):
            raise ConfigError(
                f"{self.path / SWEEP}: differs from the sweep file now, and a search goes on only with the same; "
                "restore the file or give another name="
            )
        write_atomically(self.path / SWEEP, yaml.safe_dump(dict(content), sort_keys=False))

    def content(self) -> dict[str, Any]:
        """Return the content of the sweep file; empty for a grid. Raises `ConfigError` for a file that is not YAML."""
        path = self.path / SWEEP
        try:
            content = read_yaml(read_regular_text(path)) if path.is_file() else {}
        except (UnicodeDecodeError, ConfigError) as error:
            why = error if isinstance(error, ConfigError) else "is not text in UTF-8"
            raise ConfigError(f"{path}: {why}; restore the file, or give another name=") from error
        return content if isinstance(content, dict) else {}

    def put(self, run: RunConfig) -> bool:
        """Store a run to launch, and return True; False if it is finished already with this configuration."""
        text = yaml.safe_dump(to_plain(run), sort_keys=False)
        path, before = self._file(run.name, "yaml"), self.outcome(run.name)
        same = path.is_file() and read_regular_text(path) == text
        if same and before.get("outcome") in FINISHED and (self.run_folder(run.name) / FINAL).exists():
            return False
        write_atomically(path, text)
        self.record(run.name, {"outcome": NEVER, "seconds": before.get("seconds", 0.0)})
        return True

    def config(self, name: str) -> RunConfig:
        """Return the configuration of a run; raises `ConfigError` if it is not of this version."""
        return from_plain(read_yaml(read_regular_text(self._file(name, "yaml"))))

    def log(self, name: str) -> Path:
        """Return the path of a run's output."""
        return self._file(name, "log")

    def record(self, name: str, outcome: Mapping[str, Any]) -> None:
        """Write a run's outcome."""
        write_atomically(self._file(name, "json"), json.dumps(dict(outcome)) + "\n")

    def outcome(self, name: str) -> dict[str, Any]:
        """Return a run's outcome; `did not end` where none was written."""
        path = self._file(name, "json")
        try:
            outcome = read_json(path) if path.is_file() else {}
        except ValueError:
            outcome = {}
        return {"outcome": NEVER, **outcome} if isinstance(outcome, dict) else {"outcome": NEVER}

    def run_folder(self, name: str) -> Path:
        """Return the run's own folder."""
        return self.path.parent / name

    def _file(self, name: str, kind: str) -> Path:
        return self.path / f"{name}.{kind}"


Row = Mapping[str, Any]
LONGEST = 308
"""Most digits of an integer that fits a float."""


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a run's metrics, one per update; none without the file, and a line cut short is left out.

    Raises `InputError` naming the file and line of text that is not UTF-8, and of a number that no float holds.
    """
    path = folder / METRICS
    lines = read_regular(path).splitlines() if path.is_file() else []
    return [row for number, line in enumerate(lines, start=1) if (row := _row(line, f"{path}:{number}"))]


def values(rows: Sequence[Row], metric: str) -> np.ndarray:
    """Return the finite values float64 [N] of a metric, a mean over the names where it has a `*`."""
    pattern = re.compile(re.escape(metric).replace(r"\*", "[^/]+"))
    names = {name for row in rows for name in row if pattern.fullmatch(name)}
    by_row = ([float(row[name]) for name in names if is_finite(row.get(name))] for row in rows)
    return np.array([math.fsum(some) / len(some) for some in by_row if some], np.float64)


def measured(rows: Sequence[Row], measure: Measure) -> float:
    """Return a measure of a run's rows; NaN where its metric has no value, and a count of 0 only in a run with rows."""
    return measure.of(values(rows, measure.metric)) if rows else math.nan


def is_finite(value: Any) -> bool:
    """Return whether a value of a row is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _row(line: bytes, where: str) -> Row | None:
    try:
        row = json.loads(line.decode(), parse_int=_whole)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not text in UTF-8; remove the line") from error
    except InputError as error:
        raise InputError(f"{where}: {error}; remove the line") from error
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _whole(text: str) -> int:
    if len(text) > LONGEST:
        raise InputError(f"has a number of {len(text.lstrip('-'))} digits, and at most {LONGEST} are read")
    return int(text)


def search_summary(folder: SweepFolder) -> list[str]:
    """Return lines on the trials, their cost, and the best one."""
    file = parse_sweep(folder.name, folder.content(), folder.path)
    trials = ranked_trials(folder)
    states = [trial["outcome"] for trial in trials]
    unfinished = sum(state == NEVER or state.startswith(STOPPED) for state in states)
    counts = {"completed": states.count(DONE), "pruned": states.count(PRUNED), "unfinished": unfinished}
    counts["failed"] = len(states) - sum(counts.values())
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    updates = sum(int(trial.get("updates", 0)) for trial in trials)
    seconds = sum(float(trial.get("seconds", 0.0)) for trial in trials)
    lines = [f"{len(trials)} trials: {parts}; {updates} updates, {seconds:.0f} s of training"]
    if not trials or trials[0]["outcome"] != DONE:
        return [*lines, "no trial is complete, so none is the best"]
    best = trials[0]
    options = " ".join(f"{key}={shown(value)}" for key, value in best["options"].items())
    return [*lines, f"best: {best['run']}, {file.primary.measure} = {best['value']:.4g} with {options}"]


def ranked_trials(folder: SweepFolder) -> list[dict[str, Any]]:
    """Return the trials' outcomes: completed ones first, best first, then the others by name."""
    file = parse_sweep(folder.name, folder.content(), folder.path)
    sign = 1.0 if file.primary.goal == "lower" else -1.0
    trials = [{"run": name, **folder.outcome(name)} for name in folder.runs()]

    def order(trial: dict[str, Any]) -> tuple[bool, float, str]:
        complete = trial["outcome"] == DONE and "value" in trial
        return not complete, sign * trial["value"] if complete else 0.0, trial["run"]

    return sorted(trials, key=order)


def shown(value: Any) -> str:
    """Return a drawn value with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
