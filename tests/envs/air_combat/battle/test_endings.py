"""Optional endings: collisions, overload and a hard deck, on both sides of each bound."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import ConfigError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from tests.envs.air_combat import flights

HANDS_OFF = (0.0, 0.0, 0.54, -1.0)


def battle(planes, action=HANDS_OFF, *, steps=1, model="point_mass", **options):
    """Play planes [S] with one action; return the batch after `steps` or at the match's end."""
    game = AirCombatBatch(1, model=model, gun="cone", threads=1, options=rules.CombatOptions(**options))
    game.load({"planes": planes.reshape(1, -1)})
    for _ in range(steps):
        game.step(torch.tensor(action).expand(1, game.seats, 4))
        if game.outcome[0] >= 0:
            break
    return game


def head_on(aside):
    """Return two aircraft 20 m apart, closing at 400 m/s, that pass at `aside` metres within a step."""
    planes = flights.level(2, speed=200.0, heading=np.array([0.0, np.pi]))
    planes["pos"][1] += (20.0, aside, 0.0)
    return planes


@pytest.mark.parametrize(("distance", "aside", "lost"), [(10.0, 9.0, 1), (10.0, 11.0, 0), (0.0, 0.5, 0), (1.0, 0.5, 1)])
def test_aircraft_within_distance_collide(distance, aside, lost):
    """They move 6.7 m per tick and are closest between ticks: both are lost, and nobody wins."""
    game = battle(head_on(aside), collisions=distance, hard_deck=1.0)
    assert int(game.terminated[0]) == lost
    assert int(game.outcome[0]) == (0 if lost else -1)
    if lost:
        assert game.final_hp[0].tolist() == [0.0, 0.0]


def test_collision_with_wingman_removes_both_only():
    planes = flights.level(4, speed=200.0)
    planes["pos"][:, 1] = (0.0, 6.0, 3000.0, 4000.0)
    game = battle(planes, collisions=8.0, team_size=2)
    assert game.terminated[0]
    assert game.final_hp[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert int(game.outcome[0]) == 0b1100


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize(
    ("limit", "pull", "lost"),
    [(6.0, 1.0, True), (12.0, 1.0, False), (0.0, 1.0, False), (2.0, -1.0, True), (4.0, -1.0, False)],
)
def test_load_beyond_limit_breaks_aircraft(model, limit, pull, lost):
    """The stick asks for 9 g, or -3 g."""
    planes = flights.level(2, speed=260.0, height=3000.0)
    planes["attitude"][:] = (0.0, 0.0, 0.0, 1.0)
    planes["pos"][1] += (0.0, 5000.0, 0.0)
    game = AirCombatBatch(
        1, model=model, gun="cone", threads=1, options=rules.CombatOptions(load_limit=limit, hard_deck=1.0)
    )
    game.load({"planes": planes.reshape(1, 2)})
    for _ in range(45):
        game.step(torch.tensor([[(pull, 0.0, 1.0, -1.0), HANDS_OFF]]))
        if game.outcome[0] >= 0:
            break
    assert bool(game.terminated[0]) is lost
    assert int(game.outcome[0]) == (2 if lost else -1)


@pytest.mark.parametrize(("deck", "height", "lost"), [(500.0, 499.0, True), (500.0, 501.0, False)])
def test_hard_deck_ends_flight(deck, height, lost):
    planes = flights.level(2, speed=200.0, height=np.array([height, 900.0]))
    game = battle(planes, hard_deck=deck)
    assert bool(game.terminated[0]) is lost
    assert int(game.outcome[0]) == (2 if lost else -1)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("collisions", -1.0, r"\[0, 100\]"),
        ("collisions", float("nan"), r"\[0, 100\]"),
        ("collisions", True, r"\[0, 100\]"),
        ("load_limit", "9", r"\[0, 20\]"),
        ("hard_deck", 3001.0, r"\[0, 3000\]"),
    ],
)
def test_out_of_range_values_are_rejected(name, value, allowed):
    with pytest.raises(ConfigError, match=f"{name}=.*{allowed}"):
        rules.CombatOptions(**{name: value})


def test_endings_are_in_contract_only_when_enabled():
    assert rules.CombatOptions(collisions=8.0).contract == {"collisions": 8.0}
    assert rules.CombatOptions.of_contract({"hard_deck": 300.0}) == rules.CombatOptions(hard_deck=300.0)
    assert rules.PLAIN.contract == {}
