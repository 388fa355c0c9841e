"""Practice opponents: actions by hand, and runs may name them, unlike held-out ones."""

import math

import pytest
import torch

from sparring.agents.opponents.training import find_opponents
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.load import load
from sparring.envs.dogfight.rules import PRACTICE
from sparring.envs.dogfight.training.matches import play
from sparring.envs.dogfight.training.opponents.load import open_player
from sparring.envs.dogfight.training.opponents.practice import PRACTICE_SOURCES

FLAT, STEEP, ZOOM = PRACTICE


def observed(nose, relative=(200.0, 0.0), *, speed=0.4, altitude=300.0):
    """Return a row: own nose in degrees, a resting opponent's place in m, own speed in shares of 250 m/s."""
    row, (x, y) = torch.zeros(1, 59), relative
    row[0, 0], row[0, 5] = speed, altitude / 600
    row[0, 1], row[0, 2] = math.cos(math.radians(nose)), math.sin(math.radians(nose))
    row[0, 6], row[0, 7], row[0, 12] = x / 1000, y / 1000, math.hypot(x, y) / 1000
    return row


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        (FLAT, observed(20), (0, 1, 0)),  # holds what it has
        (FLAT, observed(40), (-3 * math.radians(5), 1, 0)),  # down to 35 degrees
        (FLAT, observed(-30), (3 * math.radians(10), 1, 0)),  # up to 20 below the horizon
        (FLAT, observed(140), (3 * math.radians(5), 1, 0)),  # the mirror image of 40
        (STEEP, observed(60), (0, 1, 1)),
        (STEEP, observed(47), (3 * math.radians(5), 1, 1)),
        (STEEP, observed(88), (-3 * math.radians(3), 1, 1)),
        (ZOOM, observed(0), (1, 1, 1)),  # climbs at atan(0.9) = 42 degrees; the opponent is 200 m ahead
        (ZOOM, observed(0, speed=0.2), (3 * math.atan(0.3), 1, 1)),  # and at 17 when slow
        (ZOOM, observed(0, altitude=590.0), (0, 1, 1)),  # level at the ceiling
        # 250 m above: -68.2 degrees off the nose, a full turn down; with the nose on it, straight on.
        (ZOOM, observed(0, (100.0, -250.0)), (-1, 1, 0)),
        (ZOOM, observed(-68.1985905, (100.0, -250.0)), (0, 1, 1)),
        (ZOOM, observed(-68.1985905, (40.0, -100.0)), (0, 1, 1)),  # goes on with a dive below 200 m
        (ZOOM, observed(-10, (40.0, -20.0)), (3 * math.radians(10) + 3 * math.atan(0.9), 1, 0)),  # and climbs at 20 m
    ],
)
def test_action_matches_hand_calculation(name, row, expected):
    policy = open_player(name).contestant
    policy.check({"continuous": 2, "binary": 1})  # of matches
    wanted = [max(-1.0, min(1.0, expected[0])), *expected[1:]]
    assert policy.act(row)[0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_runs_and_matches_accept_only_their_names():
    assert tuple(PRACTICE_SOURCES) == PRACTICE
    find_opponents(load(["+run=quickstart", f"opponents=['{FLAT}','{ZOOM}']"]))
    with pytest.raises(UnknownNameError, match=r"unknown practice opponent 'perch:nose=flit': .* did you mean 'perch"):
        open_player("perch:nose=flit")
    assert play(open_player(STEEP).contestant, "do_nothing", games=2, seed=1).games == 2
