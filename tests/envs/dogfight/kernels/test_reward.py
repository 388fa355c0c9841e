"""The reward: shaping by hand, and the sum against the NumPy implementation over whole matches."""

import math

import numpy as np
import pytest
import torch

from benchmarks.numpy_dogfight.peer import NumpyDogfight
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import RewardConfig
from tests.envs.dogfight.worlds import IDLE, scene, to_numpy

LEFT = {"x": -200.0, "y": 300.0, "yaw": 0.0, "speed": 100.0}
RIGHT = {"x": 200.0, "y": 300.0, "yaw": math.pi, "speed": 100.0}
CALM = {"gravity": 0.0, "drag_coeff": 0.0}
NOTHING = dict.fromkeys(RewardConfig.__dataclass_fields__, 0.0)


def reward_of(first, second, *, weights, ticks=1, **options):
    """Return both seats' rewards of one step without control inputs."""
    reward = RewardConfig(**{**NOTHING, **weights})
    batch = scene(first, second, physics=CALM, reward=reward, action_repeat=ticks, **options)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    return batch.reward[0].tolist()


def shot_at(seat, target):
    """Return a bullet that hits the fighter of `seat` head-on on the next tick."""
    return {"owner": 1 - seat, "x": target["x"], "y": target["y"] + 4.0, "yaw": math.pi / 2, "life": 9}


def potential(distance, cosine):
    return 0.5 * cosine * math.exp(-distance / 400.0) + 0.5 * math.exp(-distance / 300.0)


def test_shaping_is_discounted_change_of_potential():
    # Head-on on one line: the lead point is in front of both noses, so the cosine stays 1.
    closer = 400.0 - 2000.0 / 120.0
    expected = 0.5 * (0.99 * potential(closer, 1.0) - potential(400.0, 1.0))
    rewards = reward_of(LEFT, RIGHT, weights={"shaping": 0.5}, gamma=0.99, ticks=10)
    assert rewards == pytest.approx([expected] * 2, abs=1e-6)


def test_shaping_aims_at_lead_point():
    # Seat 1 flies up at 100 m/s, 200 m away: the lead point is 100 * 200 / 400 = 50 m above it.
    it = {**RIGHT, "x": 200.0, "yaw": math.pi / 2}
    still = {**LEFT, "x": 0.0}
    cosine = 200.0 / math.hypot(200.0, 50.0)
    rewards = reward_of(still, it, weights={"shaping": 1.0}, gamma=0.0)
    assert rewards[0] == pytest.approx(-potential(200.0, cosine), abs=1e-6)


@pytest.mark.parametrize(("degrees", "worth"), [(0.0, 0.4), (45.0, 0.4), (135.0, 1.0), (180.0, 1.0)])
def test_exposure_makes_aim_count_where_armour_is_open(degrees, worth):
    """Seat 1's heading has this angle to seat 0's, who aims straight at it; its cone is 45 degrees."""
    it = {**RIGHT, "x": 200.0, "yaw": math.radians(degrees), "speed": 0.001}
    rewards = reward_of({**LEFT, "x": 0.0}, it, weights={"shaping": 1.0, "exposure": 0.6}, gamma=0.0)
    assert rewards[0] == pytest.approx(-potential(200.0, worth), abs=1e-3)


def test_shaping_ends_at_zero_after_death_but_not_time_out():
    weights = {"shaping": 1.0}
    killed = reward_of(LEFT, {**RIGHT, "hp": 1}, weights=weights, gamma=0.9, bullets=[shot_at(1, RIGHT)])
    assert killed == pytest.approx([-potential(400.0, 1.0)] * 2, abs=1e-6)
    closer = 400.0 - 200.0 / 120.0
    timed_out = reward_of(LEFT, RIGHT, weights=weights, gamma=0.9, tick=10_799)
    expected = 0.9 * potential(closer, 1.0) - potential(400.0, 1.0)
    assert timed_out == pytest.approx([expected] * 2, abs=1e-6)


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_rewards_match_numpy_implementation(rule_set):
    """Every step starts both from the simulator's state, so trajectories cannot drift apart."""
    matches = 100
    weights = RewardConfig(draw=0.5, alive=0.01, shaping=0.5, approach=0.01, proximity=0.1, facing=0.1)
    options = {"bot_rate": "agent", "gamma": 0.98, "max_ticks": 250}
    batch = DogfightBatch(matches, rules=rule_set, reward=weights, seed=4, threads=1, **options)
    index = np.arange(matches)
    batch.assign(np.stack([index % 5, index // 5 % 5], axis=1))
    ranges = rules.ranges("full")
    ranges[rules.PARAMETER_INDEX["max_hp"]] = 1, 2  # Short matches, so that many end by a hit.
    batch.set_ranges(ranges)
    batch.reset()
    peer = NumpyDogfight(matches, rule_set=rule_set, reward_weights=weights, dtype=np.float64, **options)
    peer.bots[:] = batch.bots.numpy()
    terminated, truncated, equal = 0, 0, []
    for _ in range(55):
        peer.state = to_numpy(batch)
        _, expected, died, timed_out = peer.step(np.zeros((matches, 2, 3)))
        batch.step(torch.zeros(matches, 2, 3))
        same = (batch.terminated.numpy() == died) & (batch.truncated.numpy() == timed_out)
        same &= batch.outcome.numpy() == peer.outcome
        same &= np.abs(batch.reward.numpy() - expected).max(axis=1) < 1e-4
        equal += list(same)
        terminated, truncated = terminated + died.sum(), truncated + timed_out.sum()
    # A hit on the edge of rounding may fall one tick apart.
    assert np.mean(equal) >= 0.999
    assert terminated >= 10
    assert truncated >= 10
