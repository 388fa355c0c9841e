"""The reward: each term by hand, then the sum against the NumPy implementation over whole matches."""

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
    """Both seats' rewards of one step without control inputs."""
    reward = RewardConfig(**{**NOTHING, **weights})
    batch = scene(first, second, physics=CALM, reward=reward, action_repeat=ticks, **options)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    return batch.reward[0].tolist()


def shot_at(seat, target):
    """A bullet that meets the fighter of `seat` head-on on the next tick."""
    return {"owner": 1 - seat, "x": target["x"], "y": target["y"] + 4.0, "yaw": math.pi / 2, "life": 9}


def test_default_weights():
    weights = RewardConfig()
    damage = weights.damage_dealt, weights.damage_taken
    assert damage == (3.0, 1.0)
    assert (weights.win, weights.lose, weights.draw) == (5.0, 5.0, 0.0)
    assert (weights.approach, weights.alive, weights.proximity, weights.facing) == (0.0001, 0.0, 0.001, 0.0005)


def test_damage_is_paid_to_the_shooter_and_taken_from_the_target():
    weights = {"damage_dealt": 3.0, "damage_taken": 1.0}
    assert reward_of(LEFT, RIGHT, weights=weights, bullets=[shot_at(1, RIGHT)]) == [3.0, -1.0]
    assert reward_of(LEFT, RIGHT, weights=weights, bullets=[shot_at(0, LEFT)]) == [-1.0, 3.0]
    assert reward_of(LEFT, RIGHT, weights=weights, bullets=[shot_at(0, LEFT), shot_at(1, RIGHT)]) == [2.0, 2.0]


def test_a_glancing_bullet_pays_nothing():
    behind = {"owner": 0, "x": RIGHT["x"], "y": 300.0, "yaw": math.pi, "life": 9}
    assert reward_of(LEFT, RIGHT, weights={"damage_dealt": 3.0, "damage_taken": 1.0}, bullets=[behind]) == [0.0, 0.0]


def test_damage_adds_up_over_the_ticks_of_a_step():
    later = {"owner": 0, "x": RIGHT["x"] - 20.0 - 400.0 / 24.0, "y": 300.0, "yaw": 0.0, "life": 30}
    weights = {"damage_dealt": 3.0}
    assert reward_of(LEFT, RIGHT, weights=weights, bullets=[shot_at(1, RIGHT), later], ticks=10) == [6.0, 0.0]


@pytest.mark.parametrize(("seat", "expected"), [(1, [5.0, -4.0]), (0, [-4.0, 5.0])])
def test_a_death_pays_the_result(seat, expected):
    target = {**(LEFT, RIGHT)[seat], "hp": 1}
    fighters = (target, RIGHT) if seat == 0 else (LEFT, target)
    weights = {"win": 5.0, "lose": 4.0, "draw": 1.0}
    assert reward_of(*fighters, weights=weights, bullets=[shot_at(seat, target)]) == expected


@pytest.mark.parametrize(("hp", "expected"), [((4, 3), [5.0, -4.0]), ((3, 4), [-4.0, 5.0]), ((3, 3), [-1.5, -1.5])])
def test_time_out_pays_by_hp(hp, expected):
    weights = {"win": 5.0, "lose": 4.0, "draw": -1.5}
    fighters = {**LEFT, "hp": hp[0]}, {**RIGHT, "hp": hp[1]}
    assert reward_of(*fighters, weights=weights, tick=10_799) == expected


def test_two_deaths_on_one_tick_pay_the_draw():
    fighters = {**LEFT, "hp": 1}, {**RIGHT, "hp": 1}
    shots = [shot_at(0, LEFT), shot_at(1, RIGHT)]
    assert reward_of(*fighters, weights={"draw": 0.25, "win": 5.0, "lose": 5.0}, bullets=shots) == [0.25, 0.25]


def test_a_running_match_pays_no_result():
    assert reward_of(LEFT, RIGHT, weights={"win": 5.0, "lose": 5.0, "draw": 5.0}) == [0.0, 0.0]


def test_approach_is_the_distance_closed_over_the_complete_step():
    # Ten ticks head-on at 100 m/s each close 2 * 100 * 10 / 120 m.
    rewards = reward_of(LEFT, RIGHT, weights={"approach": 0.01}, ticks=10)
    assert rewards == pytest.approx([0.01 * 2000.0 / 120.0] * 2, rel=1e-5)
    apart = reward_of({**LEFT, "yaw": math.pi}, {**RIGHT, "yaw": 0.0}, weights={"approach": 0.01}, ticks=10)
    assert apart == pytest.approx([-0.01 * 2000.0 / 120.0] * 2, rel=1e-5)


