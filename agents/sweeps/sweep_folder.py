"""The folder of a sweep, `checkpoints/NAME-sweep/`: its file, and a configuration, a log and an outcome per run.

`sweep.yaml` is the content of the sweep file (empty for a grid). Files of a run have the run's name, so that a sweep
repeated with more seeds finds those it has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import read_regular_text
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain, read_yaml, to_plain

SUFFIX = "-sweep"
DONE, PRUNED, STOPPED, NEVER = "done", "pruned", "stopped", "did not end"
FINISHED = (DONE, PRUNED)
SWEEP = "sweep.yaml"
NO_RUNS = (SWEEP, "multirun.yaml")
"""Files that are no run's configuration; Hydra writes the second."""


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
        """Return the content of the sweep file; empty for a grid. Raises `ConfigError` for a file that is no YAML."""
        path = self.path / SWEEP
        try:
            found = read_yaml(read_regular_text(path)) if path.is_file() else {}
        except (UnicodeDecodeError, ConfigError) as error:
            why = error if isinstance(error, ConfigError) else "is no text in UTF-8"
            raise ConfigError(f"{path}: {why}; restore the file, or give another name=") from error
        return found if isinstance(found, dict) else {}

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
        """Return the configuration of a run; raises `ConfigError` if it is none of this version."""
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
            found = json.loads(read_regular_text(path)) if path.is_file() else {}
        except ValueError:
            found = {}
        return {"outcome": NEVER, **found} if isinstance(found, dict) else {"outcome": NEVER}

    def run_folder(self, name: str) -> Path:
        """Return the run's own folder."""
        return self.path.parent / name

    def _file(self, name: str, kind: str) -> Path:
        return self.path / f"{name}.{kind}"
