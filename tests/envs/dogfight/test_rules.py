"""Rules of the game, each worked out by hand on one prepared match.

Unless a test says otherwise, seat 0 at (-200, 300) heading right, seat 1 at (200, 300) heading left.
"""

import math

import numpy as np
import pytest
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import TRACE_FIELDS
from tests.envs.dogfight.worlds import IDLE, live_bullets, play, scene

DT = 1.0 / 120.0
LEFT = {"x": -200.0, "y": 300.0, "yaw": 0.0, "speed": 100.0}
RIGHT = {"x": 200.0, "y": 300.0, "yaw": math.pi, "speed": 100.0}
FIRE = (0.0, 1.0, 1.0)
CALM = {"gravity": 0.0, "drag_coeff": 0.0}


def put(place, **changes):
    return {**place, **changes}


# Flight


def test_speed_stays_within_limits():
    me, _ = play(scene(put(LEFT, speed=250.0), RIGHT), (0.0, 1.0, -1.0))
    assert me["speed"] <= 250.0
    me, _ = play(scene(put(LEFT, speed=31.0, yaw=math.pi / 2), RIGHT, physics={"gravity": 2000.0}), IDLE)
    assert me["speed"] == pytest.approx(20.0)


def test_out_of_range_actions_are_clamped():
    wild, tame = scene(LEFT, RIGHT), scene(LEFT, RIGHT)
    np.testing.assert_array_equal(play(wild, (7.0, 9.0, 50.0)), play(tame, (1.0, 1.0, 1.0)))
    wild, tame = scene(LEFT, RIGHT), scene(LEFT, RIGHT)
    np.testing.assert_array_equal(play(wild, (-7.0, -9.0, -50.0)), play(tame, (-1.0, 0.0, -1.0)))


# Stall


def test_stall_starts_below_30_and_skips_rest_of_tick():
    me, _ = play(scene(put(LEFT, speed=29.9, cooldown=5), RIGHT), FIRE)
    assert me["stall"] == 36
    assert (me["x"], me["y"], me["speed"], me["cooldown"]) == pytest.approx((-200.0, 300.0, 29.9, 5))
    me, _ = play(scene(put(LEFT, speed=30.0), RIGHT, physics=CALM), IDLE)
    assert me["stall"] == 0


def test_stall_ends_early_above_40():
    down = put(LEFT, yaw=-math.pi / 2, stall=30)
    # Straight down the speed gains 80 / 120 m/s a tick and loses drag: 39.7 -> 40.06, 39.4 -> 39.77.
    assert play(scene(put(down, speed=39.7), RIGHT))[0]["stall"] == 0
    assert play(scene(put(down, speed=39.4), RIGHT))[0]["stall"] == 29


def test_stall_lasts_36_ticks():
    # Held at a min_speed of 29 by drag, so that only the count ends the stall, and the next begins at once.
    physics = {"gravity": 0.0, "min_speed": 29.0, "drag_coeff": 1.3}
    batch = scene(put(LEFT, speed=29.0), RIGHT, physics=physics)
    course = [int(play(batch)["stall"][0]) for _ in range(38)]
    assert course == [*range(36, -1, -1), 36]


# Walls and borders


@pytest.mark.parametrize(
    ("place", "axis", "push"),
    [
        ({"x": -475.0, "y": 300.0}, "x", +1),
        ({"x": 475.0, "y": 300.0}, "x", -1),
        ({"x": 0.0, "y": 25.0}, "y", +1),
        ({"x": 0.0, "y": 575.0}, "y", -1),
    ],
)
def test_walls_push_with_square_of_depth(place, axis, push):
    # Flying along the wall, so that the push alone moves the fighter on its axis.
    yaw = math.pi / 2 if axis == "x" else 0.0
    me, _ = play(scene({**place, "yaw": yaw, "speed": 100.0}, RIGHT, physics=CALM))
    assert me[axis] - place[axis] == pytest.approx(push * 300.0 * 0.5**2 * DT, abs=1e-4)


@pytest.mark.parametrize(
    ("yaw", "axis", "limit"), [(math.pi, "x", -500.0), (0.0, "x", 500.0), (math.pi / 2, "y", 600.0)]
)
def test_hard_edge_holds_at_any_speed(yaw, axis, limit):
    place = {"x": 490.0 * math.cos(yaw), "y": 300.0 + 290.0 * math.sin(yaw), "yaw": yaw, "speed": 2000.0}
    me, _ = play(scene(place, RIGHT, physics={**CALM, "max_speed": 2000.0}), ticks=5)
    assert me[axis] == limit


def test_classic_ground_is_not_lethal():
    batch = scene({"x": 0.0, "y": 1.0, "yaw": -math.pi / 2, "speed": 200.0}, RIGHT)
    me, _ = play(batch, ticks=10)
    assert me["hp"] == 5
    assert not bool(batch.terminated)


