"""Logs of a run: JSON lines and TensorBoard always, W&B and trackio if configured; and videos drawn beside training.

The x-axis is env steps everywhere. The files are truncated to the state's position when a run resumes, and compared
with the length and SHA-256 in the state. Weights & Biases receives env steps as a separate metric, because its internal
step restarts when an offline run resumes. A failing log causes one alert and does not stop training; files are written
again when there is space.

A thread draws each video from its own data and without random numbers, so training is not affected. It costs the loop
only the start of a thread. A failed drawing is returned as its error.
"""

from __future__ import annotations

import importlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path
from threading import Thread
from typing import Any

from sparring.agents.run.log_files import METRICS, JsonLines, LoggerError, TensorBoard, hyperparameters, warn
from sparring.configs.core.errors import choose
from sparring.configs.core.files import read_regular_text, write_atomically
from sparring.configs.core.session import WANDB_MODES, LoggerConfig

WANDB_ID = "wandb_id"
WANDB, TRACKIO = "Weights & Biases", "trackio"
LONGEST_TAG = 64
"""Characters that the server of Weights & Biases takes."""
LONGEST_WAIT_SECONDS = 10.0
"""Longest wait for drawings in progress at the end of a run."""


class Logger:
    """Rows and events of one run, sent to its lines and every sink; without any for processes other than process 0.

    The failures of a sink cause one alert, and training continues.
    """

    def __init__(self, lines: JsonLines | None = None, sinks: Sequence[LogSink] = (), env_steps: int = 0) -> None:
        self._lines, self._sinks, self._env_steps = lines, list(sinks), env_steps
        self._alerted: set[str] = set()
        self.damage = lines.damage if lines else []
        """Differences of the files from the state that they are continued from, one line each."""
        self.alert: Callable[[str], None] = warn
        """Called once per log that fails, with one line; it may log an event."""
        if lines:
            lines.alert = lambda text: self.alert(text)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one row; values may be anything `float` accepts."""
        self._env_steps = env_steps
        row = {key: float(value) for key, value in metrics.items()}
        if self._lines:
            self._lines.log(env_steps, row)
        self._send(lambda sink: sink.log(env_steps, row))

    def event(self, text: str, kind: str = "info") -> None:
        """Write a line about an event since the last row, such as a new phase or an alert."""
        if self._lines:
            self._lines.event(self._env_steps, kind, text)
        self._send(lambda sink: sink.event(self._env_steps, kind, text))

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF to the sinks, which show videos."""
        self._send(lambda sink: sink.video(env_steps, name, gif))

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the logs on disk; `open_logger` continues from there."""
        return {"env_steps": self._env_steps, "bytes": self._lines.sync() if self._lines else {}}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file, by its name."""
        return self._lines.hashes() if self._lines else {}

    def rewind(self, state: Mapping[str, Any]) -> None:
        """Remove rows written after `state`, an earlier `state_dict`; events stay, since they give the reason."""
        self._env_steps = state["env_steps"]
        if self._lines:
            self._lines.cut(METRICS, state["bytes"]["metrics.jsonl"])
        self._send(lambda sink: sink.rewind(self._env_steps))

    def close(self) -> None:
        """Close every sink, then the lines, which take the alerts of the others; no logging is allowed afterwards."""
        self._sinks.reverse()
        self._send(lambda sink: sink.close())
        self._sinks = []
        if self._lines:
            self._lines.close()

    def _send(self, action: Callable[[LogSink], object]) -> None:
        """Call `action` for every sink that still works."""
        for sink in list(self._sinks):
            if sink not in self._sinks:  # left out by an alert during this call
                continue
            try:
                action(sink)
            except Exception as error:
                self._report(sink, error)

    def _report(self, sink: LogSink, error: Exception) -> None:
        lasts = sink.lasting and isinstance(error, OSError)
        first = sink.name not in self._alerted
        # Both before the alert, which writes an event.
        self._alerted.add(sink.name)
        if not lasts:
            self._sinks.remove(sink)
            self.alert(_off(sink.name, error))
        elif first:
            self.alert(f"{sink.name}: its file cannot be written ({_reason(error)}); training continues")


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

    Raises `UnknownNameError` for an unknown `logger.wandb`, and `LoggerError` if the package of a logger is missing.
    """
    position = state or {"env_steps": 0, "bytes": {"metrics.jsonl": 0, "events.jsonl": 0}}
    hubs = _open_wandb(config, folder, run_name, plain_config) + _open_trackio(config, run_name, plain_config)
    lines = JsonLines(folder, position["bytes"], hashes)
    tensorboard = TensorBoard(folder, position["env_steps"] + 1, dict(hyperparameters(plain_config)))
    return Logger(lines, [tensorboard, *hubs], position["env_steps"])


class Hub:
    """A run of Weights & Biases, or of trackio: in its folder here unless environment variables name a server."""

    lasting = False

    def __init__(self, name: str, run: Any) -> None:
        self.name, self._run = name, run

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""
        self._run.log({"env_steps": env_steps, **metrics})

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Send an event as a text value."""
        self._run.log({"env_steps": env_steps, kind: text})

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Send an animated GIF as a video, but not to trackio, which takes videos as files that stay."""
        if self.name == TRACKIO:
            return
        video = importlib.import_module("wandb").Video(BytesIO(gif), format="gif")
        self._run.log({"env_steps": env_steps, name: video})

    def rewind(self, env_steps: int) -> None:
        """Do nothing: rows cannot be removed, so the rows of reverted updates stay beside their replacements."""

    def close(self) -> None:
        """Finish the run, which sends the remaining data."""
        if self.name == WANDB:
            self._run.finish()
            return
        with redirect_stdout(StringIO()):
            importlib.import_module("trackio").finish()  # the run's own method would be called again at exit


LogSink = TensorBoard | Hub
"""A destination of rows and events beside the run's own lines. Any of its methods may raise.

