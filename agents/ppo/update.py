"""One PPO update: epochs of shuffled minibatches on the clipped surrogate (Schulman et al. 2017, arXiv:1707.06347).

    L = E[ -min(r A, clip(r, 1 - e, 1 + e) A) ] + c_v L_V - c_e H,      r = pi(a | s) / pi_old(a | s)

The update stops for good at the first minibatch whose KL estimate exceeds `target_kl`; that one is not applied. Asking
for it is the only wait for the device per minibatch; statistics stay there until the end. With in-place ReLUs and one
gather per minibatch, nearly all of the time is the matrix products', so nothing here is fused by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from agents.ppo.network import ActorCritic
from agents.ppo.precision import Autocast
from agents.ppo.rollout import Samples
from configs.schema import PPOConfig

ADVANTAGE_EPSILON = 1e-5
"""Added to the standard deviation: advantages that differ by rounding alone must not be blown up to size 1."""

STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_max")


def adam(network: ActorCritic, learning_rate: float) -> torch.optim.Adam:
    """Make the optimizer of all of `network`'s weights, one fused kernel where torch has it."""
    fused = network.log_std.device.type in ("cpu", "cuda")
    return torch.optim.Adam(network.parameters(), lr=learning_rate, eps=1e-5, fused=fused)


def update(
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    samples: Samples,
    *,
    config: PPOConfig,
    autocast: Autocast,
    number: int,
    generator: torch.Generator,
    learning_rate: float,
    entropy_coefficient: float,
) -> dict[str, float]:
    """Improve `network` on `samples` and return the `train/...` metrics.

    `number` counts updates from 0 and decides the precision; `learning_rate` and `entropy_coefficient` are this
    update's, already annealed. `generator` shuffles and lives on the samples' device. Raises `FloatingPointError` when
    a loss, the KL or (without a gradient scaler) the gradient was not finite.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    statistics: list[Tensor] = []
    norms: list[Tensor] = []
    for batch in minibatches(samples, config, generator):
        with autocast.context(number):
            log_prob, entropy, value = network.evaluate(batch.obs, batch.actions)
        policy_loss, measured = surrogate(log_prob, batch, config)
        loss_v = value_loss(value, batch.value, batch.returns, config.value_clip)
        mean_entropy = entropy.mean()
        statistics.append(torch.stack([policy_loss, loss_v, mean_entropy, *measured]).detach())
        if config.target_kl > 0 and not measured[0].item() <= config.target_kl:  # a NaN stops as well
            break
        loss = policy_loss + config.value_coefficient * loss_v - entropy_coefficient * mean_entropy
        norms.append(_descend(network, optimizer, loss, autocast.scaler, config.max_grad_norm))
    return _metrics(network, samples, torch.stack(statistics), norms, config)


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


def _descend(
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    scaler: torch.amp.GradScaler,
    max_grad_norm: float,
) -> Tensor:
    """One clipped step down the gradient of `loss`; returns the gradient's norm before clipping."""
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(network.parameters(), max_grad_norm)
    scaler.step(optimizer)  # a scaler skips the step when fp16 overflowed, and lowers its scale
    scaler.update()
    network.clamp_log_std()
    return torch.where(norm.isfinite(), norm, 0.0) if scaler.is_enabled() else norm


def _parts(samples: Samples, config: PPOConfig) -> int:
    return -(-len(samples.obs) // config.minibatch_size)


def _metrics(
    network: ActorCritic, samples: Samples, statistics: Tensor, norms: list[Tensor], config: PPOConfig
) -> dict[str, float]:
    """Means over the minibatches (the largest of `ratio_max`), read from the device at once."""
    row = statistics.mean(0)
    row[-1] = statistics[:, -1].max()
    norm = torch.stack(norms).mean() if norms else torch.zeros_like(row[0])
    variance = explained_variance(samples.value, samples.returns)
    names = [*STATISTICS, "grad_norm", "explained_variance", *(f"log_std_{i}" for i in range(network.continuous))]
    read = torch.cat([row, norm.view(1), variance.view(1), network.log_std.detach()]).tolist()
    metrics = {f"train/{name}": number for name, number in zip(names, read, strict=True)}
    metrics["train/epochs_completed"] = len(norms) / _parts(samples, config)
    broken = {name: number for name, number in metrics.items() if not math.isfinite(number)}
    if broken:
        raise FloatingPointError(f"the update was not finite: {broken}; go back to the last checkpoint")
    return metrics
