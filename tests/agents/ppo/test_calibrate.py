"""The estimate of a run's length: the trial's seconds per sample times the run's samples, and nothing of it remains."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from sparring.agents.ppo import start
from sparring.agents.ppo.start import estimate_seconds
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.configs.load import load

SIZES = ["env.num_envs=8", "ppo.rollout_steps=32", "ppo.minibatch_size=64", "ppo.epochs=3", "network.hidden=4"]
PLACE = ["device=cpu", "threads=1", "logger.progress=false"]


@pytest.fixture
def run(tmp_path):
    run = PPOTrainer(load(["+run=quickstart", "max_updates=100", *SIZES, *PLACE, f"checkpoint_dir={tmp_path}"]))
    yield run
    run.close()


def estimate(run):
    return estimate_seconds(run.config, run.network, run.rollout, updates=run.updates, threads=run.threads)


def test_seconds_per_sample_are_scaled_to_the_whole_run(run, monkeypatch):
    """A trial is 16 steps of 8 matches; pretend that it takes 128 s to collect and 256 s to learn from once."""
    ticks = itertools.cycle([0.0, 128.0, 384.0])
    monkeypatch.setattr(start, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    assert estimate(run) == 100 * 32 * 8 * (1.0 + 3 * 2.0)


def test_the_trial_leaves_the_run_as_it_was(run):
    def state():
        draws = (run.actions.get_state(), run.learner.shuffle.get_state())
        return torch.cat([p.flatten() for p in run.network.parameters()]).clone(), run.task.batch.obs.clone(), *draws

    before, steps = state(), run.rollout.obs.clone()
    assert estimate(run) > 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert torch.equal(run.rollout.obs, steps)
    assert not run.learner.optimizer.state
