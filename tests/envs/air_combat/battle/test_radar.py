"""Radar: detection, the notch, track memory, sharing within a side, and unknown values."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from tests.envs.air_combat import flights

RADAR = rules.CombatOptions(radar=True)
COLUMN = {name: index for index, name in enumerate(RADAR.observation)}
OPPONENTS = slice(rules.OBSERVATION.index("bearing_x"), len(rules.OBSERVATION))


def pair(place, *, heading=0.0, at=(0.0, 0.0, -5000.0)):
    """Return planes [1, 2]: seat 0 flies north at 5 km, seat 1 has a heading (degrees) and relative position."""
    planes = flights.level(2, speed=200.0, height=5000.0, heading=np.radians([0.0, heading]))
    planes["pos"][0], planes["pos"][1] = at, np.add(at, place)
    return planes.reshape(1, 2)


def scene(planes, options=RADAR, **further):
    game = AirCombatBatch(1, threads=1, options=options, **further)
    game.load({"planes": planes})
    return game


@pytest.mark.parametrize(
    ("place", "heading", "found"),
    [
        ((8000.0, 0.0, 0.0), 180.0, True),
        ((4000.0, 6800.0, 0.0), 180.0, True),  # 59.5 degrees off the nose
        ((4000.0, 7100.0, 0.0), 180.0, False),  # 60.6 degrees
        ((-8000.0, 0.0, 0.0), 0.0, False),
        ((-1400.0, 0.0, 0.0), 0.0, True),  # by eye
        ((-1600.0, 0.0, 0.0), 0.0, False),
        ((8000.0, 0.0, 1000.0), 90.0, False),  # the notch: below and flying across
        ((8000.0, 0.0, 1000.0), 80.0, True),  # 34 m/s away
        ((8000.0, 0.0, -1000.0), 90.0, True),  # above
        ((41_000.0, 0.0, 0.0), 180.0, False),
    ],
)
def test_radar_detection_depends_on_geometry(place, heading, found):
    game = scene(pair(place, heading=heading))
    full = scene(pair(place, heading=heading), rules.PLAIN)
    assert game.obs[0, 0, COLUMN["tracked"]] == float(found)
    assert torch.equal(game.obs[0, 0, : OPPONENTS.start], full.obs[0, 0, : OPPONENTS.start])
    if found:
        assert torch.equal(game.obs[0, 0, : len(rules.OBSERVATION)], full.obs[0, 0])
    else:
        assert not game.obs[0, 0, OPPONENTS].any()
        assert game.obs[0, 0, COLUMN["track_age"]] == 1.0


def test_track_is_remembered_for_ten_seconds():
    """Seat 1 flies east, is detected, and leaves seat 0's view: its track continues east."""
    game = scene(pair((4000.0, 6000.0, 0.0), heading=90.0))
    bots = torch.tensor([[rules.bot_id("straight"), rules.bot_id("straight")]])
    game.assign(bots)
    ages, bearings = [], []
    for _ in range(230):
        game.step(game.actions)
        ages.append(float(game.obs[0, 0, COLUMN["track_age"]]))
        bearings.append(float(game.obs[0, 0, COLUMN["bearing_y"]]))
    lost = next(index for index, age in enumerate(ages) if age > 0.0)
    assert ages[lost - 1] == 0.0
    assert ages[lost : lost + 150] == pytest.approx(np.arange(1, 151) / 150.0, abs=1e-4)
    assert bearings[lost + 149] > 0.85
    assert bearings[lost + 150] == 0.0
    assert ages[lost + 150] == 1.0


def test_remembered_track_moves_with_last_velocity():
    game = scene(pair((4000.0, 6850.0, 0.0), heading=0.0))
    assert game.obs[0, 0, COLUMN["tracked"]] == 1.0
    planes = game.snapshot()["planes"]
    turned = planes.copy()
    turned["nose"][0, 0], turned["vel"][0, 0] = (0.0, -1.0, 0.0), (0.0, -200.0, 0.0)
    state = game.snapshot()["tracks"][0, 1]
    game.actions[:] = torch.tensor([0.0, -1.0, 0.0, -1.0])
    game._set("planes", turned)
    for _ in range(15):
        game.step(game.actions)
    track = game.snapshot()["tracks"][0, 1]
    assert track["age"] == 60
    assert track["plane"]["pos"] == pytest.approx(state["plane"]["pos"] + (200.0, 0.0, 0.0), abs=1.0)


def test_side_shares_its_tracks():
    options = rules.CombatOptions(radar=True, team_size=2)
    names = options.observation
    game = AirCombatBatch(1, threads=1, options=options)
    planes = game.snapshot()["planes"]
    for seat, (north, heading) in enumerate(((0.0, np.pi), (1000.0, 0.0), (9000.0, np.pi), (30_000.0, 0.0))):
        planes[0, seat] = flights.level(1, speed=200.0, height=5000.0, heading=heading)[0]
        planes["pos"][0, seat, 0] = north
    game.load({"planes": planes})
    assert game.obs[0, :, names.index("tracked")].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert game.obs[0, 0, names.index("bearing_x")] == -1.0  # its mate sees what is behind it
    assert game.obs[0, 0, names.index("mate_1_flies")] == 1.0
    planes["nose"][0, 1], planes["vel"][0, 1] = (-1.0, 0.0, 0.0), (-200.0, 0.0, 0.0)
    game.load({"planes": planes})
    assert game.obs[0, :2, names.index("tracked")].tolist() == [0.0, 0.0]
    assert game.obs[0, 0, names.index("foe_1_flies")] == 0.0
    assert game.obs[0, 0, names.index("mate_1_flies")] == 1.0


def test_state_with_all_options_resumes_bit_for_bit():
    options = rules.CombatOptions(missiles=2, flares=20, team_size=2, radar=True, randomization="full")
    first, second = (AirCombatBatch(4, threads=1, options=options, seed=seed) for seed in (1, 2))
    for game in (first, second):
        game.assign(torch.full((4, 4), rules.bot_id("ace")))
        for _ in range(60):
            game.step(game.actions)
    second.load_state_dict(first.state_dict())
    for game in (first, second):
        for _ in range(30):
            game.step(game.actions)
    assert torch.equal(first.obs, second.obs)
    assert first.obs.isfinite().all()
    assert first.obs.shape[-1] == len(options.observation)
    assert rules.CombatOptions.of_contract(first.contract) == options
