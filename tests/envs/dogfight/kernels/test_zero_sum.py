"""Zero-sum rewards in random matches, and the time limit as an ending."""

import numpy as np
import pytest
import torch

from sparring.configs.load import load
from sparring.curriculum.general_sum import general_sum_note
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import RewardConfig

WEIGHTS = {
    "damage_dealt": 0.9, "damage_taken": 0.3, "win": 1.5, "lose": 1.0, "draw": -1.5, "approach": 0.01,
    "proximity": 0.05, "facing": 0.02, "alive": 0.01, "shaping": 0.3, "exposure": 0.7,
}  # fmt: skip
MATCHES, LIMIT = 64, 600


def rewards_of(steps, **options):
    """Return rewards [T, N, 2] and outcomes [T, N] of random actions, half of them against a bot."""
    weights = RewardConfig(**(WEIGHTS | options))
    batch = DogfightBatch(MATCHES, reward=weights, gamma=0.99, threads=1, seed=3, max_ticks=LIMIT)
    batch.bots[: MATCHES // 2, 1] = batch.bot_id("brawler")
    batch.reset(3)
    generator, rows = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        actions = torch.rand(MATCHES, 2, 3, generator=generator) * 2 - 1
        batch.step(actions)
        rows.append((batch.reward.clone(), batch.outcome.clone(), batch.truncated.clone()))
    batch.close()
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def test_zero_sum_rewards_add_up_to_zero_at_every_step():
    reward, outcome, _ = rewards_of(200, zero_sum=True)
    assert (outcome == 0).any()
    assert (outcome > 0).any()
    assert torch.equal(reward[..., 0], -reward[..., 1])
    assert (reward.abs().sum((0, 1)) > 1.0).all()


def test_each_seat_gets_half_of_difference():
    plain, _, truncated = rewards_of(200, shaping=0.0)
    zero, *_ = rewards_of(200, shaping=0.0, zero_sum=True)
    torch.testing.assert_close(zero[..., 0], 0.5 * (plain[..., 0] - plain[..., 1]), rtol=0, atol=1e-6)
    assert truncated.any()
    assert float((plain.sum(-1)).abs().max()) > 0.1


def test_shaping_sums_to_minus_initial_potential():
    alone = dict.fromkeys(WEIGHTS, 0.0) | {"shaping": 1.0, "zero_sum": True}
    reward, outcome, _ = rewards_of(LIMIT // 10, **alone)
    for match in np.flatnonzero((outcome >= 0).any(0).numpy()):
        last = int((outcome[:, match] >= 0).nonzero()[0])
        discount = 0.99 ** torch.arange(last + 1)
        gained = float((discount * reward[: last + 1, match, 0]).sum())
        start = phi_difference(match)
        assert gained == pytest.approx(-0.5 * start, abs=2e-5)


def phi_difference(match):
    """Return phi of seat 0 minus seat 1 at the start, from one step with gamma 0: r = -phi, halved."""
    if not hasattr(phi_difference, "first"):
        weights = RewardConfig(**dict.fromkeys(WEIGHTS, 0.0) | {"shaping": 1.0})
        batch = DogfightBatch(MATCHES, reward=weights, gamma=0.0, threads=1, seed=3, max_ticks=LIMIT)
        batch.reset(3)
        batch.step(torch.zeros(MATCHES, 2, 3))
        phi_difference.first = -batch.reward.clone()
        batch.close()
    mine, theirs = phi_difference.first[match].tolist()
    return mine - theirs


def test_zero_sum_run_is_not_called_general_sum():
    assert "general-sum" in general_sum_note(load(["+run=self_play"]))
    assert general_sum_note(load(["+run=self_play", "env.reward.zero_sum=true"])) == ""
