"""The scripted pilots do what their lines in `rules.BOTS` say, and form a ladder."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch


def flown(first, second, *, matches=16, seconds=120, model="point_mass", seed=4):
    """Results [matches] of the first pilot, +1 won, and the planes after each second."""
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
def test_turning_is_a_level_turn_to_the_right(model):
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
def test_ladder(better, worse, model):
    """Clear differences of the payoff table: half of the matches won, few lost."""
    results, _ = flown(better, worse, model=model)
    assert (results > 0).mean() >= 0.5
    assert (results < 0).mean() <= 0.2


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize("pilot", rules.BOTS)
def test_no_pilot_flies_into_the_ground(pilot, model):
    """Against a target that only flies straight; all states stay finite."""
    _, planes = flown(pilot, "straight", matches=8, seconds=60, model=model)
    heights = -np.stack([one[:, 0]["pos"][:, 2] for one in planes])
    assert np.isfinite(heights).all()
    if pilot != "do_nothing":
        assert heights.min() > 100.0
