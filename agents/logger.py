"""Where a run's numbers go: metrics.jsonl and TensorBoard always, Weights & Biases when asked for.

The x-axis is env steps everywhere. A metrics.jsonl row is one JSON object with sorted keys, on disk before the next
update starts; a value that is not finite is written as null, since JSON has no NaN. Weights & Biases gets env steps as
a metric of its own, because its internal step starts again when an offline run resumes; whatever goes wrong there
costs one warning and never the training.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from configs.names import InputError, choose
from configs.schema import WANDB_MODES, LoggerConfig


class LoggerError(InputError):
    """A logger was asked for that cannot be had; the message is one line saying what to install."""


class Sink(Protocol):
    """One place that rows go to."""

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row of metrics."""

    def event(self, env_steps: int, text: str) -> None:
        """Write that something happened."""

    def close(self) -> None:
        """Finish writing."""


class Logger:
    """Rows and events of one run, sent to every sink."""

    def __init__(self, sinks: list[Sink]) -> None:
        self._sinks = sinks
        self._env_steps = 0

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row; values may be anything `float` accepts."""
        self._env_steps = env_steps
        row = {key: float(value) for key, value in metrics.items()}
        for sink in self._sinks:
            sink.log(env_steps, row)

    def event(self, text: str) -> None:
        """Write a line about something that happened since the last row, such as a new phase."""
        for sink in self._sinks:
            sink.event(self._env_steps, text)

    def close(self) -> None:
        """Finish every sink; nothing may be logged afterwards."""
        for sink in self._sinks:
            sink.close()


def open_logger(config: LoggerConfig, folder: Path, run_name: str, plain_config: Mapping[str, Any]) -> Logger:
    """Open a run's logger in `folder`. `plain_config` is what Weights & Biases shows as the run's configuration.

    Raises `UnknownNameError` for an unknown `logger.wandb` and `LoggerError` where the package for it is missing.
    """
    wandb = _open_wandb(config, folder, run_name, plain_config)
    return Logger([JsonLines(folder / "metrics.jsonl"), TensorBoard(folder), wandb])


class JsonLines:
    """metrics.jsonl: {"env_steps": ..., metrics}, or {"env_steps": ..., "event": text}."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write and flush one row."""
        self._write({key: value if math.isfinite(value) else None for key, value in metrics.items()}, env_steps)

    def event(self, env_steps: int, text: str) -> None:
        """Write and flush one event."""
        self._write({"event": text}, env_steps)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, row: dict[str, Any], env_steps: int) -> None:
        self._file.write(json.dumps({"env_steps": env_steps} | row, sort_keys=True, allow_nan=False) + "\n")
        self._file.flush()


class TensorBoard:
    """An event file in the run's folder; the import waits until here because it is slow."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, env_steps)

    def event(self, env_steps: int, text: str) -> None:
        """Write a text entry."""
        self._writer.add_text("event", text, env_steps)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class NoSink:
    """Stands in for a sink that is switched off."""

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def event(self, env_steps: int, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class WandB:
    """A Weights & Biases run; the first failure is reported once, and then it is left alone."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._alive = True
        # Every metric's x-axis is ours: env steps.
        run.define_metric("env_steps")
        run.define_metric("*", step_metric="env_steps")

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""
        self._try(lambda: self._run.log({"env_steps": env_steps, **metrics}))

    def event(self, env_steps: int, text: str) -> None:
        """Send an event as a text value."""
        self._try(lambda: self._run.log({"env_steps": env_steps, "event": text}))

    def close(self) -> None:
        """Finish the run, which uploads what is left."""
        self._try(self._run.finish)

    def _try(self, action: Callable[[], object]) -> None:
        if not self._alive:
            return
        try:
            action()
        except Exception as error:
            self._alive = False
            _warn(error)


def _open_wandb(config: LoggerConfig, folder: Path, run_name: str, plain_config: Mapping[str, Any]) -> Sink:
    mode = choose("logger.wandb", config.wandb, WANDB_MODES)
    if mode == "off":
        return NoSink()
    wandb = _import_wandb(mode)
    # Our package is called agents, which W&B would take for a language-model library and advertise a tracer.
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
    try:
        return WandB(
            wandb.init(
                project=config.wandb_project,
                name=run_name,
                dir=str(folder),
                config=dict(plain_config),
                mode=mode,
                # What is logged here is enough: no console output, source code or git state is sent along.
                settings=wandb.Settings(console="off", silent=True, disable_git=True, save_code=False),
            )
        )
    except Exception as error:
        _warn(error)
        return NoSink()


def _import_wandb(mode: str) -> Any:
    """Import the package, not a folder of offline runs called wandb/ that happens to be on the path."""
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):
        raise LoggerError(f"logger.wandb={mode} needs a package that is not installed: pip install wandb")
    return wandb


def _warn(error: Exception) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"warning: Weights & Biases is off for the rest of this run: {reason}", file=sys.stderr)