@pytest.mark.parametrize("ticks", [1, 10])
def test_alive_proximity_and_facing_are_paid_once_a_step(ticks):
    near = {**LEFT, "x": 0.0}, {**RIGHT, "x": 200.0, "yaw": math.pi / 2, "speed": 40.0}
    weights = {"alive": 0.5, "proximity": 0.25, "facing": 0.125}
    assert reward_of(*near, weights=weights, ticks=ticks) == [0.875, 0.75]


def test_the_dead_are_not_paid_for_being_alive():
    fighters = LEFT, {**RIGHT, "hp": 1}
    assert reward_of(*fighters, weights={"alive": 0.5}, bullets=[shot_at(1, RIGHT)]) == [0.5, 0.0]


@pytest.mark.parametrize(("distance", "expected"), [(249.0, 1.0), (251.0, 0.0)])
def test_proximity_begins_at_250_m(distance, expected):
    still = {**LEFT, "x": 0.0, "yaw": math.pi / 2}, {**RIGHT, "x": distance, "yaw": math.pi / 2}
    assert reward_of(*still, weights={"proximity": 1.0}) == [expected] * 2


@pytest.mark.parametrize(
    ("distance", "degrees", "expected"),
    [(299.0, 29.5, 1.0), (301.0, 29.5, 0.0), (299.0, 30.5, 0.0), (299.0, -29.5, 1.0)],
)
def test_facing_is_within_30_degrees_and_300_m(distance, degrees, expected):
    # Both fly the same way, so that only seat 0 may face the other.
    yaw = math.radians(degrees)
    me = {**LEFT, "x": 0.0, "yaw": yaw}
    it = {**RIGHT, "x": distance, "yaw": yaw}
    assert reward_of(me, it, weights={"facing": 1.0}) == [expected, 0.0]


def potential(distance, cosine):
    return 0.5 * cosine * math.exp(-distance / 400.0) + 0.5 * math.exp(-distance / 300.0)


def test_shaping_is_the_discounted_change_of_the_potential():
    # Head-on on one line: the lead point is in front of both noses, so the cosine stays 1.
    closer = 400.0 - 2000.0 / 120.0
    expected = 0.5 * (0.99 * potential(closer, 1.0) - potential(400.0, 1.0))
    rewards = reward_of(LEFT, RIGHT, weights={"shaping": 0.5}, gamma=0.99, ticks=10)
    assert rewards == pytest.approx([expected] * 2, abs=1e-6)


def test_shaping_aims_at_the_lead_point():
    # Seat 1 flies up at 100 m/s, 200 m away: the lead point is 100 * 200 / 400 = 50 m above it.
    it = {**RIGHT, "x": 200.0, "yaw": math.pi / 2}
    still = {**LEFT, "x": 0.0}
    cosine = 200.0 / math.hypot(200.0, 50.0)
    rewards = reward_of(still, it, weights={"shaping": 1.0}, gamma=0.0)
    assert rewards[0] == pytest.approx(-potential(200.0, cosine), abs=1e-6)


@pytest.mark.parametrize(("degrees", "worth"), [(0.0, 0.4), (45.0, 0.4), (135.0, 1.0), (180.0, 1.0)])
def test_with_exposure_aim_counts_where_the_armour_is_open(degrees, worth):
    """Seat 1's heading makes this angle with seat 0's, who has it straight ahead; its cone is 45 degrees."""
    it = {**RIGHT, "x": 200.0, "yaw": math.radians(degrees), "speed": 0.001}
    rewards = reward_of({**LEFT, "x": 0.0}, it, weights={"shaping": 1.0, "exposure": 0.6}, gamma=0.0)
    assert rewards[0] == pytest.approx(-potential(200.0, worth), abs=1e-3)


def test_shaping_ends_at_zero_after_a_death_but_not_at_time_out():
    weights = {"shaping": 1.0}
    killed = reward_of(LEFT, {**RIGHT, "hp": 1}, weights=weights, gamma=0.9, bullets=[shot_at(1, RIGHT)])
    assert killed == pytest.approx([-potential(400.0, 1.0)] * 2, abs=1e-6)
    closer = 400.0 - 200.0 / 120.0
    timed_out = reward_of(LEFT, RIGHT, weights=weights, gamma=0.9, tick=10_799)
    expected = 0.9 * potential(closer, 1.0) - potential(400.0, 1.0)
    assert timed_out == pytest.approx([expected] * 2, abs=1e-6)


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_rewards_equal_the_numpy_implementation(rule_set):
    """Every step starts from the simulator's state in both, so that courses cannot drift apart."""
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
