"""The simulator's physics against the scalar float64 reference, and the mirror symmetry of the game.

Both play the same actions for 600 ticks from the same state: half of the matches at random, half chasing each other so
that bullets hit. Positions must agree to a millimetre until a match's first hit, and every hit must happen on the same
tick, by the same seat, with the same effect.
"""

import math

import numpy as np
import pytest
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import TRACE_FIELDS
from tests.envs.dogfight.reference import wrap_angle, wrap_x
from tests.envs.dogfight.worlds import scene, to_match

TICKS = 600
MATCHES = 12
TOLERANCE = 1e-3
TOLERANCE_AFTER_A_HIT = 5e-3
"""float32 keeps rounding: a heading off by 1e-6 rad is 1 mm after a kilometre, so later ticks get some room."""


def chase(match, seat):
    """Turn toward the opponent at full throttle and shoot."""
    me, foe = match.fighters[seat], match.fighters[1 - seat]
    dx = wrap_x(foe.x - me.x) if match.challenge else foe.x - me.x
    off = wrap_angle(math.atan2(foe.y - me.y, dx) - me.yaw)
    return [min(max(3.0 * off, -1.0), 1.0), 1.0, 1.0]


def wander(rng):
    """Return any action in the action space, and slightly beyond."""
    return [rng.uniform(-1.2, 1.2), rng.uniform(-0.2, 1.2), rng.uniform(-1.0, 1.0)]


def hit_events(before, after, cooldown_ticks, challenge):
    """Return hits of one tick from two trace rows, as (shooter, kind); a ground crash is not a hit."""
    events = []
    for shooter in (0, 1):
        slots = range(rules.BULLETS_PER_FIGHTER)
        lives = [f"bullet_{slot + len(slots) * shooter}_life" for slot in slots]
        fired = after[f"cooldown_{shooter}"] == cooldown_ticks and before[f"cooldown_{shooter}"] <= 1
        expected = sum(before[life] > 1 for life in lives) + fired
        consumed = expected - sum(after[life] > 0 for life in lives)
        crashed = challenge and after[f"y_{1 - shooter}"] <= 5.0
        damage = 0 if crashed else before[f"hp_{1 - shooter}"] - after[f"hp_{1 - shooter}"]
        events += [(shooter, "damage")] * int(damage) + [(shooter, "glance")] * int(consumed - damage)
    return events


def traced(batch):
    """Return the last tick of every match as dicts of trace fields."""
    return [dict(zip(TRACE_FIELDS, row, strict=True)) for row in batch.trace[:, 0].tolist()]


def still(batch):
    """Return the state before the first tick in trace fields."""
    snapshot = batch.snapshot()
    rows = []
    for fighters in snapshot["fighters"]:
        row = dict.fromkeys(TRACE_FIELDS, 0.0)
        for seat in (0, 1):
            for name in ("hp", "cooldown"):
                row[f"{name}_{seat}"] = float(fighters[seat][name])
        rows.append(row)
    return rows


def worst_difference(match, row):
    differences = []
    for seat, fighter in enumerate(match.fighters):
        dx = row[f"x_{seat}"] - fighter.x
        differences += [abs(wrap_x(dx) if match.challenge else dx), abs(row[f"y_{seat}"] - fighter.y)]
    return max(differences)


