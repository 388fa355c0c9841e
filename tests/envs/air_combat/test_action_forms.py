"""Continuous, discrete and manoeuvre actions, each with a bot that wins from observations alone."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.parallel_env import parallel_env
from tests.envs.air_combat import flights

COLUMN = {name: index for index, name in enumerate(rules.OBSERVATION)}
CHOICES = tuple(rules.MANOEUVRES)


def batch(form, n=1, **further):
    return AirCombatBatch(n, threads=1, seed=4, options=rules.CombatOptions(action_form=form, **further))


def pilot(obs):
    """Return commands [N, 4] of a bot: roll lift toward the opponent, pull by the angle, fire in the cone."""
    x, y, z = (obs[:, COLUMN[f"aim_{axis}"]] for axis in "xyz")
    up = obs[:, COLUMN["roof_elevation"]].clamp(-1, 1)
    right = -obs[:, COLUMN["wing_elevation"]]
    angle = torch.arccos(x.clamp(-1, 1))
    side = torch.stack([y, -z], dim=1)
    side = side / side.norm(dim=1, keepdim=True).clamp(min=1e-3)
    pull = side * (2.0 * angle * obs[:, COLUMN["speed"]] * 30.0).clamp(max=8.0)[:, None]
    pull = pull + torch.stack([right * -1.0, up], dim=1)
    roll = torch.arctan2(pull[:, 0], pull[:, 1])
    load = pull.norm(dim=1) * roll.cos().clamp(min=0.0)
    low = obs[:, COLUMN["height"]] < 0.12
    load = torch.where(low, up.clamp(min=0.0) * 6.0, load)
    roll = torch.where(low, torch.arctan2(-right, up), roll)
    stick = ((load - 1.0) / 8.0).clamp(-0.25, 1.0)
    fire = (x > rules.CONE_COS).float()
    return torch.stack([stick, (roll * 4.0 / rules.ROLL_MOST).clamp(-1, 1), torch.ones_like(x), 2 * fire - 1], dim=1)


def nearest_levels(commands):
    """Return the bot's commands as a discrete action [N, 4]."""
    columns = []
    for values, levels in zip(commands.T, rules.DISCRETE, strict=True):
        wanted = (values > 0).float() if len(levels) == 2 else values
        columns.append((wanted[:, None] - torch.tensor(levels)).abs().argmin(dim=1))
    return torch.stack(columns, dim=1).float()


def tactician(obs):
    """Return a manoeuvre [N, 2] by geometry: break when threatened, yo-yos by closure, lead pursuit to shoot."""
    off_nose, off_tail = obs[:, COLUMN["cos_off_nose"]], obs[:, COLUMN["cos_off_tail"]]
    near, closure = obs[:, COLUMN["range_far"]] < 0.2, obs[:, COLUMN["closure"]] * 300.0
    choice = torch.full((len(obs),), CHOICES.index("pure_pursuit"))
    choice[near] = CHOICES.index("lead_pursuit")
    choice[near & (closure > 60.0) & (off_nose < 0.85) & (off_tail > 0.0)] = CHOICES.index("high_yo_yo")
    choice[near & (off_nose < -0.5)] = CHOICES.index("break_turn")
    choice[~near & (off_tail > 0.3) & (closure < -20.0)] = CHOICES.index("low_yo_yo")
    return torch.stack([choice, torch.ones_like(choice)], dim=1).float()


@pytest.mark.parametrize(
    ("form", "bot"),
    [("continuous", pilot), ("discrete", lambda obs: nearest_levels(pilot(obs))), ("manoeuvres", tactician)],
)
def test_bot_wins_with_each_action_form(form, bot):
    """Against a straight-flying target from even starts, without hitting the ground."""
    game = batch(form, 16)
    game.assign(torch.tensor([[rules.ACTIONS, rules.bot_id("straight")]]))
    results = torch.full((16,), -1)
    for _ in range(75 * 15):
        game.actions[:, 0] = bot(game.obs[:, 0])
        game.step(game.actions)
        fresh = (results < 0) & (game.outcome >= 0)
        results[fresh] = game.outcome[fresh].long()
        if (results >= 0).all():
            break
    assert (results == 1).sum() >= 12
    assert (results == 2).sum() == 0
    assert not game.invalid_actions.any()


def flown(name, place, *, heading=0.0, steps=30, height=5000.0):
    """Return planes [2] and the first observation after steps of a manoeuvre of seat 0, which flew north."""
    game = batch("manoeuvres")
    planes = flights.level(2, speed=220.0, height=height, heading=np.radians([0.0, heading]))
    planes["pos"][1] += place
    game.load({"planes": planes.reshape(1, 2)})
    game.assign(torch.tensor([[rules.ACTIONS, rules.bot_id("straight")]]))
    game.actions[0, 0] = torch.tensor([CHOICES.index(name), 0.0])
    for _ in range(steps):
        game.step(game.actions)
    return game.snapshot()["planes"][0], dict(zip(rules.OBSERVATION, game.obs[0, 0].tolist(), strict=True))