A `lasting` one is a file, which a full disk ends for a while only; another one is left out after its first failure."""


def run_tags(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what people select runs by: the run file, the trainer and the environment of a plain configuration."""
    env = config.get("env")
    names = [config.get("run"), config.get("trainer"), env.get("id") if isinstance(env, Mapping) else None]
    return tuple(str(name)[:LONGEST_TAG] for name in names if name)


def _open_wandb(config: LoggerConfig, folder: Path, run_name: str, plain_config: Mapping[str, Any]) -> list[LogSink]:
    mode = choose("logger.wandb", config.wandb, WANDB_MODES)
    if mode == "off":
        return []
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
        # The x-axis of every metric is env steps.
        run.define_metric("env_steps")
        run.define_metric("*", step_metric="env_steps")
        return [Hub(WANDB, run)]
    except Exception as error:
        warn(_off(WANDB, error))
        return []


def _open_trackio(config: LoggerConfig, run_name: str, plain_config: Mapping[str, Any]) -> list[LogSink]:
    if not config.trackio:
        return []
    try:
        trackio = importlib.import_module("trackio")
    except ImportError as error:
        raise LoggerError(f"logger.trackio=true needs trackio ({error}): `sparring install trackio`") from error
    try:
        # It prints how its dashboard is opened; standard output is the run's own.
        with redirect_stdout(StringIO()):
            run = trackio.init(
                project=config.wandb_project,
                name=run_name,
                config=dict(plain_config),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        return [Hub(TRACKIO, run)]
    except Exception as error:
        warn(_off(TRACKIO, error))
        return []


def _wandb_id(folder: Path) -> str:
    """Return the run's W&B id, stored in its folder; a resumed run keeps its W&B run."""
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
        raise LoggerError(f"logger.wandb={mode} needs wandb: `sparring install wandb`")
    return wandb


def _off(name: str, error: Exception) -> str:
    return f"{name} is off for the rest of this run: {_reason(error)}"


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__


@dataclass
class DrawnVideo:
    """A video at a number of env steps: `gif` once it is drawn, or `error`."""

    env_steps: int
    name: str
    gif: bytes = b""
    error: Exception | None = None
    thread: Thread = field(default_factory=Thread)


class VideoThreads:
    """Drawings in progress, in the order of their start."""

    def __init__(self) -> None:
        self._videos: list[DrawnVideo] = []

    def start(self, env_steps: int, name: str, draw: Callable[[], bytes]) -> None:
        """Begin to draw; `draw` returns the bytes of an animated GIF."""
        video = DrawnVideo(env_steps, name)

        def run() -> None:
            try:
                video.gif = draw()
            except Exception as error:
                video.error = error

        # A daemon: a drawing in progress does not keep a stopped run alive.
        video.thread = Thread(target=run, daemon=True, name=f"draw {name}")
        video.thread.start()
        self._videos.append(video)

    def finished(self, *, wait: bool = False) -> Iterator[DrawnVideo]:
        """Yield the videos that are done, once each; with `wait`, those that are done within `LONGEST_WAIT_SECONDS`."""
        deadline = time.monotonic() + (LONGEST_WAIT_SECONDS if wait else 0.0)
        while self._videos:
            self._videos[0].thread.join(max(deadline - time.monotonic(), 0.0))
            if self._videos[0].thread.is_alive():
                return
            yield self._videos.pop(0)

    def discard(self) -> None:
        """Drop all videos, drawn or in progress."""
        self._videos.clear()
