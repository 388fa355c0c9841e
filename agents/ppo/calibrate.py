"""Estimate of a run's duration on this machine, from a short trial on copies before the first update.

The trial collects a few steps and learns from them once, in the run's precision. Both times are scaled to the whole
schedule. The trial changes nothing in the run, so the run's results do not depend on it. Evaluations are not counted.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from functools import partial

import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.learner import PPOLearner
from sparring.agents.ppo.precision import Autocast
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.tasks.task import SEEDS, make_task
from sparring.configs.schema import PPORunConfig

FEWEST_STEPS = 16


def estimate_seconds(
    config: PPORunConfig, network: ActorCritic, rollout: Rollout, *, updates: int, threads: int
) -> float:
    """Estimate the total time of `updates`, in seconds; `rollout` has the shape of this process's rollout."""
    trial = _Trial(config, network, rollout, threads)
    try:
        trial.once()  # the first call also compiles kernels, fills caches and initializes the device
        collecting, learning = trial.once()
    finally:
        trial.close()
    samples = updates * rollout.steps * rollout.num_envs  # processes work in parallel
    return samples * (collecting + config.ppo.epochs * learning)


class _Trial:
    """A small rollout with a copy of the network in the run's precision, and one training epoch on it."""

    def __init__(self, config: PPORunConfig, network: ActorCritic, rollout: Rollout, threads: int) -> None:
        config = replace(config, env=replace(config.env, num_envs=rollout.num_envs))
        device = network.log_std.device
        self.task = make_task(config, device, threads, seeds=dict.fromkeys(SEEDS, 0))
        self.task.env.rehearse()
        self.network = copy.deepcopy(network)
        # Enough steps for a whole minibatch, if the rollout has that many.
        steps = min(rollout.steps, max(FEWEST_STEPS, -(-config.ppo.minibatch_size // rollout.num_envs)))
        longest = self.task.env.longest_episode
        self.rollout = Rollout.of(self.network, steps, rollout.num_envs, longest_episode=longest)
        self.generator = torch.Generator(device).manual_seed(0)
        self.config = replace(config.ppo, epochs=1, target_kl=0.0)
        self.autocast = Autocast(config.ppo.precision, device)
        self.learner = PPOLearner(self.network, self.config, self.autocast, seed=0, threads=threads)

    def once(self) -> tuple[float, float]:
        """Collect and learn; return the seconds per sample of each."""
        start = time.perf_counter()
        with self.autocast.context(0):
            self.rollout.collect(self.task.env, self.network, self.generator)
        critic = partial(self.learner.values, number=0)
        self.rollout.finish(critic, self.config.gamma, self.config.gae_lambda)
        collected = time.perf_counter()
        self.learner.update(self.rollout.flat(), number=0, learning_rate=0.0, entropy_coefficient=0.0)
        samples = self.rollout.steps * self.rollout.num_envs
        return (collected - start) / samples, (time.perf_counter() - collected) / samples

    def close(self) -> None:
        """End all threads."""
        self.learner.close()
        self.task.env.close()