def directions(planes):
    return planes["vel"] / np.linalg.norm(planes["vel"], axis=-1, keepdims=True)


def test_level_climb_and_dive_keep_heading():
    for name, tangent in (("level", 0.0), ("climb", 0.6), ("dive", -0.5)):
        planes, _ = flown(name, (3000.0, 0.0, 0.0), steps=60)
        north, east, down = directions(planes)[0]
        assert -down / north == pytest.approx(tangent, abs=0.08)
        assert abs(east) < 0.03


@pytest.mark.parametrize(
    ("name", "lift"), [("pure_pursuit", 0.0), ("sustained_turn", 0.0), ("high_yo_yo", 0.5), ("low_yo_yo", -0.25)]
)
def test_pursuits_point_at_opponent_and_yo_yos_out_of_plane(name, lift):
    """After a 60-degree right turn: azimuth at the opponent, elevation above or below it."""
    planes, _ = flown(name, (2000.0, 3500.0, 0.0), heading=60.0, steps=110)
    gap = planes["pos"][1] - planes["pos"][0]
    direction = directions(planes)[0]
    azimuths = [np.arctan2(vector[1], vector[0]) for vector in (gap, direction)]
    assert azimuths[1] == pytest.approx(azimuths[0], abs=0.12)
    elevation = -direction[2] + gap[2] / np.linalg.norm(gap)
    assert elevation == pytest.approx(0.0, abs=0.06) if lift == 0.0 else np.sign(elevation) == np.sign(lift)


def test_lead_and_lag_point_ahead_of_and_behind_opponent():
    """The opponent crosses to the right."""
    asides = {}
    for name in ("lead_pursuit", "pure_pursuit", "lag_pursuit"):
        planes, _ = flown(name, (900.0, -100.0, 0.0), heading=90.0, steps=20)
        gap = planes["pos"][1] - planes["pos"][0]
        bearing = gap / np.linalg.norm(gap)
        nose = planes["nose"][0]
        asides[name] = float(bearing[0] * nose[1] - bearing[1] * nose[0])
    assert asides["lead_pursuit"] > asides["pure_pursuit"] + 0.02 > asides["lag_pursuit"] + 0.04


def test_break_beam_and_extend_turn_across_and_away():
    planes, _ = flown("break_turn", (-700.0, 500.0, 0.0), heading=0.0, steps=40)
    assert planes["load"][0] > 5.0
    assert directions(planes)[0][1] > 0.5  # to the right, where the opponent is
    planes, obs = flown("beam", (4000.0, 1500.0, 0.0), heading=180.0, steps=90)
    gap = planes["pos"][1] - planes["pos"][0]
    assert abs(directions(planes)[0] @ gap / np.linalg.norm(gap)) < 0.15
    assert abs(obs["climb"]) < 0.1
    planes, obs = flown("extend", (1000.0, 0.0, 0.0), heading=0.0, steps=240)
    assert obs["cos_off_nose"] < -0.95
    assert obs["climb"] < 0.0


@pytest.mark.parametrize("name", rules.MANOEUVRES)
def test_no_manoeuvre_hits_ground(name):
    planes, _ = flown(name, (1500.0, 400.0, 300.0), steps=600, height=1200.0)
    assert -planes["pos"][0, 2] > 100.0


@pytest.mark.parametrize(
    ("form", "action"),
    [("manoeuvres", (12, 0)), ("manoeuvres", (-1, 0)), ("manoeuvres", (0, 2)), ("discrete", (5, 0, 0, 0))],
)
def test_invalid_choices_are_counted(form, action):
    game = batch(form)
    game.actions[0, 0] = torch.tensor(action, dtype=torch.float32)
    game.step(game.actions)
    assert game.invalid_actions.tolist() == [1]


def test_weapons_are_fired_with_choices():
    game = batch("manoeuvres", missiles=1, flares=5)
    planes = flights.level(2, speed=220.0)
    planes["pos"][1, 0] = 2000.0
    game.load({"planes": planes.reshape(1, 2)})
    game.actions[0] = torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    game.step(game.actions)
    stores = game.snapshot()["stores"][0]
    assert (stores["missiles"].tolist(), stores["flares"].tolist()) == ([0, 1], [5, 4])
    assert not game.invalid_actions.any()


def test_pettingzoo_spaces_match_choices():
    env = parallel_env(action_form="manoeuvres", missiles=2, flares=2, opponent="straight")
    assert env.action_space("player_0").nvec.tolist() == [12, 2, 2, 2]
    env.reset(seed=1)
    env.step({"player_0": np.array([1, 1, 0, 0])})
    with pytest.raises(ValueError, match=r"player_0 is .*: must be 4 choices of \[12, 2, 2, 2\]"):
        env.step({"player_0": np.array([12, 1, 0, 0])})
    assert parallel_env(action_form="discrete").action_space("player_0").nvec.tolist() == [5, 5, 3, 2]
