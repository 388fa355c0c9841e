"""One PPO update: epochs of shuffled minibatches on the clipped surrogate (Schulman et al. 2017, arXiv:1707.06347).

    L = E[ -min(r A, clip(r, 1 - e, 1 + e) A) ] + c_v L_V - c_e H,      r = pi(a | s) / pi_old(a | s)

The update stops for good at the first minibatch whose KL estimate exceeds `target_kl`; that one is not applied. Asking
for it is the only wait for the device per minibatch; statistics stay there until the end. Actor and critic share no
weights, so each has its own half of the loss and, on a CPU with a core to spare, learns at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from agents.ppo.network import ActorCritic
from agents.ppo.precision import Autocast
from agents.ppo.rollout import Samples
from agents.ppo.side_by_side import SideBySide
from configs.schema import PPOConfig

ADVANTAGE_EPSILON = 1e-5
"""Added to the standard deviation: advantages that differ by rounding alone must not be blown up to size 1."""

STATISTICS = ("policy_loss", "value_loss", "approx_kl", "clip_fraction", "ratio_max", "entropy", "grad_norm")


class Learner:
    """What learns: `network`, its optimizer, the shuffling of its samples, and the arithmetic all this is done in.

    `seed` begins the shuffling. With `threads` > 1 on a CPU, actor and critic are learned side by side.
    """

    def __init__(
        self, network: ActorCritic, config: PPOConfig, autocast: Autocast, *, seed: int, threads: int = 1
    ) -> None:
        device = network.log_std.device
        self.network, self.config, self.autocast = network, config, autocast
        self.optimizer = adam(network, config.learning_rate)
        self.shuffle = torch.Generator(device).manual_seed(seed)
        self._halves = SideBySide(parallel=threads > 1 and device.type == "cpu")

    def update(
        self, samples: Samples, *, number: int, learning_rate: float, entropy_coefficient: float
    ) -> dict[str, float]:
        """Improve the network on `samples` and return the `train/...` metrics.

        `number` counts updates from 0 and decides the precision; `learning_rate` and `entropy_coefficient` are this
        update's, already annealed. A step whose loss or gradient is not finite is skipped and counted; the means are
        over the others, and 0 where there was none.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        rows, steps, skipped, kl_stop, kl_max = [], 0, 0, False, 0.0
        for batch in minibatches(samples, self.config, self.shuffle):
            self.optimizer.zero_grad(set_to_none=True)
            policy, loss_v = self._halves.both(
                partial(self._policy_gradient, batch, number, entropy_coefficient),
                partial(self._value_gradient, batch, number),
            )
            loss, kl, *others = policy
            norm = self._gradient_norm()
            row = torch.stack([loss, loss_v, kl, *others, norm])
            reached, finite = torch.stack([kl, row.isfinite().all()]).tolist()  # the one wait for the device
            if not finite:
                skipped += 1
                self.autocast.scaler.update()
                continue
            rows.append(row)
            kl_max = max(kl_max, reached)
            if 0.0 < self.config.target_kl < reached:
                kl_stop = True
                self.autocast.scaler.update()
                break
            steps += 1
            self._step(norm)
        counts = {"kl_max": kl_max, "kl_stop": float(kl_stop), "skipped_steps": float(skipped)}
        counts["epochs_completed"] = steps / _parts(samples, self.config)
        return _metrics(self.network, samples, rows, counts)

    def reset_log_std(self, log_std: float) -> None:
        """Begin exploration anew, without the momentum that would carry on from the old value."""
        self.network.reset_log_std(log_std)
        self.optimizer.state.pop(self.network.log_std, None)

    def state_dict(self) -> dict[str, Any]:
        """Network, optimizer, gradient scaler and the order of samples to come."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.autocast.scaler.state_dict(),
            "shuffle": self.shuffle.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of a learner of the same network shape."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.autocast.scaler.load_state_dict(state["scaler"])
        self.shuffle.set_state(state["shuffle"].cpu())

    def close(self) -> None:
        """End the learner's thread."""
        self._halves.close()

    def _policy_gradient(self, batch: Samples, number: int, entropy_coefficient: float) -> tuple[Tensor, ...]:
        """Add the actor's gradient of a minibatch; returns the policy's entries of `STATISTICS`."""
        with self.autocast.context(number):
            log_prob, entropy = self.network.evaluate(batch.obs, batch.actions)
        loss, measured = surrogate(log_prob, batch, self.config)
        mean_entropy = entropy.mean()
        self.autocast.scaler.scale(loss - entropy_coefficient * mean_entropy).backward()
        return loss.detach(), *measured, mean_entropy.detach()

    def _value_gradient(self, batch: Samples, number: int) -> Tensor:
        """Add the critic's gradient of a minibatch; returns its loss."""
        with self.autocast.context(number):
            value = self.network.value(batch.obs)
        loss = value_loss(value, batch.value, batch.returns, self.config.value_clip)
        self.autocast.scaler.scale(self.config.value_coefficient * loss).backward()
        return loss.detach()

    def _gradient_norm(self) -> Tensor:
        """Norm of the gradient of both halves, before clipping."""
        self.autocast.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.network.parameters() if parameter.grad is not None]
        return get_total_norm(gradients)

    def _step(self, norm: Tensor) -> None:
        """One step down the gradient of both halves, which has this norm and is clipped."""
        clip_grads_with_norm_(self.network.parameters(), self.config.max_grad_norm, norm)
        self.autocast.scaler.step(self.optimizer)
        self.autocast.scaler.update()
        self.network.clamp_log_std()


