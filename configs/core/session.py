"""Options of what surrounds the updates of every run: the guard, the bar and the logs."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.core.allowed import Form, option

WANDB_MODES = ("off", "online", "offline")
POSITIVE = "[1, 10000000]"
TEXT = Form(r"[^\x00\n]+", "text of one line")


@dataclass
class GuardConfig:
    """Response to an update that breaks the policy; steps are in `agents/run/guard.py`."""

    enabled: bool = True
    """false lets broken updates stand."""
    restore_kl: float = option(10.0, "[1, 1000000]")
    """An update with KL above this many times `ppo.target_kl` is undone."""
    cut: float = option(0.5, "(0, 1]")
    """Factor on the learning rate after an update that was taken back."""
    window: int = option(50, POSITIVE)
    """Updates within which a second broken update goes back to the last training state, and a third ends the run."""


@dataclass
class LoggerConfig:
    """TensorBoard and metrics.jsonl are always written."""

    wandb: str = option("off", WANDB_MODES)
    """Weights & Biases: off, online or offline."""
    wandb_project: str = option("sparring", TEXT)
    """Project of W&B in which the run appears."""
    progress: bool = True
    """Show a bar, or a line every 30 s where the output is no terminal."""
