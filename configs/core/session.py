"""Options shared by all runs: the guard, the progress bar, logging, and network sizes."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.core.allowed import Form, option

ACTIVATIONS = ("relu", "tanh")
WANDB_MODES = ("off", "online", "offline")
TEXT = Form(r"[^\x00\n]+", "text of one line")


@dataclass
class GuardConfig:
    """Response to an update that breaks the policy; steps are in `agents/run/guard.py`."""

    enabled: bool = True
    """false keeps broken updates."""


@dataclass
class LoggerConfig:
    """TensorBoard and metrics.jsonl are always written."""

    wandb: str = option("off", WANDB_MODES)
    """Weights & Biases: off, online or offline."""
    wandb_project: str = option("sparring", TEXT)
    """W&B and trackio project of the run."""
    trackio: bool = False
    """Log to trackio as well, on this machine."""
    progress: bool = True
    """Show a progress bar, or a line every 30 s if the output is not a terminal."""


@dataclass
class NetworkConfig:
    """The "256h/0b" family: separate actor and critic of hidden width / pre-norm residual blocks."""

    hidden: int = option(256, "[1, 8192]")
    """Width of the hidden layers, in units."""
    blocks: int = option(0, "[0, 64]")
    """Residual blocks of the actor and of the critic."""
    activation: str = option("relu", ACTIVATIONS)
    """Activation function between the layers."""
    log_std_init: float = option(-1.0, "[-20, 5]")
    """Initial log standard deviation of continuous actions."""
    log_std_min: float = option(-2.0, "[-20, 5]")
    """Lower bound of the log standard deviation."""
    log_std_max: float = option(0.0, "[-20, 5]")
    """Upper bound of the log standard deviation."""
    gsde: bool = False
    """State-dependent exploration: noise is a linear function of the actor's last features (arXiv:2005.05719). The
    log-std applies to the weights of this function; their effects add up over the features."""
    encoder: str = option("auto", ("auto", "by_size", "small", "nature", "impala", "none"))
    """Convolutional encoder of a picture. nature needs 36 x 36 or more; small, three 3x3 layers, is for boards and
    views. The others are impala, and none (plain numbers), the fastest. `auto` is nature where it fits, else small.
    `by_size` is none below 16 x 16, else as auto."""
    memory: str = option("none", ("none", "gru", "lstm"))
    """Recurrent cell of actor and critic, `hidden` wide, for partially observed games."""
    in_turn: bool = False
    """Units of a power in Diplomacy order one after the other, seeing the orders before theirs; else all at once."""
    all_phases: bool = False
    """The policy decides retreats, builds and disbands in Diplomacy too; else a bot does."""
    styles: int = option(0, "[0, 64]")
    """Number of styles of the network: an input hidden from the opponent selects one for a whole match. 0 disables
    styles (docs/algorithms/self_play.md)."""
