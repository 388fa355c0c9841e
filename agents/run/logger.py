"""Logs of a run: JSON lines and TensorBoard always, Weights & Biases if configured.

The x-axis is env steps everywhere. metrics.jsonl has one JSON object with sorted keys per update, events.jsonl one per
event between updates. A value that is not finite is written as null, since JSON has no NaN. Both files are truncated
to the state's position when a run resumes, and compared with the length and SHA-256 in the state. Weights & Biases
receives env steps as a separate metric, because its internal step restarts when an offline run resumes. A failing log
causes one alert and does not stop training; files are written again when there is space.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from typing_extensions import TypedDict

from sparring.agents.run.logs.tensorboard import TensorBoard, hyperparameters
from sparring.agents.run.logs.weights_and_biases import WandB, run_tags
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import open_regular, read_regular_text
from sparring.configs.core.typed import Count, read
from sparring.configs.schema import WANDB_MODES, LoggerConfig

METRICS, EVENTS = "metrics.jsonl", "events.jsonl"
WANDB_ID = "wandb_id"
WANDB = "Weights & Biases"
CHUNK = 1 << 20
"""Bytes read at once."""


class LoggerError(InputError):
    """Raised for a logger that is not available; the message is one line saying what to install."""


LogBytes = TypedDict("LogBytes", {"metrics.jsonl": Count, "events.jsonl": Count})
"""Bytes of whole lines in each file."""


class LoggerState(TypedDict):
    """`Logger.state_dict`."""

    env_steps: Count
    bytes: LogBytes


class LogSink(Protocol):
    """One destination of rows and events."""

    alert: Callable[[str], None]
    """Called with one line at the first failure."""

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row of metrics."""

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write an event."""

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF."""

    def rewind(self, env_steps: int) -> None:
        """Hide rows after `env_steps`, if possible."""

    def close(self) -> None:
        """Finish writing."""


class Logger:
    """Rows and events of one run, sent to every sink."""

    def __init__(self, lines: JsonLines | NoSink, others: list[LogSink], env_steps: int = 0) -> None:
        self._lines = lines
        self._sinks: list[LogSink] = [lines, *others]
        self._env_steps = env_steps
        self.damage = lines.damage
        """Differences of the files from the state that they are continued from, one line each."""
        self.alert: Callable[[str], None] = _warn
        """Called once per log that fails, with one line; it may log an event."""
        for sink in self._sinks:
            sink.alert = lambda text: self.alert(text)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row; values may be anything `float` accepts."""
        self._env_steps = env_steps
        row = {key: float(value) for key, value in metrics.items()}
        for sink in self._sinks:
            sink.log(env_steps, row)

    def event(self, text: str, kind: str = "info") -> None:
        """Write a line about an event since the last row, such as a new phase or an alert."""
        for sink in self._sinks:
            sink.event(self._env_steps, kind, text)

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF to the sinks that show videos."""
        for sink in self._sinks:
            sink.video(env_steps, name, gif)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the logs on disk; `open_logger` continues from there."""
        return {"env_steps": self._env_steps, "bytes": self._lines.sync()}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file, by its name."""
        return self._lines.hashes()

    def rewind(self, state: Mapping[str, Any]) -> None:
        """Remove rows written after `state`, an earlier `state_dict`; events stay, since they give the reason."""
        found = read(LoggerState, state, "logger")
        self._env_steps = found["env_steps"]
        self._lines.cut(METRICS, found["bytes"]["metrics.jsonl"])
        for sink in self._sinks:
            sink.rewind(self._env_steps)

    def close(self) -> None:
        """Close every sink; no logging is allowed afterwards."""
        for sink in reversed(self._sinks):  # the lines last, which take the alerts of the others
            sink.close()


def silent_logger() -> Logger:
    """Create a logger that writes nothing, for the processes other than process 0."""
    return Logger(NoSink(), [])


