"""The trainer interface that `fit` uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState


class Trainer(Protocol):
    """One algorithm, created from a configuration before its run has a folder. Every process of a run has one.

    `restore_or_init` is called first. `updates_done` then counts the updates.
    """

    unit: str
    """Name of an update: update, step."""
    updates: int
    """Total number of updates to do."""
    updates_done: int
    cannot_save: str
    """The part that training states lack, as a phrase; empty if states are complete."""

    @property
    def final(self) -> Path:
        """The path of the final policy."""

    @property
    def over(self) -> bool:
        """True if no update is left."""

    @property
    def env_steps(self) -> int:
        """The x-axis of the latest update's metrics."""

    def restore_or_init(self, session: RunSession) -> None:
        """Open the files in the run's folder, and continue from the state that `session` found, if any."""

    def nothing_left(self) -> str:
        """Return a message: why no update is left, and which option to raise."""

    def describe(self) -> Iterator[str]:
        """Yield lines that describe the model and the machine."""

    def update(self) -> dict[str, float]:
        """Do one update; return its metrics. A trainer with a guard calls it here."""

    def evaluate(self) -> dict[str, float]:
        """Do the evaluations that are due after the update; return their metrics."""

    def advance(self) -> None:
        """Finish an update that the guard accepted, after its metrics are logged."""

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return the progress bar's description and status."""

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the policy after `updates_done` updates. Raises `OSError` if it cannot be written."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that an update changes, as plain data and tensors; called by all processes."""

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from a state, at the start or when the guard rolls back."""

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""

    def close(self) -> None:
        """End threads and processes."""
