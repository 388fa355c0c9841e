"""What happens in the course of one step of learning, in the names that the guard knows."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


class StepStats:
    """What happens in the course of a step."""

    def __init__(self) -> None:
        self.loss, self.steps, self.skipped, self.stopped = 0.0, 0, 0, False
        self.norms: list[float] = []
        self.drifts: list[float] = []
        self._log_ratios: list[Tensor] = []
        self.k3s: list[Tensor] = []
        """Estimates of the KL to the reference from what was drawn, one for each decision token."""
        self.kl_last = 0.0

    def drift(self, log_ratio: Tensor) -> None:
        """Policy over the one that played, log r of a micro-batch's decision tokens."""
        self._log_ratios.append(log_ratio)

    def end_minibatch(self) -> None:
        """How far the policy has come from the one that played: mean of r - 1 - log r over a minibatch."""
        log_ratio = torch.cat(self._log_ratios)
        self._log_ratios = []
        self.kl_last = float((log_ratio.expm1() - log_ratio).mean())
        self.drifts.append(self.kl_last)

    def metrics(self) -> dict[str, float]:
        """In the names the guard knows."""
        finite = [norm for norm in self.norms if math.isfinite(norm)]
        estimated = {"kl/k3_mean": float(torch.cat(self.k3s).mean())} if self.k3s else {}
        return estimated | {
            "benchmark/loss": self.loss / max(self.steps, 1),
            "benchmark/grad_norm": float(np.mean(finite)) if finite else 0.0,
            "train/skipped_steps": float(self.skipped),
            "train/kl_stop": float(self.stopped),
            "train/epochs_completed": float(self.steps > 0 or not self.norms),
            "train/approx_kl": float(np.mean(self.drifts)) if self.drifts else 0.0,
            "train/kl_max": max(self.drifts, default=0.0),
        }
