"""A mirrored match is a legal match with the turn reversed."""

import gc
import weakref

import numpy as np
import pytest
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch, Mirror
from sparring.envs.dogfight.rules import OPPONENT_X
from tests.envs.dogfight.kernels.test_physics import mirrored

MODES = [("classic", True), ("classic", False), ("challenge", True)]


def twins(rule_set, observe_physics, matches=64, steps=40):
    """Return a batch in flight, its mirror image, and which matches [N] have not restarted."""
    make = lambda: DogfightBatch(matches, rules=rule_set, observe_physics=observe_physics, seed=3, threads=1)  # noqa: E731
    first, second = make(), make()
    second.load(mirrored(first.snapshot()))
    same = torch.ones(matches, dtype=torch.bool)
    rng, back = np.random.default_rng(1), torch.tensor([-1.0, 1.0, 1.0])
    for _ in range(steps):
        actions = torch.tensor(rng.uniform([-1, 0, -1], 1, (matches, 2, 3)), dtype=torch.float32)
        actions[:32, :, 2] = 1.0
        first.step(actions)
        second.step(actions.flip(1) * back)
        same &= ~(first.terminated | second.terminated)
    return first, second, same


@pytest.mark.parametrize(("rule_set", "observe_physics"), MODES)
def test_mirrored_opponent_is_on_right_and_images_match(rule_set, observe_physics):
    first, second, same = twins(rule_set, observe_physics)
    mirror = Mirror(rule_set, first.obs_dim)
    seen, side = mirror.show(first.obs)
    again, other_side = mirror.show(second.obs.flip(1))  # the image has its seats swapped
    assert same.sum() > 20
    assert torch.equal(side[same], -other_side[same])
    torch.testing.assert_close(seen[same], again[same], rtol=0, atol=3e-4)
    assert (seen[..., OPPONENT_X[rule_set]] >= 0).all()
    assert set(side.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(seen[side > 0], first.obs[side > 0])
    bullets = {"classic": 13, "challenge": 19}[rule_set]
    assert (first.obs[..., bullets] != 0).float().mean() > 0.3


def test_only_turn_is_reversed():
    actions = torch.tensor([[0.5, 0.2, 1.0], [0.5, 0.2, 1.0]])
    expected = torch.tensor([[-0.5, 0.2, 1.0], [0.5, 0.2, 1.0]])
    assert torch.equal(Mirror.back(actions, torch.tensor([-1.0, 1.0])), expected)


def test_bullet_ahead_mirrors_behind_and_no_bullet_stays_none():
    obs = torch.zeros(1, 59)
    obs[0, 6] = -0.1
    obs[0, 13:17] = torch.tensor([0.1, 0.0, 1.0, 0.0])
    obs[0, 17:21] = torch.tensor([-0.1, 0.1, 0.0, 0.75])
    obs[0, 21:25] = torch.tensor([-0.1, -0.1, 0.0, -0.75])
    seen = Mirror("classic", 59).show(obs)[0][0]
    torch.testing.assert_close(seen[13:17], torch.tensor([-0.1, 0.0, 1.0, 1.0]))
    torch.testing.assert_close(seen[17:21], torch.tensor([0.1, 0.1, 0.0, 0.25]))
    torch.testing.assert_close(seen[21:25], torch.tensor([0.1, -0.1, 0.0, -0.25]))
    assert (seen[25:45] == 0).all()


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_many_rows_at_once(rule_set):
    batch = DogfightBatch(6, rules=rule_set, seed=1, threads=1)
    mirror, flat = Mirror(rule_set, batch.obs_dim), batch.obs.flatten(0, 1)
    seen, side = mirror.show(flat.view(3, 4, -1))
    one_by_one = [mirror.show(row) for row in flat]
    assert torch.equal(seen.flatten(0, 1), torch.stack([row for row, _ in one_by_one]))
    assert torch.equal(side.flatten(), torch.stack([side for _, side in one_by_one]))


@pytest.mark.parametrize("rule_set", rules.RULES)
def test_reader_writes_current_values_of_its_rows(rule_set):
    batch = DogfightBatch(6, rules=rule_set, seed=1, threads=1)
    mirror, flat = Mirror(rule_set, batch.obs_dim), batch.obs.flatten(0, 1)
    rows = torch.tensor([11, 0, 5, 5])
    shown, side = torch.zeros(4, batch.obs_dim), torch.zeros(4)
    read = mirror.reader(flat, rows, shown, side)
    for _ in range(3):
        batch.step(torch.ones(6, 2, 3))
        read()
        expected, sides = mirror.show(flat[rows])
        assert torch.equal(shown, expected)
        assert torch.equal(side, sides)
    assert {float(value) for value in mirror.show(flat)[1]} == {-1.0, 1.0}


def test_reader_keeps_its_tensors_alive():
    """The kernel receives raw addresses: freed memory would be read without an error."""
    rows = torch.tensor([1, 0])
    held = weakref.ref(rows)
    read = Mirror("classic", 59).reader(torch.zeros(2, 59), rows, torch.zeros(2, 59), torch.zeros(2))
    del rows
    gc.collect()
    assert held() is not None
    del read
    gc.collect()
    assert held() is None


def test_zero_rows_are_accepted():
    seen, side = Mirror("classic", 59).show(torch.zeros(2, 0, 59))
    assert (seen.shape, side.shape) == ((2, 0, 59), (2, 0))