@pytest.mark.parametrize(("altitude", "dies"), [(5.0, True), (5.01, False)])
def test_challenge_ground_kills_at_5_m(altitude, dies):
    batch = scene({"x": 0.0, "y": altitude, "yaw": 0.0, "speed": 200.0}, RIGHT, rule_set="challenge")
    play(batch)
    assert bool(batch.terminated) == dies


# Guns and armour


def test_shooting_requires_positive_value():
    batch = scene(LEFT, RIGHT)
    play(batch, (0.0, 1.0, 0.0))
    assert len(live_bullets(batch, 0)) == 0


def test_bullet_lives_its_lifetime():
    batch = scene(LEFT, put(RIGHT, y=500.0), physics={**CALM, "bullet_lifetime_ticks": 30.0})
    play(batch, FIRE)
    counts = []
    for _ in range(30):
        counts.append(len(live_bullets(batch, 0)))
        play(batch)
    # Seen after its first tick with 29 ticks left; gone after the 30th.
    assert counts == [1] * 29 + [0]


def hit_from(angle, *, cone=0.785, hp=5, distance=0.0):
    """Let a bullet of seat 0 hit right-flying seat 1 at `angle` in this tick."""
    target = {"x": 0.0, "y": 300.0, "yaw": 0.0, "speed": 100.0, "hp": hp}
    step = 400.0 * DT
    bullet = {"owner": 0, "life": 10, "yaw": angle, "x": 100.0 * DT - step * math.cos(angle), "y": 300.0 + distance}
    bullet["y"] -= step * math.sin(angle)
    physics = {**CALM, "rear_aspect_cone": cone}
    return scene(put(LEFT, y=500.0), target, bullets=[bullet], physics=physics)


@pytest.mark.parametrize("cone", [0.3, 0.785, 1.2])
@pytest.mark.parametrize("side", [-1, 1])
def test_armour_holds_inside_cone_and_breaks_outside(cone, side):
    batch = hit_from(side * (cone - 0.002), cone=cone)
    assert play(batch)["hp"].tolist() == [5, 5]
    assert len(live_bullets(batch, 0)) == 0
    batch = hit_from(side * (cone + 0.002), cone=cone)
    assert play(batch)["hp"].tolist() == [5, 4]
    assert len(live_bullets(batch, 0)) == 0


def test_bullet_hits_within_11_m():
    assert play(hit_from(math.pi, distance=10.99))["hp"][1] == 4
    assert play(hit_from(math.pi, distance=11.01))["hp"][1] == 5


def test_bullet_passes_its_own_side():
    mine = {"owner": 0, "x": LEFT["x"], "y": 300.0, "yaw": math.pi / 2, "life": 9}
    assert play(scene(LEFT, RIGHT, bullets=[mine]))["hp"].tolist() == [5, 5]


# The end of a match


def test_elimination_wins():
    batch = hit_from(math.pi, hp=1)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    assert (bool(batch.terminated), bool(batch.truncated), int(batch.outcome), int(batch.length)) == (True, False, 1, 1)
    assert batch.final_hp.tolist() == [[5, 0]]


def test_both_dead_on_same_tick_is_draw():
    fighters = put(LEFT, hp=1), put(RIGHT, hp=1)
    at = [{"owner": 0, "x": 200.0, "y": 300.0, "yaw": math.pi / 2, "life": 9}] * 2
    at += [{"owner": 1, "x": -200.0, "y": 300.0, "yaw": math.pi / 2, "life": 9}]
    batch = scene(*fighters, bullets=at)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    assert (bool(batch.terminated), int(batch.outcome)) == (True, 0)
    assert batch.final_hp.tolist() == [[0, 0]]


@pytest.mark.parametrize(("first", "second", "outcome"), [(4, 3, 1), (2, 3, 2), (3, 3, 0)])
def test_time_out_compares_hp_and_is_truncation(first, second, outcome):
    batch = scene(put(LEFT, hp=first), put(RIGHT, hp=second), tick=10_799)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    ends = bool(batch.terminated), bool(batch.truncated), int(batch.outcome), int(batch.length)
    assert ends == (False, True, outcome, 10_800)
    assert batch.final_hp.tolist() == [[first, second]]


def test_match_lasts_10_800_ticks():
    batch = scene(LEFT, RIGHT, tick=10_798)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    assert not bool(batch.truncated)
    assert int(batch.outcome) == -1


def test_action_repeat_stops_when_match_ends():
    batch = scene(LEFT, RIGHT, tick=10_797, action_repeat=10, trace=1)
    batch.step(torch.tensor([[IDLE, IDLE]]))
    assert bool(batch.truncated)
    assert int(batch.length) == 10_800
    assert batch.trace[0, :, -1].tolist() == [10_798, 10_799, 10_800] + [-1] * 7
    # The successor begins at once, at tick 0, and has not moved.
    assert batch.snapshot()["clock"]["tick"][0] == 0
    assert batch.snapshot()["fighters"]["x"][0].tolist() == [-200.0, 200.0]


