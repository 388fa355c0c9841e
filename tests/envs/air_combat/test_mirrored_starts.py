"""Both seats of a start have equal chances: matches mirror exactly."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

HALF_TURN = np.array([-1.0, -1.0, 1.0])
"""North, east and down after half a circle about the middle."""


def swapped(model, pilots, steps, *, starts=12, options=rules.PLAIN):
    """Return planes [2, starts, 2] of `starts` matches, and of the same matches with swapped pilots."""
    game = AirCombatBatch(2 * starts, model=model, gun="cone", threads=1, seed=3, options=options)
    game.match_id.copy_(torch.arange(2 * starts, dtype=torch.int32) % starts)
    game.reset(3)
    first, second = map(rules.bot_id, pilots)
    rows = [[first, second]] * starts + [[second, first]] * starts
    game.assign(torch.tensor(rows), torch.ones(2 * starts, dtype=torch.bool))
    for _ in range(steps):
        game.step(game.actions)
    return game.snapshot()["planes"].reshape(2, starts, 2), game.outcome


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize("options", [rules.PLAIN, rules.CombatOptions(flares=1)], ids=["plain", "battle"])
def test_starts_are_rotated_by_half_circle_bit_for_bit(model, options):
    planes, _ = swapped(model, ("straight", "straight"), 0, options=options)
    for name in ("vel", "nose", "up"):
        assert np.array_equal(planes[name][0, :, 1], planes[name][0, :, 0] * HALF_TURN)


@pytest.mark.parametrize("model", rules.MODELS)
def test_matches_mirror_bit_for_bit(model):
    """Twenty seconds only: a last-bit difference at the start grows to kilometres within a minute."""
    planes, _ = swapped(model, ("ace", "dogfighter"), 300)
    for name in ("pos", "vel", "nose"):
        assert np.array_equal(planes[name][1, :, ::-1], planes[name][0] * HALF_TURN)
    assert np.array_equal(planes["hp"][1, :, ::-1], planes["hp"][0])
