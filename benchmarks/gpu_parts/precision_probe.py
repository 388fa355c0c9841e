"""Safeguards of training in lower precision, each provoked on one learner and checked on this device.

A CPU also computes fp16 with a GPU's scaler, which tests the code around it there.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.losses import LOG_RATIO_CLAMP, Samples
from sparring.configs.schema import NetworkConfig, PPOConfig

OBS, SAMPLES, WARM_UP = 59, 512, 1
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HUGE_SCALE = 2.0**40
"""A gradient far beyond fp16's largest number, 65504."""


def probe(precision: str, device: str, seed: int) -> dict[str, bool]:
    """Run all probes of a precision; return their results by name."""
    found = _warm_up(precision, device, seed) | _clamps(precision, device, seed) | _captured(precision, device, seed)
    return found | (_scaler(device, seed) if precision == "fp16" else {})


def _warm_up(precision: str, device: str, seed: int) -> dict[str, bool]:
    """Return the type of the first layer's results in the last update of the warm-up, and in the one after it."""
    learner, samples = _learner(precision, device, seed)
    seen: list[torch.dtype] = []
    for half in (learner.network.actor, learner.network.critic):
        half[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    before = _update(learner, samples, WARM_UP - 1)
    types = set(seen)
    seen.clear()
    after = _update(learner, samples, WARM_UP)
    finite = all(math.isfinite(value) for metrics in (before, after) for value in metrics.values())
    learner.close()
    return {
        "the warm-up is in float32": types == {torch.float32},
        "after the warm-up layers compute in it": set(seen) == {DTYPES[precision]},
        "updates before and after are finite": finite,
    }


def _clamps(precision: str, device: str, seed: int) -> dict[str, bool]:
    """Check ratios of e^1000 and a log standard deviation beyond its bound, in the precision itself."""
    learner, samples = _learner(precision, device, seed)
    far = samples._replace(log_prob=samples.log_prob - 1000.0)
    ratio = _update(learner, far, WARM_UP)["train/ratio_max"]
    bound = math.exp(LOG_RATIO_CLAMP)
    learner.close()
    learner, samples = _learner(precision, device, seed, minibatches=1, epochs=1, scale=1.0)
    _update(learner, samples, WARM_UP, learning_rate=100.0, entropy_coefficient=1.0)
    network = learner.network
    learner.close()
    return {
        "a ratio of e^1000 is held at its bound": abs(ratio / bound - 1.0) < 1e-4,
        "log_std driven up stays at its bound": bool((network.log_std == network.config.log_std_max).all()),
    }


def _scaler(device: str, seed: int) -> dict[str, bool]:
    """Check gradients that overflow, the scale that is lowered for it and grows again."""
    learner, samples = _learner("fp16", device, seed)
    scaler = learner.autocast.scaler
    _update(learner, samples, WARM_UP)
    scaler.load_state_dict(scaler.state_dict() | {"scale": HUGE_SCALE, "growth_interval": 10**6})
    before = _weights(learner.network)
    metrics = _update(learner, samples, WARM_UP)
    skipped, scale = int(metrics["train/skipped_steps"]), scaler.get_scale()
    unmoved = torch.equal(before, _weights(learner.network))
    scaler.load_state_dict(scaler.state_dict() | {"scale": 1.0, "growth_interval": 2, "_growth_tracker": 0})
    grown = _update(learner, samples, WARM_UP)
    moved = not torch.equal(before, _weights(learner.network))
    learner.close()
    return {
        "the scaler is in use": scaler.is_enabled(),
        "gradients that overflow are skipped": skipped == _minibatches(learner.config),
        "each skipped step halves the scale": scale == HUGE_SCALE / 2.0**skipped,
        "a skipped step leaves the weights alone": unmoved,
        "good steps let the scale grow, and move": scaler.get_scale() > 1.0
        and moved
        and grown["train/skipped_steps"] == 0,
    }


def _captured(precision: str, device: str, seed: int) -> dict[str, bool]:
    """Compare three updates by CUDA graphs with the same ones launched kernel by kernel; on a CPU both are the same."""
    ends = []
    for capture in (True, False):
        learner, samples = _learner(precision, device, seed, minibatches=3)
        learner._captures = learner._captures and capture
        for number in range(WARM_UP + 2):
            coefficients = {"learning_rate": 3e-4 / (number + 1), "entropy_coefficient": 0.01 * number}
            _update(learner, samples, number, **coefficients)
        learner.close()
        ends.append(_weights(learner.network))
    return {"three captured updates equal launched ones to the bit": torch.equal(*ends)}


def _learner(
    precision: str,
    device: str,
    seed: int,
    *,
    minibatches: int = 4,
    epochs: int = 2,
    scale: float = 0.0,
) -> tuple[PPOLearner, Samples]:
    """Return a learner, on a GPU as wide as the run's, and samples of its own policy; `scale` is the initial scale."""
    network = ActorCritic(OBS, 2, 1, NetworkConfig(hidden=32 if device == "cpu" else 256), seed=seed).to(device)
    config = PPOConfig(minibatch_size=SAMPLES // minibatches, epochs=epochs, target_kl=0.0)
    autocast = _autocast(precision, device)
    if scale and autocast.scaler.is_enabled():
        autocast.scaler.load_state_dict(autocast.scaler.state_dict() | {"scale": scale})
    return PPOLearner(network, config, autocast, seed=seed), _samples(network, device, seed)


def _autocast(precision: str, device: str) -> Autocast:
    """Return the learner of training; on a CPU with fp16 and its scaler, which training there would replace."""
    autocast = Autocast(
        "bf16" if precision == "fp16" and device == "cpu" else precision, device, warmup_updates=WARM_UP
    )
    if precision == "fp16" and device == "cpu":
        autocast.dtype, autocast.scaler = torch.float16, torch.amp.GradScaler("cpu", enabled=True)
    return autocast


def _samples(network: ActorCritic, device: str, seed: int) -> Samples:
    draws = torch.Generator(device).manual_seed(seed)
    obs = torch.randn(SAMPLES, OBS, generator=draws, device=device)
    actions, log_prob = network.act(obs, generator=draws)
    value = network.value(obs).detach()
    advantage, noise = torch.randn(2, SAMPLES, generator=draws, device=device)
    return Samples(obs, actions, log_prob, value, advantage, value + noise)


def _update(learner: PPOLearner, samples: Samples, number: int, **coefficients: float) -> dict[str, Any]:
    chosen: dict[str, Any] = {"learning_rate": 3e-4, "entropy_coefficient": 0.0} | coefficients
    return learner.update(samples, number=number, **chosen)


def _weights(network: torch.nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()]).clone()


def _minibatches(config: PPOConfig) -> int:
    return config.epochs * -(-SAMPLES // config.minibatch_size)
