"""Observations of a player: hand-made scenes for the layout, and all values against the NumPy implementation."""

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


def test_classic_layout():
    batch = scene(ME, FOE, tick=2700)
    mine, theirs = batch.obs[0].numpy()
    distance = math.hypot(300.0, 360.0) / 1000.0
    own = [0.4, 0.0, 1.0, 0.8, 0.5, 0.4, 0.3, 0.36, 0.2, -1.0, 0.0, 0.4, distance]
    np.testing.assert_allclose(mine[:13], own, atol=1e-6)
    np.testing.assert_allclose(
        theirs[:13], [0.2, -1.0, 0.0, 0.4, 0.0, 1.0, -0.3, -0.36, 0.4, 0, 1, 0.8, distance], atol=1e-6
    )
    assert (mine[13:45] == 0).all()
    assert mine[45] == pytest.approx(0.75)
    normalized = [80 / 200, 0.45, 0.25, 0.5, 0.2, 0.45, 0.5, 90 / 240, 60 / 180, 0.5, 0.5, 0.2, 0.785 / math.pi]
    np.testing.assert_allclose(mine[46:], normalized, atol=1e-6)


def test_bullets_come_nearest_first_with_their_owner():
    def bullet(owner, dx, dy):
        return {"owner": owner, "x": ME["x"] + dx, "y": ME["y"] + dy, "yaw": 0.0, "life": 5}

    shots = [bullet(0, 0.0, 90.0), bullet(0, -30.0, 0.0), bullet(1, 60.0, 0.0), bullet(1, 0.0, -120.0)]
    mine, theirs = scene(ME, FOE, bullets=shots).obs[0].numpy()
    seen = mine[13:45].reshape(8, 4)
    expected = [[-0.03, 0, 1, 1], [0.06, 0, 0, 0], [0, 0.09, 1, 0.5], [0, -0.12, 0, -0.5]]
    np.testing.assert_allclose(seen[:4], expected, atol=1e-6)
    assert (seen[4:] == 0).all()
    # From (200, 600): the bullet 90 m above me is nearest, and the flags are the other way round.
    assert theirs[13:45].reshape(8, 4)[:4, 2].tolist() == [0, 1, 0, 1]
    assert theirs[13:15] == pytest.approx([-0.3, -0.27])


def test_dropping_the_physics_drops_the_last_13():
    full, short = scene(ME, FOE), scene(ME, FOE, observe_physics=False)
    assert short.obs.shape == (1, 2, 46)
    assert torch.equal(full.obs[:, :, :46], short.obs)


def test_challenge_frame_layout():
    batch = scene(
        {**ME, "x": -450.0}, {**FOE, "x": 450.0, "y": 240.0}, rule_set="challenge", physics={"gravity": 130.0}
    )
    frame = batch.obs[0, 0].numpy()[:56].copy()
    scale = 250.0**2 + 2 * 130.0 * 600.0
    own = [0.4, 0.0, 1.0, 0.8, 0.5, 0.4, -0.9, (100.0**2 + 2 * 130 * 240) / scale]
    np.testing.assert_allclose(frame[:8], own, atol=1e-6)
    # The short way to it is 100 m to the left, across the joint. Nothing has moved yet, so no distance has changed.
    energy = (50.0**2 + 2 * 130 * 240) / scale
    opponent = [-0.1, 0.0, 0.2, -1.0, 0.0, 0.4, 0.1, 0.0, 0.0, energy]
    np.testing.assert_allclose(frame[8:18], opponent, atol=1e-6)
    # It is on my left (+90 degrees); I am right behind it, which is said twice.
    assert frame[51] == pytest.approx(0.5)
    assert abs(frame[52]) == pytest.approx(1.0)
    assert frame[18] == frame[52]
    # My velocity (0, 100) minus its (-50, 0).
    np.testing.assert_allclose(frame[53:], [0.2, 0.4, 1.0], atol=1e-6)
    batch.step(torch.zeros(1, 2, 3))
    closed = 1000.0 * (frame[14] - batch.obs[0, 0, 14].item())
    assert batch.obs[0, 0, 15].item() == pytest.approx(closed * 120.0 / 250.0, abs=1e-3)
    assert batch.obs[0, 0, 15] < -0.1


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


def test_a_new_match_shows_nothing_of_the_last_one():
    """Frames older than the first are zeros again; in the ended match they were not."""
    batch = scene(ME, FOE, rule_set="challenge", tick=10_796)
    for _ in range(4):
        batch.step(torch.zeros(1, 2, 3))
    assert bool(batch.truncated)
    final, first = batch.final_obs.reshape(2, 4, 56), batch.obs.reshape(2, 4, 56)
    assert final.any(dim=2).all()
    assert (first[:, 1:] == 0).all()
    assert first[:, 0].any(dim=1).all()


@pytest.mark.parametrize(("rule_set", "observe_physics"), [("classic", True), ("classic", False), ("challenge", True)])
def test_every_float_equals_the_numpy_implementation(rule_set, observe_physics):
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
def test_the_final_observation_is_of_the_finished_match(rule_set):
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
