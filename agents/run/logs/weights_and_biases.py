"""The Weights & Biases sink: rows, events and videos of a run that `open_logger` has started."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any

LONGEST_TAG = 64
"""Characters that the server takes."""


def run_tags(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what people select runs by: the run file, the trainer and the environment of a plain configuration."""
    env = config.get("env")
    names = [config.get("run"), config.get("trainer"), env.get("id") if isinstance(env, Mapping) else None]
    return tuple(str(name)[:LONGEST_TAG] for name in names if name)


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

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Send an animated GIF as a video."""
        video = importlib.import_module("wandb").Video(BytesIO(gif), format="gif")
        self._run.log({"env_steps": env_steps, name: video})

    def rewind(self, env_steps: int) -> None:
        """Do nothing: W&B cannot remove rows, so those of reverted updates stay beside their replacements."""

    def close(self) -> None:
        """Finish the run, which uploads the remaining data."""
        self._run.finish()