@pytest.mark.parametrize("rule_set", rules.RULES)
@pytest.mark.parametrize("level", ["none", "full"])
def test_trajectory_and_hits_match_reference(rule_set, level):
    batch = DogfightBatch(MATCHES, rules=rule_set, action_repeat=1, trace=MATCHES, seed=11, threads=1)
    batch.set_ranges(rules.ranges(level))
    batch.reset(seed=11)
    matches = [to_match(batch, index) for index in range(MATCHES)]
    rows, rng = still(batch), np.random.default_rng(5)
    running, events = set(range(MATCHES)), np.zeros(MATCHES, int)
    wandering = np.zeros((MATCHES, 2, 3))
    for tick in range(TICKS):
        if tick % 12 == 0:
            wandering = np.array([[wander(rng) for _ in range(2)] for _ in range(MATCHES)])
        actions = wandering.copy()
        for index in range(0, MATCHES, 2):
            actions[index] = [chase(matches[index], seat) for seat in (0, 1)]
        actions = torch.tensor(actions, dtype=torch.float32)
        batch.step(actions)
        previous, rows = rows, traced(batch)
        for index in sorted(running):
            match, row = matches[index], rows[index]
            expected = [(shooter, kind) for _, shooter, kind in match.tick_once(actions[index].tolist())]
            seen = hit_events(previous[index], row, match.parameters.gun_cooldown_ticks, match.challenge)
            assert sorted(seen) == sorted(expected), (index, tick)
            tolerance = TOLERANCE_AFTER_A_HIT if events[index] else TOLERANCE
            assert worst_difference(match, row) <= tolerance, (index, tick)
            for seat, fighter in enumerate(match.fighters):
                assert row[f"hp_{seat}"] == fighter.hp * fighter.alive
                assert row[f"cooldown_{seat}"] == fighter.cooldown
                assert row[f"stall_{seat}"] == fighter.stall
            events[index] += len(seen)
            if match.terminated:
                assert bool(batch.terminated[index])
                assert int(batch.outcome[index]) == match.outcome
                running.discard(index)
    assert events.sum() >= 3


def mirrored(state):
    """Return the mirrored situations: seats swapped, left and right swapped."""
    twin = {name: array.copy() for name, array in state.items()}
    twin["fighters"] = state["fighters"][:, ::-1].copy()
    twin["fighters"]["x"] *= -1.0
    twin["fighters"]["cos_yaw"] *= -1.0
    return twin


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_mirrored_matches_take_mirrored_course(rule_set):
    first, second = (DogfightBatch(64, rules=rule_set, seed=2, threads=1) for _ in range(2))
    second.load(mirrored(first.snapshot()))
    rng, ended = np.random.default_rng(8), 0
    for _ in range(120):
        actions = torch.tensor(rng.uniform([-1, 0, -1], 1, (64, 2, 3)), dtype=torch.float32)
        first.step(actions)
        second.step(actions.flip(1) * torch.tensor([-1.0, 1.0, 1.0]))
        for name in ("terminated", "truncated", "length"):
            assert torch.equal(getattr(first, name), getattr(second, name))
        torch.testing.assert_close(first.reward, second.reward.flip(1), rtol=0, atol=2e-6)
        assert torch.equal(first.final_hp, second.final_hp.flip(1))
        done = (first.terminated | first.truncated).numpy()
        ended += done.sum()
        if done.any():  # Successors are drawn alike in both batches: make them mirror images again.
            twin = mirrored(first.snapshot())
            state = second.snapshot()
            for name in state:
                state[name][done] = twin[name][done]
            second.load(state)
        ours, theirs = mirrored(first.snapshot())["fighters"], second.snapshot()["fighters"]
        for name in ("x", "y", "cos_yaw", "sin_yaw", "speed"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-4)
        for name in ("hp", "cooldown", "stall"):
            np.testing.assert_array_equal(ours[name], theirs[name])
    assert rule_set == "classic" or ended > 0


def test_rule_sets_agree_away_from_borders():
    """Both use one simulator: in mid-air and without guns only the borders differ."""
    fighters = {"x": -50, "y": 300, "yaw": 0.4, "speed": 120}, {"x": 50, "y": 320, "yaw": 2.0, "speed": 90}
    courses = []
    for rule_set in rules.RULES:
        batch = scene(*fighters, rule_set=rule_set, physics={"gravity": 60.0}, action_repeat=100)
        batch.step(torch.tensor([[[0.5, 0.8, -1.0], [-0.3, 0.6, -1.0]]]))
        courses.append(batch.snapshot()["fighters"])
    np.testing.assert_array_equal(courses[0], courses[1])
