"""The scripted pilots behave as described in `rules.BOTS` and form a ladder."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch


def flown(first, second, *, matches=16, seconds=120, model="point_mass", seed=4):
    """Return results [matches] of the first pilot, +1 for a win, and the planes after each second."""
    game = AirCombatBatch(matches, model=model, threads=1, seed=seed)
    game.assign(torch.tensor([[rules.bot_id(first), rules.bot_id(second)]]))
    results, planes = np.full(matches, -1), []
    for step in range(seconds * 15):
        if step % 15 == 0:
            planes.append(game.snapshot()["planes"])
        game.step(game.actions)
        fresh = (results < 0) & (game.outcome.numpy() >= 0)
        results[fresh] = game.outcome.numpy()[fresh]
    return np.where(results == 1, 1, np.where(results == 2, -1, 0)), planes


@pytest.mark.parametrize("model", rules.MODELS)
def test_straight_keeps_height_and_heading(model):
    _, planes = flown("straight", "straight", seconds=20, model=model)
    first, last = planes[0][:, 0], planes[-1][:, 0]
    assert np.abs(first["pos"][:, 2] - last["pos"][:, 2]).max() < 150.0
    headings = [np.arctan2(one["vel"][:, 1], one["vel"][:, 0]) for one in (first, last)]
    assert np.abs(np.angle(np.exp(1j * (headings[1] - headings[0])))).max() < 0.03


@pytest.mark.parametrize("model", rules.MODELS)
def test_turning_is_level_right_turn(model):
    _, planes = flown("turning", "straight", seconds=12, model=model)
    headings = np.unwrap([np.arctan2(one[:, 0]["vel"][:, 1], one[:, 0]["vel"][:, 0]) for one in planes], axis=0)
    assert (np.diff(headings[3:], axis=0) > 0.03).all()
    assert np.abs(planes[-1][:, 0]["pos"][:, 2] - planes[0][:, 0]["pos"][:, 2]).max() < 150.0


def test_evader_never_fires():
    _, planes = flown("evader", "evader", seconds=30, model="f16")
    assert (planes[-1]["rounds"] == rules.MAGAZINE).all()


LADDER = [
    ("chaser", "do_nothing", "point_mass"), ("dogfighter", "chaser", "point_mass"), ("ace", "chaser", "point_mass"),
    ("brawler", "chaser", "point_mass"), ("dogfighter", "turning", "point_mass"), ("ace", "do_nothing", "f16"),
    ("chaser", "straight", "f16"),
]  # fmt: skip


@pytest.mark.parametrize(("better", "worse", "model"), LADDER)
def test_ladder_has_expected_order(better, worse, model):
    """Clear differences in the payoff table: half of the matches won, few lost."""
    results, _ = flown(better, worse, model=model)
    assert (results > 0).mean() >= 0.5
    assert (results < 0).mean() <= 0.2


BANDS = {
    "deck": (60, 150), "extender": (200, 320), "weaver": (150, 300), "spiral": (130, 170), "dragger": (45, 100),
    "runner": (60, 120), "scissors": (60, 150), "climber": (50, 14_000),
}  # fmt: skip
"""Heights in m where a low pilot is for nine tenths of the last half minute; the climber anywhere."""
UNARMED = ("weaver", "spiral", "runner")


def test_every_low_pilot_has_altitude_band():
    assert tuple(BANDS) == tuple(rules.BOTS)[8:]


@pytest.mark.parametrize("model", rules.MODELS)
def test_low_pilots_stay_in_bands_above_ground(model):
    """200 starts, 25 each, beside a weaver that does not fight; finished matches are skipped."""
    names, starts = tuple(BANDS), 25
    game = AirCombatBatch(starts * len(names), model=model, action_repeat=6, threads=1, seed=9)
    game.assign(torch.tensor([[rules.bot_id(name), rules.bot_id("weaver")] for name in names] * starts))
    running, last, lost = np.ones(game.num_envs, dtype=bool), [], np.zeros(game.num_envs, dtype=bool)
    lowest = np.full(game.num_envs, np.inf)
    for step in range(1200):
        game.step(game.actions)
        ended = running & (game.outcome.numpy() >= 0)
        lost |= ended & (game.final_hp.numpy()[:, 0] <= 0.0)
        running &= ~ended
        height = -game.snapshot()["planes"]["pos"][:, 0, 2]
        lowest = np.where(running, np.minimum(lowest, height), lowest)
        if 900 <= step < 1199 and step % 10 == 0:
            last.append(np.where(running, height, np.nan))
    assert not lost.any()
    assert lowest.min() > 35.0
    for index, (name, (low, high)) in enumerate(BANDS.items()):
        heights = np.stack(last)[:, index :: len(names)]
        heights = heights[np.isfinite(heights)]
        assert ((heights > low) & (heights < high)).mean() >= 0.9, name


@pytest.mark.parametrize("model", rules.MODELS)
def test_unarmed_low_pilots_never_fire(model):
    """Against one that sits behind them, and one that crosses close in front."""
    for name in UNARMED:
        for opponent in ("chaser", "deck"):
            _, planes = flown(name, opponent, matches=4, seconds=30, model=model)
            assert all((one["rounds"][:, 0] == rules.MAGAZINE).all() for one in planes)
            shots = AirCombatBatch(4, model=model, gun="cone", threads=1, seed=4)
            shots.assign(torch.tensor([[rules.bot_id(name), rules.bot_id(opponent)]]))
            hp = []
            for _ in range(450):
                shots.step(shots.actions)
                hp.append(shots.snapshot()["planes"]["hp"][:, 1].min())
            assert min(hp) == 1.0


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize("pilot", rules.BOTS)
def test_no_pilot_flies_into_ground(pilot, model):
    """Against a straight-flying target; all states stay finite."""
    _, planes = flown(pilot, "straight", matches=8, seconds=60, model=model)
    heights = -np.stack([one[:, 0]["pos"][:, 2] for one in planes])
    assert np.isfinite(heights).all()
    if pilot != "do_nothing":
        assert heights.min() > (40.0 if pilot in BANDS else 100.0)