def open_logger(
    config: LoggerConfig,
    folder: Path,
    run_name: str,
    plain_config: Mapping[str, Any],
    state: Mapping[str, Any] | None = None,
    hashes: Mapping[str, str] | None = None,
) -> Logger:
    """Open a run's logger in `folder`, at the position of `state` (a `Logger.state_dict`), else at the start.

    `hashes` are the files' at that position. `plain_config` is the run's configuration, which
    TensorBoard and Weights & Biases show as hyperparameters.

    Raises `UnknownNameError` for an unknown `logger.wandb`, `LoggerError` if its package is missing, and `ContentError`
    for a `state` that is none.
    """
    start: LoggerState = {"env_steps": 0, "bytes": {"metrics.jsonl": 0, "events.jsonl": 0}}
    found = start if state is None else read(LoggerState, state, "logger")
    wandb = _open_wandb(config, folder, run_name, plain_config)
    lines = JsonLines(folder, cast(Mapping[str, int], found["bytes"]), hashes or {})
    tensorboard = _open_tensorboard(folder, found["env_steps"] + 1, plain_config)
    return Logger(lines, [tensorboard, wandb], found["env_steps"])


class JsonLines:
    """metrics.jsonl: {"env_steps": ..., metrics}; events.jsonl: {"env_steps": ..., "kind": ..., "event": text}.

    `sizes` are the bytes to keep of each file, by default 0, and `hashes` their SHA-256, where known; `damage` has a
    line for each file that differs. A full or missing disk causes one alert. Raises `LoggerError` if a file cannot
    be opened.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int], hashes: Mapping[str, str] | None = None) -> None:
        hashes = hashes or {}
        self._files = {
            name: LinesFile(folder / name, sizes.get(name, 0), hashes.get(name)) for name in (METRICS, EVENTS)
        }
        self.damage = [file.damage for file in self._files.values() if file.damage]
        self.alert: Callable[[str], None] = _warn
        self._alerted = False

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write and flush one row."""
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        self._write(METRICS, {"env_steps": env_steps} | finite)

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write and flush one event."""
        self._write(EVENTS, {"env_steps": env_steps, "kind": kind, "event": text})

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Do nothing: a line holds no video."""

    def rewind(self, env_steps: int) -> None:
        """Do nothing: `cut` removes rows, by their position."""

    def cut(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file; if that fails, the next row overwrites the rest."""
        self._files[name].cut(size)

    def sync(self) -> dict[str, int]:
        """Flush both files to the disk; return the bytes of whole lines in each."""
        for file in self._files.values():
            file.sync()
        return {name: file.size for name, file in self._files.items()}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file."""
        return {name: file.hash.hexdigest() for name, file in self._files.items()}

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _write(self, name: str, row: dict[str, Any]) -> None:
        line = (json.dumps(row, sort_keys=True, allow_nan=False) + "\n").encode()
        try:
            self._files[name].write(line)
        except OSError as error:
            if not self._alerted:
                self._alerted = True  # before the alert, which writes an event
                self.alert(f"{name} cannot be written ({error.strerror}); training goes on")


class LinesFile:
    """A file of lines, opened unbuffered and truncated to `size` bytes, with the running SHA-256 of its content.

    `damage` says in one line how the file differs from the `size` bytes with hash `expected`; it is empty if it does
    not. Of a shorter file the last, partial line is removed.
    """

    def __init__(self, path: Path, size: int, expected: str | None) -> None:
        try:
            missing = not path.exists()
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            self._file = cast(BinaryIO, os.fdopen(descriptor, "r+b", buffering=0))
            found = os.fstat(descriptor).st_size
            self.size = size if found >= size else _end_of_last_line(self._file.read())
            self.cut(self.size)
        except OSError as error:
            raise LoggerError(
                f"{path}: cannot be opened ({error.strerror}); restore it or choose another name="
            ) from error
        self.damage = ""
        if missing and size:
            self.damage = (
                f"{path}: is missing, the training state has {size} bytes of it; it begins again, without them"
            )
        elif found < size:
            self.damage = f"{path}: is shorter than at the training state, {found} of {size} bytes; the rest is lost"
        elif expected and self.hash.hexdigest() != expected:
            self.damage = (
                f"{path}: was changed since the training state was saved: the SHA-256 of its first {size} bytes is "
                "another; it is continued as it is"
            )

    def write(self, line: bytes) -> None:
        """Append a line. Raises `OSError` if it does not fit; the part written is removed, or overwritten later."""
        self._file.seek(self.size)
        if self._file.write(line) < len(line):
            with suppress(OSError):
                self._file.truncate(self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._file.truncate()
        self.size += len(line)
        self.hash.update(line)

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes, if the disk permits, and hash them."""
        self.size, self.hash = size, hashlib.sha256()
        with suppress(OSError):
            self.size = min(size, os.fstat(self._file.fileno()).st_size)  # a longer size would add zeros
            self._file.truncate(self.size)
            self._file.seek(0)
            while part := self._file.read(CHUNK):
                self.hash.update(part)

    def sync(self) -> None:
        """Flush to the disk, if possible."""
        with suppress(OSError):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()


def _end_of_last_line(data: bytes) -> int:
    return data.rfind(b"\n") + 1


class NoSink:
    """Placeholder for a disabled sink."""

    def __init__(self) -> None:
        self.damage: list[str] = []
        self.alert: Callable[[str], None] = _warn

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Do nothing."""

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Do nothing."""

    def rewind(self, env_steps: int) -> None:
        """Do nothing."""

    def sync(self) -> dict[str, int]:
        """Return no sizes: there are no files."""
        return {}

    def hashes(self) -> dict[str, str]:
        """Return no hashes: there are no files."""
        return {}

    def cut(self, name: str, size: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Expendable:
    """Wrapper of a sink whose failures cause one alert; training continues without it.

    It is disabled at the first failure, unless it is a file (`lasting`), which a full disk ends for a while only.
    """

    def __init__(self, name: str, sink: TensorBoard | WandB, *, lasting: bool = False) -> None:
        self._name, self._sink, self._lasting = name, sink, lasting
        self.alert: Callable[[str], None] = _warn
        self._alive, self._alerted = True, False

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row, if it still works."""
        self._try(lambda: self._sink.log(env_steps, metrics))

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write an event, if it still works."""
        self._try(lambda: self._sink.event(env_steps, kind, text))

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF, if it still works."""
        self._try(lambda: self._sink.video(env_steps, name, gif))

    def rewind(self, env_steps: int) -> None:
        """Hide later rows, if it still works."""
        self._try(lambda: self._sink.rewind(env_steps))

    def close(self) -> None:
        """Finish writing, if it still works."""
        self._try(self._sink.close)
        self._alive = False

    def _try(self, action: Callable[[], object]) -> None:
        if not self._alive:
            return
        try:
            action()
        except Exception as error:
            self._alive = self._lasting and isinstance(error, OSError)
            alerted, self._alerted = self._alerted, True  # before the alert, which writes an event
            if not self._alive:
                self.alert(_off(self._name, error))
            elif not alerted:
                self.alert(f"{self._name}: its file cannot be written ({_reason(error)}); training goes on")


def _open_tensorboard(folder: Path, first_step: int, plain_config: Mapping[str, Any]) -> LogSink:
    return Expendable("TensorBoard", TensorBoard(folder, first_step, dict(hyperparameters(plain_config))), lasting=True)


def _open_wandb(config: LoggerConfig, folder: Path, run_name: str, plain_config: Mapping[str, Any]) -> LogSink:
    mode = choose("logger.wandb", config.wandb, WANDB_MODES)
    if mode == "off":
        return NoSink()
    wandb = _import_wandb(mode)
    # W&B mistakes our package, agents, for a language-model library and advertises a tracer.
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
    try:
        run = wandb.init(
            project=config.wandb_project,
            name=run_name,
            id=_wandb_id(folder),
            resume="allow",
            dir=str(folder),
            config=dict(plain_config),
            tags=run_tags(plain_config),
            mode=mode,
            # Only metrics and events are sent: no console output, source code, git state, machine, or command line,
            # which may hold a token.
            settings=wandb.Settings(console="off", silent=True, disable_git=True, save_code=False, x_disable_meta=True),
        )
        return Expendable(WANDB, WandB(run))
    except Exception as error:
        _warn(_off(WANDB, error))
        return NoSink()


def _wandb_id(folder: Path) -> str:
    """Return the run's W&B id, stored in its folder, so that a continued run keeps its W&B run."""
    path = folder / WANDB_ID
    if not path.exists():
        write_atomically(path, secrets.token_hex(8))
    return read_regular_text(path).strip()


def _import_wandb(mode: str) -> Any:
    """Import the package, not a folder of offline runs called wandb/ on the path."""
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):
        raise LoggerError(f'logger.wandb={mode} needs wandb: pip install -e ".[wandb]"')
    return wandb


def _off(name: str, error: Exception) -> str:
    return f"{name} is off for the rest of this run: {_reason(error)}"


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
