"""Callbacks of a training run: user code called between updates.

A callback is called after an accepted update, once the training state and policies are on disk, so the run can always
be resumed from there. A callback may stop the run. An exception in one also ends the run: `train` saves policy and
state, then raises it, and `resume=NAME` continues. Callbacks do not use the run's random numbers; a run with callbacks
is bit-identical to one without. Their state is not stored in the run's folder. With several processes, only the first
one calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sparring.agents.run.signals import Stopped
from sparring.configs.core.errors import InputError

METHODS = ("on_update", "on_evaluation", "on_checkpoint")
EVALUATION = "eval/"
"""Prefix of the metrics of evaluations."""


@dataclass(frozen=True)
class RunProgress:
    """Position of a run after an update."""

    name: str
    folder: Path
    """The run's folder, with metrics.jsonl, policies and training states."""
    update: int
    """Updates done, from 1."""
    updates: int
    """Total number of updates."""
    env_steps: int
    """Decisions of the learner so far, the x-axis of the metrics."""


class Callback(Protocol):
    """Base of callbacks: inherit, and override what is needed. A method that returns True stops the run."""

    def on_update(self, run: RunProgress, metrics: Mapping[str, float]) -> bool | None:
        """Receive the metrics of each update (docs/metrics.md), as in metrics.jsonl."""
        return None

    def on_evaluation(self, run: RunProgress, metrics: Mapping[str, float]) -> bool | None:
        """Receive the metrics `eval/...` after each update that has some."""
        return None

    def on_checkpoint(self, run: RunProgress, path: Path) -> bool | None:
        """Receive the path of each policy written since the last call; `sparring.load` reads it."""
        return None


class CallbackDispatcher:
    """Calls `callbacks` in order; `request_stop` is called if one returns True or raises."""

    def __init__(self, callbacks: Sequence[Callback] = (), request_stop: Callable[[], None] = lambda: None) -> None:
        self._callbacks, self._request_stop = tuple(callbacks), request_stop
        self.written: dict[Path, None] = {}
        """Policies written since the last call."""
        self.error: BaseException | None = None
        """The exception of a callback, to raise once everything is saved."""

    def after_update(self, run: RunProgress, metrics: Mapping[str, float]) -> None:
        """Call every callback after an update."""
        evaluations = {key: value for key, value in metrics.items() if key.startswith(EVALUATION)}
        for callback in self._callbacks:
            self._call(partial(callback.on_update, run, metrics))
            if evaluations:
                self._call(partial(callback.on_evaluation, run, evaluations))
        self.report_written(run)

    def report_written(self, run: RunProgress) -> None:
        """Call `on_checkpoint` for the policies written since the last call."""
        written, self.written = list(self.written), {}
        for path in written:
            for callback in self._callbacks:
                self._call(partial(callback.on_checkpoint, run, path))

    def _call(self, call: Callable[[], bool | None]) -> None:
        if self.error is not None:
            return
        try:
            stop = call()
        except Stopped:  # a second signal or the end of the grace time
            raise
        except BaseException as error:
            self.error, stop = error, True
        if stop:
            self._request_stop()


def check_callbacks(callbacks: Sequence[object]) -> None:
    """Raise `InputError` for an object that is not a callback."""
    for callback in callbacks:
        kind = callback.__name__ if isinstance(callback, type) else type(callback).__name__
        if isinstance(callback, type):
            raise InputError(f"callbacks: {kind} is a class; pass an instance, {kind}()")
        missing = [name for name in METHODS if not callable(getattr(callback, name, None))]
        if missing:
            raise InputError(f"callbacks: {kind} has no {', '.join(missing)}; inherit from sparring.Callback")