def adam(network: ActorCritic, learning_rate: float) -> torch.optim.Adam:
    """Make the optimizer of all of `network`'s weights, one fused kernel where torch has it."""
    fused = network.log_std.device.type in ("cpu", "cuda")
    return torch.optim.Adam(network.parameters(), lr=learning_rate, eps=1e-5, fused=fused)


def minibatches(samples: Samples, config: PPOConfig, generator: torch.Generator) -> Iterator[Samples]:
    """`epochs` passes over the samples, each in a new order, in equal parts of at most `minibatch_size`."""
    total, device = len(samples.obs), samples.obs.device
    for _ in range(config.epochs):
        order = torch.randperm(total, generator=generator, device=device)
        for index in order.tensor_split(_parts(samples, config)):
            yield Samples(*(tensor.index_select(0, index) for tensor in samples))


def surrogate(log_prob: Tensor, batch: Samples, config: PPOConfig) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Compute the clipped policy loss of a minibatch, and, without gradient, (KL, clipped fraction, largest ratio)."""
    log_ratio = (log_prob - batch.log_prob).clamp(-config.log_ratio_clamp, config.log_ratio_clamp)
    ratio = log_ratio.exp()  # r = pi(a | s) / pi_old(a | s)
    advantage = normalize(batch.advantage)
    clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
    loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
    with torch.no_grad():
        kl = (ratio - 1.0 - log_ratio).mean()  # E[(r - 1) - log r], never negative
        clip_fraction = ((ratio - 1.0).abs() > config.clip).float().mean()
        return loss, (kl, clip_fraction, ratio.max())


def value_loss(value: Tensor, old_value: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Mean squared error, or with `clip` > 0 the worse of it and that of V moved at most `clip` from its old value."""
    error = (value - returns).square()
    if clip > 0:
        clipped = old_value + (value - old_value).clamp(-clip, clip)
        error = torch.maximum(error, (clipped - returns).square())
    return error.mean()


def normalize(advantage: Tensor) -> Tensor:
    """Advantages at mean 0 and standard deviation 1."""
    std, mean = torch.std_mean(advantage, correction=0)
    return (advantage - mean) / (std + ADVANTAGE_EPSILON)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """1 - Var(R - V) / Var(R): 1 is a perfect critic, 0 no better than a constant; 0 where R does not vary."""
    variance = returns.var(correction=0)
    unexplained = (returns - value).var(correction=0) / variance
    return torch.where(variance > 0, 1.0 - unexplained, torch.zeros_like(variance))


def _parts(samples: Samples, config: PPOConfig) -> int:
    return -(-len(samples.obs) // config.minibatch_size)


def _metrics(network: ActorCritic, samples: Samples, rows: list[Tensor], counts: dict[str, float]) -> dict[str, float]:
    """Means over the minibatches (the largest of `ratio_max`), read from the device at once; and the counts."""
    statistics = torch.stack(rows or [torch.zeros(len(STATISTICS), device=samples.obs.device)])
    row, largest = statistics.mean(0), STATISTICS.index("ratio_max")
    row[largest] = statistics[:, largest].max()
    variance = explained_variance(samples.value, samples.returns)
    weight_norm = get_total_norm(list(network.state_dict().values()))
    log_std = [f"log_std_{i}" for i in range(network.continuous)]
    names = [*STATISTICS, "explained_variance", "weight_norm", *log_std]
    read = torch.cat([row, torch.stack([variance, weight_norm]), network.log_std.detach()]).tolist()
    return {f"train/{name}": number for name, number in [*zip(names, read, strict=True), *counts.items()]}
