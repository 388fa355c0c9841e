"""How long will a run take on this machine? A short trial on copies says so before the first update is done.

The trial collects a few steps and learns from them once, in the precision of the long run, and scales both to the whole
schedule. It touches nothing of the run, so the run's course does not depend on it. Checks are not counted.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace

import torch

from sparring.agents.ppo.learner import PPOLearner
from sparring.agents.ppo.precision import Autocast
from sparring.agents.ppo.run import PPORun, make_rollout
from sparring.agents.ppo.tasks.task import SEEDS, make_task

FEWEST_STEPS = 16


def estimate_seconds(run: PPORun) -> float:
    """Estimate the time all updates of `run` take together, in seconds."""
    trial = _Trial(run)
    try:
        trial.once()  # the first time also compiles kernels, fills caches and wakes the device
        collecting, learning = trial.once()
    finally:
        trial.close()
    samples = run.updates * run.rollout.steps * run.rollout.num_envs  # all processes do theirs at the same time
    return samples * (collecting + run.config.ppo.epochs * learning)


class _Trial:
    """A small rollout of the run's matches, network and precision, and one pass of learning from it."""

    def __init__(self, run: PPORun) -> None:
        config = replace(run.config, env=replace(run.config.env, num_envs=run.task.env.num_envs))
        device = run.device
        self.task = make_task(config, device, run.threads, seeds=dict.fromkeys(SEEDS, 0))
        self.task.env.rehearse()
        self.network = copy.deepcopy(run.network)
        self.rollout = make_rollout(config, self.task, self.network, _steps(run))
        self.generator = torch.Generator(device).manual_seed(0)
        self.config = replace(config.ppo, epochs=1, target_kl=0.0)
        self.autocast = Autocast(config.ppo.precision, device)
        self.learner = PPOLearner(self.network, self.config, self.autocast, seed=0, threads=run.threads)

    def once(self) -> tuple[float, float]:
        """Collect and learn; returns the seconds per sample of each."""
        start = time.perf_counter()
        with self.autocast.context(0):
            self.rollout.collect(self.task.env, self.network, self.generator)
            self.rollout.finish(self.network, self.config.gamma, self.config.gae_lambda)
        collected = time.perf_counter()
        self.learner.update(self.rollout.flat(), number=0, learning_rate=0.0, entropy_coefficient=0.0)
        samples = self.rollout.steps * self.rollout.num_envs
        return (collected - start) / samples, (time.perf_counter() - collected) / samples

    def close(self) -> None:
        """End all threads."""
        self.learner.close()
        self.task.env.close()


def _steps(run: PPORun) -> int:
    """Enough steps for a whole minibatch, as far as the rollout has them."""
    enough = -(-run.config.ppo.minibatch_size // run.task.env.num_envs)
    return min(run.rollout.steps, max(FEWEST_STEPS, enough))
