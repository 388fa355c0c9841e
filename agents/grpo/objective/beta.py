"""Weight of the KL penalty: warmed up from 0, then adapted to the measured KL if a target is set.

At step s = 0, 1, ... after `kl_beta_start_step` steps with beta 0, beta is min(1, s / W) of its full value with
W = `kl_beta_warmup_steps`: 0 in the first of these steps, full from step W on; with W = 0 at once. With `kl_target` > 0
the full value follows the KL, smoothed over about H = `kl_horizon` steps:

    ema <- ema + (KL - ema) 2 / (H + 1)                beginning with the first KL
    beta <- min(1.5 beta, 0.5) where ema > 1.5 target,  max(beta / 1.5, 0.001) where ema < 0.5 target

Adaptation starts at the end of the warm-up, so that step W may have an adapted beta: before it the KL is small because
training has just started, not because of beta.
"""

from __future__ import annotations

import math
from typing import Any

from typing_extensions import TypedDict

from sparring.configs.core.typed import Count, Integer, NotNegative, Number, read, require
from sparring.configs.language import GRPOConfig

FACTOR = 1.5
ABOVE, BELOW = 1.5, 0.5
LEAST, MOST = 0.001, 0.5


class BetaState(TypedDict):
    """`Beta.state_dict`."""

    step: Count
    full: NotNegative
    ema: Number | None
    adjusted: Integer


class Beta:
    """Schedule of beta: `value` is the weight of the next step, `observe` takes the KL that resulted."""

    def __init__(self, config: GRPOConfig) -> None:
        self._config = config
        self._step = 0
        self._full = config.kl_beta
        self._ema: float | None = None
        self._adjusted = 0

    @property
    def progress(self) -> float:
        """Completed fraction of the warm-up, 0 to 1."""
        step, warmup = self._step - self._config.kl_beta_start_step, self._config.kl_beta_warmup_steps
        if step < 0:
            return 0.0
        return min(1.0, step / warmup) if warmup else 1.0  # min(1, s / W)

    @property
    def value(self) -> float:
        """Beta of the next step."""
        return self.progress * self._full

    def metrics(self) -> dict[str, float]:
        """Return metrics; `kl/beta_adjusted` is 1 or -1 if the last KL moved beta up or down, else 0."""
        metrics = {"beta": self.value, "warmup_progress": self.progress, "beta_adjusted": float(self._adjusted)}
        if self._ema is not None:
            metrics["ema"] = self._ema
        return {f"kl/{name}": number for name, number in metrics.items()}

    def observe(self, kl: float | None) -> None:
        """End a step whose mean KL was `kl` nats; None for a step without training, which counts as well.

        Raises `ValueError` for a KL that is not finite, which would never leave the mean.
        """
        self._step += 1
        warm = self.progress == 1.0
        self._adjusted = 0
        if kl is None:
            return
        if not math.isfinite(kl):
            raise ValueError(f"the mean KL of step {self._step - 1} is {kl}: give None for a step that was skipped")
        weight = 2.0 / (self._config.kl_horizon + 1)
        self._ema = kl if self._ema is None else self._ema + (kl - self._ema) * weight
        if self._config.kl_target > 0 and warm:
            self._adjust(self._ema / self._config.kl_target)

    def _adjust(self, excess: float) -> None:
        """Adjust beta, given the KL in units of its target."""
        before = self._full
        if excess > ABOVE:
            self._full = min(before * FACTOR, MOST)
        elif excess < BELOW:
            self._full = max(before / FACTOR, LEAST)
        self._adjusted = (self._full > before) - (self._full < before)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that `value` depends on, apart from the configuration."""
        return {"step": self._step, "full": self._full, "ema": self._ema, "adjusted": self._adjusted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError` for impossible values."""
        found = read(BetaState, state)
        require(found["adjusted"] in (-1, 0, 1), f"adjusted={found['adjusted']}: must be -1, 0 or 1")
        self._step, self._full = found["step"], found["full"]
        self._ema, self._adjusted = found["ema"], found["adjusted"]
