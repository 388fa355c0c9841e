"""What `fit` needs of an algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState


class Trainer(Protocol):
    """One algorithm, built from a configuration before its run has a folder. Every process of a run has one.

    A call to `restore_or_init` comes first. Updates are then counted in `updates_done`.
    """

    unit: str
    """What an update is called: update, step."""
    updates: int
    """Updates to do in total."""
    updates_done: int
    cannot_save: str
    """What no training state holds, as a phrase; empty where states are complete."""

    @property
    def final(self) -> Path:
        """Where the policy is saved."""

    @property
    def over(self) -> bool:
        """Whether no update is left."""

    @property
    def env_steps(self) -> int:
        """The x-axis of the latest update's metrics."""

    def restore_or_init(self, session: RunSession) -> None:
        """Open what needs the run's folder, and continue from the state that `session` found, if any."""

    def nothing_left(self) -> str:
        """Say why no update is left, and which option asks for more."""

    def describe(self) -> Iterator[str]:
        """Lines on what is about to be trained, and where."""

    def update(self) -> dict[str, float]:
        """Do one update; return its metrics. A trainer with a guard asks it for a verdict here."""

    def evaluate(self) -> dict[str, float]:
        """Do the evaluations that are due after the update; return their metrics."""

    def advance(self) -> None:
        """Finish an update that the guard lets stand, once its metrics are logged."""

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """The progress bar's name of what is going on, and how it stands."""

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the policy after `updates_done` updates. Raises `OSError` where that is not possible."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that an update changes, as plain data and tensors; called by all processes."""

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from a state, at the start or where the guard goes back."""

    def summary(self) -> dict[str, Any]:
        """Plain data for the manifest of a state."""

    def close(self) -> None:
        """End threads and processes."""
