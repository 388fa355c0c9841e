"""Logs of a run: JSON lines and TensorBoard always, Weights & Biases if configured.

The x-axis is env steps everywhere. metrics.jsonl has one JSON object with sorted keys per update, events.jsonl one per
event between updates. A value that is not finite is written as null, since JSON has no NaN. Both files are truncated
to the state's position when a run resumes. Weights & Biases receives env steps as a separate metric, because its
internal step restarts when an offline run resumes. A failing log causes one warning and does not stop training.
"""

from __future__ import annotations

import errno
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

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import open_regular, read_regular_text
from sparring.configs.schema import WANDB_MODES, LoggerConfig

METRICS, EVENTS = "metrics.jsonl", "events.jsonl"
WANDB_ID = "wandb_id"
WANDB = "Weights & Biases"


class LoggerError(InputError):
    """Raised for a logger that is not available; the message is one line saying what to install."""


class LogSink(Protocol):
    """One destination of rows and events."""

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row of metrics."""

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write an event."""

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

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the logs on disk; `open_logger` continues from there."""
        return {"env_steps": self._env_steps, "bytes": self._lines.sync()}

    def rewind(self, state: Mapping[str, Any]) -> None:
        """Remove rows written after `state`, an earlier `state_dict`; events stay, since they give the reason."""
        self._env_steps = state["env_steps"]
        self._lines.cut(METRICS, state["bytes"][METRICS])
        for sink in self._sinks:
            sink.rewind(self._env_steps)

    def close(self) -> None:
        """Close every sink; no logging is allowed afterwards."""
        for sink in self._sinks:
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
) -> Logger:
    """Open a run's logger in `folder`, at the position of `state` (a `Logger.state_dict`), else at the start.

    `plain_config` is the run's configuration for Weights & Biases.

    Raises `UnknownNameError` for an unknown `logger.wandb` and `LoggerError` if its package is missing.
    """
    wandb = _open_wandb(config, folder, run_name, plain_config)
    state = state or {"env_steps": 0, "bytes": {}}
    lines = JsonLines(folder, state["bytes"])
    tensorboard = Expendable("TensorBoard", TensorBoard(folder, state["env_steps"] + 1))
    return Logger(lines, [tensorboard, wandb], state["env_steps"])


class JsonLines:
    """metrics.jsonl: {"env_steps": ..., metrics}; events.jsonl: {"env_steps": ..., "kind": ..., "event": text}.

    `sizes` are the bytes to keep of each file, by default 0. A full or missing disk causes one warning.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._files = {name: _open_at(folder / name, sizes.get(name, 0)) for name in (METRICS, EVENTS)}
        self._sizes = {name: file.tell() for name, file in self._files.items()}
        self._warned = False

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write and flush one row."""
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        self._write(METRICS, {"env_steps": env_steps} | finite)

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write and flush one event."""
        self._write(EVENTS, {"env_steps": env_steps, "kind": kind, "event": text})

    def rewind(self, env_steps: int) -> None:
        """Do nothing: `cut` removes rows, by their position."""

    def cut(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file; if that fails, the next row overwrites the rest."""
        self._sizes[name] = size
        with suppress(OSError):
            self._files[name].truncate(size)

    def sync(self) -> dict[str, int]:
        """Flush both files to the disk; return the bytes of whole lines in each."""
        for file in self._files.values():
            with suppress(OSError):
                os.fsync(file.fileno())
        return dict(self._sizes)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def _write(self, name: str, row: dict[str, Any]) -> None:
        line = (json.dumps(row, sort_keys=True, allow_nan=False) + "\n").encode()
        file, size = self._files[name], self._sizes[name]
        try:
            file.seek(size)  # overwrites a partial line from an earlier attempt
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.truncate()
            self._sizes[name] = size + len(line)
        except OSError as error:
            if not self._warned:
                print(f"warning: {name} cannot be written ({error.strerror}); training goes on", file=sys.stderr)
            self._warned = True


def _open_at(path: Path, size: int) -> BinaryIO:
    """Open `path` unbuffered, created if needed, and truncate it to `size` bytes."""
    file = os.fdopen(open_regular(path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0)
    file.truncate(min(size, os.fstat(file.fileno()).st_size))
    file.seek(0, os.SEEK_END)
    return cast(BinaryIO, file)


class TensorBoard:
    """An event file in the run's folder; the slow import is deferred to here."""

    def __init__(self, folder: Path, first_step: int) -> None:
        self._folder = folder
        self._open(first_step)

    def _open(self, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Rows of an interrupted run after its last state are hidden.
        self._writer = SummaryWriter(str(self._folder), purge_step=first_step)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, env_steps)

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write a text entry."""
        self._writer.add_text(kind, text, env_steps)

    def rewind(self, env_steps: int) -> None:
        """Continue in another event file, which hides rows after `env_steps`."""
        self._writer.close()
        self._open(env_steps + 1)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class NoSink:
    """Placeholder for a disabled sink."""

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Do nothing."""

    def rewind(self, env_steps: int) -> None:
        """Do nothing."""

    def sync(self) -> dict[str, int]:
        """Return no sizes: there are no files."""
        return {}

    def cut(self, name: str, size: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Expendable:
    """Wrapper of a sink that is disabled at its first failure, with one warning; training continues without it."""

    def __init__(self, name: str, sink: LogSink) -> None:
        self._name, self._sink = name, sink
        self._alive = True

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row, if it still works."""
        self._try(lambda: self._sink.log(env_steps, metrics))

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write an event, if it still works."""
        self._try(lambda: self._sink.event(env_steps, kind, text))

    def rewind(self, env_steps: int) -> None:
        """Hide later rows, if it still works."""
        self._try(lambda: self._sink.rewind(env_steps))

    def close(self) -> None:
        """Finish writing, if it still works."""
        self._try(self._sink.close)

    def _try(self, action: Callable[[], object]) -> None:
        if not self._alive:
            return
        try:
            action()
        except Exception as error:
            self._alive = False
            _warn(self._name, error)


class WandB:
    """A Weights & Biases run."""

    def __init__(self, run: Any) -> None:
        self._run = run
        # The x-axis of every metric is env steps.
        run.define_metric("env_steps")
        run.define_metric("*", step_metric="env_steps")

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""
        self._run.log({"env_steps": env_steps, **metrics})

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Send an event as a text value."""
        self._run.log({"env_steps": env_steps, kind: text})

    def rewind(self, env_steps: int) -> None:
        """Do nothing: W&B cannot remove rows, so those of reverted updates stay beside their replacements."""

    def close(self) -> None:
        """Finish the run, which uploads the remaining data."""
        self._run.finish()


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
            mode=mode,
            # Only metrics and events are sent: no console output, source code, git state, machine, or command line,
            # which may hold a token.
            settings=wandb.Settings(console="off", silent=True, disable_git=True, save_code=False, x_disable_meta=True),
        )
        return Expendable(WANDB, WandB(run))
    except Exception as error:
        _warn(WANDB, error)
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


def _warn(name: str, error: Exception) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"warning: {name} is off for the rest of this run: {reason}", file=sys.stderr)
