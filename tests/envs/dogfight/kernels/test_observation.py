"""Player observations: all values against the NumPy implementation, stacked frames, and ended matches."""

import math

import numpy as np
import pytest
import torch

from benchmarks.numpy_dogfight.observation import observe
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.worlds import scene, to_numpy

ME = {"x": -100.0, "y": 240.0, "yaw": math.pi / 2, "speed": 100.0, "hp": 4, "cooldown": 45}
FOE = {"x": 200.0, "y": 600.0, "yaw": math.pi, "speed": 50.0, "hp": 2}
CHALLENGE_ANGLES = [18, 51, 52, *range(22, 51, 4)]
"""Columns of a challenge frame that hold an angle / pi, where -1 and 1 are the same direction."""


def compare(real, expected, angle_columns):
    difference = np.abs(real - expected)
    for column in angle_columns:
        difference[..., column] = np.minimum(difference[..., column], np.abs(2.0 - difference[..., column]))
    worst = np.unravel_index(difference.argmax(), difference.shape)
    assert difference.max() <= 1e-5, worst


def test_challenge_frames_are_stacked_newest_first():
    batch = DogfightBatch(3, rules="challenge", seed=1, threads=1)
    frames = batch.obs.reshape(3, 2, 4, 56)
    assert (frames[:, :, 1:] == 0).all()
    history = [frames[:, :, 0].clone(), *[torch.zeros(3, 2, 56)] * 3]
    for _ in range(5):
        batch.step(torch.zeros(3, 2, 3))
        frames = batch.obs.reshape(3, 2, 4, 56)
        history = [frames[:, :, 0].clone(), *history[:3]]
        assert torch.equal(frames, torch.stack(history, dim=2))


def test_new_match_shows_no_old_frames():
    """Frames before the first are zeros again, unlike at the end of the previous match."""
    batch = scene(ME, FOE, rule_set="challenge", tick=10_796)
    for _ in range(4):
        batch.step(torch.zeros(1, 2, 3))
    assert bool(batch.truncated)
    final, first = batch.final_obs.reshape(2, 4, 56), batch.obs.reshape(2, 4, 56)
    assert final.any(dim=2).all()
    assert (first[:, 1:] == 0).all()
    assert first[:, 0].any(dim=1).all()


@pytest.mark.parametrize(("rule_set", "observe_physics"), [("classic", True), ("classic", False), ("challenge", True)])
def test_every_float_matches_numpy_implementation(rule_set, observe_physics):
    matches, challenge = 100, rule_set == "challenge"
    batch = DogfightBatch(matches, rules=rule_set, observe_physics=observe_physics, seed=6, threads=1)
    index = np.arange(matches)
    batch.assign(np.stack([index % 5, index // 5 % 5], axis=1))
    batch.set_ranges(rules.ranges("full"))
    batch.reset()
    bullets = 0
    for step in range(150):
        batch.step(torch.zeros(matches, 2, 3))
        if step % 3 == 0:
            state = to_numpy(batch)
            expected = observe(state, challenge=challenge, observe_physics=observe_physics)
            angles = CHALLENGE_ANGLES if challenge else range(16, 45, 4)
            compare(batch.obs.numpy()[:, :, : expected.shape[2]], expected, angles)
            bullets += (state.bullet_life > 0).sum()
    assert bullets > 500


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_final_observation_is_of_finished_match(rule_set):
    fighters = (
        {"x": -200.0, "y": 300.0, "yaw": 0.0, "speed": 100.0},
        {"x": 200.0, "y": 300.0, "yaw": 3.0, "speed": 60.0},
    )
    # Five ticks, so that under challenge rules four different frames have been seen.
    batch, longer = (
        scene(*fighters, tick=10_795, rule_set=rule_set, max_ticks=most, bots=(rules.bot_id("ace"), rules.ACTIONS))
        for most in (10_800, 20_000)
    )
    for _ in range(5):
        assert not batch.truncated.any()
        batch.step(torch.ones(1, 2, 3))
        longer.step(torch.ones(1, 2, 3))
    clock = [55 + 56 * frame for frame in range(4)] if rule_set == "challenge" else [45]
    seen, unfinished = batch.final_obs.clone(), longer.obs.clone()
    assert (seen[:, :, clock[0]] == 0).all()
    seen[:, :, clock] = unfinished[:, :, clock] = 0.0
    assert torch.equal(seen, unfinished)
    # `obs` already shows the successor: full clock, fixed spawn.
    assert (batch.obs[:, :, clock[0]] == 1).all()
    assert batch.obs[0, 0, 8 if rule_set == "challenge" else 6] == pytest.approx(0.4)
    batch.step(torch.ones(1, 2, 3))
    assert not batch.final_obs.any()
