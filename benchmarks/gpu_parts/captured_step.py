"""Replayed steps (a CUDA graph or recorded launches) against steps launched one by one.

Both launch the same kernel on the same device, so their states must be equal to the bit. The speed of both is given,
since that is what the capture is for.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.dogfight import steady_actions
from benchmarks.gpu_parts.part import Found, PartOptions, rate
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.kernels.step import step_kernel

STEPS, MATCHES = 600, 1024
LOOK_EVERY = 60


class UncapturedBatch(DogfightBatch):
    """A batch that launches every step by itself, without a graph or a recorded launch."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play one step."""
        self.actions.copy_(actions)
        inputs = [self._world, self._results, self._ends, self._wp_actions, self._weights, self._settings]
        self._launcher.run(step_kernel, inputs)
        return self.obs, self.reward, self.terminated, self.truncated


def measure(options: PartOptions) -> Found:
    """Check equality over many steps with changing opponents and restarts, then measure the speed."""
    found = Found()
    matches, steps = options.sized((MATCHES, STEPS), (8, 12))
    found.checks[f"{steps} captured steps of {matches} matches equal the uncaptured to the bit"] = equal(
        options, matches, steps
    )
    rows = []
    for size in options.sized((256, 4096), (4,)):
        captured, plain = (speed(kind, size, options) for kind in (DogfightBatch, UncapturedBatch))
        rows.append([f"{size:,}", f"{1e6 / captured:,.0f}", f"{1e6 / plain:,.0f}", f"{captured / plain:.2f}"])
        found.numbers[str(size)] = {"captured_per_second": captured, "uncaptured_per_second": plain}
    found.table("", ["matches", "captured: us per step", "uncaptured: us per step", "ratio of speeds"], rows)
    return found


def equal(options: PartOptions, matches: int, steps: int) -> bool:
    """Return whether both kinds of step give the same bits, with restarts and new physics in between."""
    captured, plain = (_make(kind, matches, options) for kind in (DogfightBatch, UncapturedBatch))
    draws, same = torch.Generator().manual_seed(options.seed), True
    for step in range(steps):
        actions = torch.rand(matches, 2, 3, generator=draws).to(options.device)
        restart = (torch.rand(matches, generator=draws) < 0.02).to(options.device)
        for batch in (captured, plain):
            if step % 10 == 5:
                batch.assign(None, restart)
            if step == steps // 2:
                batch.set_ranges(rules.ranges("none"))
            batch.step(actions)
        if step % LOOK_EVERY == 0 or step == steps - 1:
            same = same and _bytes(captured) == _bytes(plain)
    captured.close()
    plain.close()
    return same


def speed(kind: type[DogfightBatch], matches: int, options: PartOptions) -> float:
    """Return the steps per second of a kind of batch."""
    batch = _make(kind, matches, options)
    actions = torch.as_tensor(steady_actions(matches), device=options.device)
    for _ in range(3):
        batch.step(actions)  # the first captures, the second instantiates the graph
    found = rate(lambda: batch.step(actions), seconds=options.sized(1.0, 0.0), device=options.device)
    batch.close()
    return found


def _make(kind: type[DogfightBatch], matches: int, options: PartOptions) -> DogfightBatch:
    batch = kind(matches, device=options.device, seed=options.seed)
    batch.set_ranges(rules.ranges("full"))
    bots = np.full((matches, 2), rules.ACTIONS, dtype=np.int32)
    bots[:, 1] = np.arange(matches) % len(rules.BOTS)
    batch.assign(bots)
    batch.reset(options.seed)
    return batch


def _bytes(batch: DogfightBatch) -> list[bytes]:
    tensors = (batch.obs, batch.reward, batch.outcome, batch.length)
    return [
        *(array.tobytes() for array in batch.snapshot().values()),
        *(tensor.cpu().numpy().tobytes() for tensor in tensors),
    ]
