"""Statistics of one learning step, under the metric names that the guard reads."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


class StepStats:
    """Statistics accumulated over the minibatches of one step."""

    def __init__(self) -> None:
        self.loss, self.steps, self.skipped, self.stopped = 0.0, 0, 0, False
        self.norms: list[float] = []
        self.drifts: list[float] = []
        self._log_ratios: list[Tensor] = []
        self.k3s: list[Tensor] = []
        """k3 estimates of the KL to the reference, one per decision token."""
        self.kl_last = 0.0

    def drift(self, log_ratio: Tensor) -> None:
        """Add log r = log pi - log pi_sampler of a micro-batch's decision tokens."""
        self._log_ratios.append(log_ratio)

    def end_minibatch(self) -> None:
        """Record the KL from the policy that played: the mean of r - 1 - log r over the minibatch."""
        log_ratio = torch.cat(self._log_ratios)
        self._log_ratios = []
        self.kl_last = float((log_ratio.expm1() - log_ratio).mean())
        self.drifts.append(self.kl_last)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the step."""
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