# Bad actions


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_non_finite_action_is_zeroed_for_its_seat_and_counted(bad, position):
    rng = np.random.default_rng(1)
    actions = torch.tensor(rng.uniform(-1, 1, (4, 2, 3)), dtype=torch.float32)
    repaired = actions.clone()
    repaired[2, 1] = 0.0
    broken = actions.clone()
    broken[2, 1, position] = bad
    first, second = (DogfightBatch(4, seed=3, threads=1) for _ in range(2))
    first.step(broken)
    second.step(repaired)
    np.testing.assert_array_equal(first.snapshot()["fighters"], second.snapshot()["fighters"])
    assert first.invalid_actions.tolist() == [0, 0, 1, 0]
    assert second.invalid_actions.tolist() == [0, 0, 0, 0]


def test_bot_action_row_is_ignored():
    batch = DogfightBatch(2, seed=3, threads=1)
    batch.assign(np.full((2, 2), rules.bot_id("ace")))
    batch.step(torch.full((2, 2, 3), math.nan))
    assert batch.invalid_actions.tolist() == [0, 0]
    assert torch.isfinite(batch.obs).all()


# Challenge rules


def test_challenge_gravity_is_130_unless_randomized():
    gravity = DogfightBatch(3, rules="challenge", threads=1).snapshot()["physics"]["gravity"]
    assert gravity.tolist() == [130.0] * 3


def challenge(first, second=RIGHT, **options):
    return scene(first, second, rule_set="challenge", **options)


def test_challenge_bullets_hit_across_seam():
    bullet = {"owner": 0, "x": 498.0, "y": 300.0, "yaw": 0.0, "life": 9}
    target = {"x": -496.0, "y": 300.0, "yaw": math.pi, "speed": 100.0}
    assert play(challenge(LEFT, target, bullets=[bullet], physics=CALM))["hp"].tolist() == [5, 4]


def test_both_hitting_challenge_ground_is_draw():
    low = {"x": 0.0, "y": 5.5, "yaw": -math.pi / 2, "speed": 100.0}
    batch = challenge(low, put(low, x=100.0, hp=3))
    batch.step(torch.tensor([[IDLE, IDLE]]))
    assert (bool(batch.terminated), int(batch.outcome)) == (True, 0)


def test_challenge_ceiling_slows_and_caps():
    me, _ = play(challenge({"x": 0.0, "y": 575.0, "yaw": 0.0, "speed": 100.0}, physics=CALM))
    assert me["speed"] == pytest.approx(100.0 - 80.0 * 0.25 * DT)
    me, _ = play(challenge({"x": 0.0, "y": 599.9, "yaw": math.pi / 2, "speed": 200.0}, physics=CALM))
    assert me["y"] == 600.0
    me, _ = play(challenge({"x": 0.0, "y": 600.0, "yaw": 0.0, "speed": 20.2, "stall": 9}, physics=CALM))
    assert me["speed"] == pytest.approx(20.0)


def test_challenge_has_no_side_walls_and_no_floor_push():
    me, _ = play(challenge({"x": 490.0, "y": 20.0, "yaw": math.pi / 2, "speed": 60.0}, physics=CALM))
    assert (me["x"], me["y"]) == pytest.approx((490.0, 20.5))


def test_crash_keeps_hp_and_counts_as_death():
    diving = {"x": 0.0, "y": 5.2, "yaw": -1.5, "speed": 100.0}
    batch = scene(diving, {"x": 300.0, "y": 300.0, "speed": 100.0}, rule_set="challenge", trace=1)
    batch.step(torch.zeros(1, 2, 3))
    assert bool(batch.terminated[0])
    assert batch.outcome[0] == 2
    assert batch.final_hp[0].tolist() == [5, 5]
    row = dict(zip(TRACE_FIELDS, batch.trace[0, 0].tolist(), strict=True))
    assert (row["hp_0"], row["hp_1"]) == (0.0, 5.0)


@pytest.mark.parametrize("rule_set", rules.RULES)
@pytest.mark.parametrize("bot", rules.BOTS)
def test_coincident_fighters_give_no_nan(bot, rule_set):
    here = {"x": 0.0, "y": 300.0, "yaw": 0.5, "speed": 100.0}
    batch = scene(here, here, rule_set=rule_set, bots=[rules.bot_id(bot)] * 2)
    batch.step(torch.zeros(1, 2, 3))
    fighters = batch.snapshot()["fighters"]
    assert all(np.isfinite(fighters[name]).all() for name in ("x", "y", "cos_yaw", "sin_yaw", "speed", "turn_rate"))
    assert batch.obs.isfinite().all()
