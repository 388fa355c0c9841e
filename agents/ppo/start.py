"""What surrounds the updates of a PPO run: its initial policy, its estimated duration, and its replayed minibatch.

Of the policy that a new run begins with, `init_from`, the weights and the statistics of observations are taken; the
optimizer, all counters, opponents and records are new. Columns that the run appends to its observations begin without
effect. The duration is estimated by a short trial on copies, which
collects a few steps and learns from them once; evaluations are not counted. The fixed minibatch of
`agents.run.fidelity` has every kind of operation of a PPO update, on made-up observations.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sparring.agents.distributed.processes import Processes
from sparring.agents.policies.checkpoint import in_todays_version, load_checkpoint
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import OBSERVATION_KEYS, appended_columns, told_apart
from sparring.agents.policies.styles import likeliest_style, plain_network, plain_shape, style_weights, with_styles
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.tasks.task import SEEDS, TrainingEnv, make_task
from sparring.agents.run.fidelity import minibatch_sha256
from sparring.agents.run.preflight import initial_policy
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPORunConfig

FEWEST_STEPS = 16


def estimate_seconds(
    config: PPORunConfig, network: PolicyNetwork, rollout: Rollout, *, updates: int, threads: int
) -> float:
    """Estimate the total time of `updates`, in seconds; `rollout` has the shape of this process's rollout."""
    device, matches, ppo = network.log_std.device, rollout.num_envs, config.ppo
    small = replace(config, env=replace(config.env, num_envs=matches))
    task = make_task(small, device, threads, seeds=dict.fromkeys(SEEDS, 0))
    task.env.rehearse()
    twin, generator = copy.deepcopy(network), torch.Generator(device).manual_seed(0)
    autocast = Autocast(ppo.precision, device)
    learner = PPOLearner(twin, replace(ppo, epochs=1, target_kl=0.0), autocast, seed=0, threads=threads)
    # Enough steps for a full minibatch, if the rollout has that many.
    steps = min(rollout.steps, max(FEWEST_STEPS, -(-ppo.minibatch_size // matches)))
    trial = learner.new_rollout(task.env, steps)

    def once() -> tuple[float, float]:
        """Collect and learn; return the seconds of each."""
        start = time.perf_counter()
        with autocast.context(0):
            trial.collect(task.env, twin, generator)
        trial.finish(partial(learner.judge, number=0), ppo.gamma, ppo.gae_lambda)
        collected = time.perf_counter()
        learner.update(trial.flat(), number=0, learning_rate=0.0, entropy_coefficient=0.0)
        return collected - start, time.perf_counter() - collected

    try:
        once()  # the first call also compiles kernels, fills caches and initializes the device
        collecting, learning = once()
    finally:
        learner.close()
        task.env.close()
    return updates * rollout.steps / steps * (collecting + ppo.epochs * learning)  # processes work in parallel


STATISTICS = "normalizer"
"""Contract key of what was learned about observations; `TrainingEnv.adopt` reads it."""
BOUNDS = ("log_std_init", "log_std_min", "log_std_max")
"""Options of a network's shape that may differ: weights fit anyway, and exploration is clamped to the run's bounds."""


def begin_from(config: PPORunConfig, network: PolicyNetwork, env: TrainingEnv, processes: Processes) -> str:
    """Load the policy `config.init_from` into `network` and `env`, in every process; return a line about it.

    Raises `InputError` if it cannot be read, or if game, observations, actions or network do not match.
    """
    contract, weights, line = processes.run_on_rank0(lambda: _read(config, "init_from", network, env.contract))
    network.load_state_dict(weights)
    network.clamp_log_std()
    env.adopt(contract)
    return line


def starting_weights(
    config: PPORunConfig, text: str, network: PolicyNetwork, contract: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return the weights of a lineage that matches `network`; raises `InputError` as `begin_from`."""
    _, weights, _ = _read(replace(config, init_from=text), "self_play.lineages", network, contract)
    device = network.log_std.device
    return {name: weight.to(device) for name, weight in weights.items()}


def _read(
    config: PPORunConfig, key: str, network: PolicyNetwork, contract: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """Return contract and weights of the policy `init_from`, if they match, and a line about it; `key` names it."""
    checkpoint = load_checkpoint(initial_policy(config))
    label = f"{key}={config.init_from}"
    stored, _ = in_todays_version(checkpoint.contract, label)
    columns = appended_columns(stored, contract)
    _check_same(label, "", stored, contract, ignored=(STATISTICS, *(OBSERVATION_KEYS if columns else ())))
    shape, weights, styles = checkpoint.network.shape, checkpoint.network.state_dict(), network.config.styles
    restyled = shape.get("styles", 0) != styles
    if restyled:  # of the policy's styles the likeliest
        shape, weights = plain_shape(shape), style_weights(weights, likeliest_style(weights))
    if columns and (restyled or not styles):
        plain = (plain_network(network, 0) if styles else network).state_dict()
        shape = {**shape, "obs_dim": network.obs_dim}
        weights = {name: _widened(weight, plain[name]) for name, weight in weights.items()}
    if restyled and styles:
        shape, weights = {**shape, "styles": styles}, with_styles(weights, styles)
    _check_same(label, "network.", shape, network.shape, ignored=BOUNDS)
    run, update = checkpoint.training.get("run", "unknown run"), checkpoint.training.get("update", "?")
    line = f"starts from the policy of {run} after update {update}"
    return stored, weights, line


def _widened(weight: Tensor, like: Tensor) -> Tensor:
    """Return a weight with zeros for the inputs that `like` has more: the policy acts as before and can learn them."""
    return functional.pad(weight, (0, like.shape[-1] - weight.shape[-1])) if weight.dim() == 2 else weight


def _check_same(
    label: str, prefix: str, policy: Mapping[str, Any], expected: Mapping[str, Any], *, ignored: tuple[str, ...]
) -> None:
    """Raise `ConfigError` with the first entry that differs."""
    for key in dict.fromkeys([*expected, *policy]):
        if key not in ignored and policy.get(key) != expected.get(key):
            had, has = told_apart(key, policy, expected)
            has = has.removeprefix(f"{key}=")
            raise ConfigError(f"{label}: was trained with {prefix}{had}, this run has {has}; start from another one")


ROWS = 128
"""Rows of the minibatch: enough that the sums over it are split as in training; milliseconds."""
SEQUENCE = 8
"""Decisions of a sequence in it, for networks with memory."""


def actor_critic_sha256(network: PolicyNetwork, context: AbstractContextManager[object]) -> str:
    """Return the hash of the loss and gradients of `network`, whose forward passes run in `context` (autocast)."""

    def loss(generator: torch.Generator) -> torch.Tensor:
        device = network.log_std.device
        # Features in {0, 1}, as in one-hot observations, times noise, as in physical ones.
        obs: Any = torch.randn(ROWS, network.inputs, generator=generator)
        obs = network.plausible((obs * torch.randint(2, obs.shape, generator=generator)).to(device))
        memory = obs.new_zeros(ROWS, network.memory_size)
        advantage = torch.randn(ROWS, generator=generator).to(device)
        with context:
            actions, _, _ = network.step(obs, memory, deterministic=True)
            if network.memory_size:
                lanes, rows = ROWS // SEQUENCE, torch.arange(ROWS, device=device)
                fresh = torch.zeros(SEQUENCE, lanes, dtype=torch.bool, device=device)
                obs = Sequences(obs.view(SEQUENCE, lanes, -1), memory[:lanes], fresh, rows)
            log_prob, entropy = network.evaluate(obs, actions)
            value = network.value(obs)
        policy = -(log_prob * advantage).mean() - entropy.mean()
        return policy + (value - advantage).square().mean()

    return minibatch_sha256(loss, network.parameters())
