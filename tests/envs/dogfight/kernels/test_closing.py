"""The closing arena: lost hp against hand calculation, and where the option is rejected.

With `closing=45` the circle has its full radius, sqrt(500^2 + 300^2) = 583.0952 m, at tick 5,400 and none at 10,800. At
tick 8,040, the 22nd second after, 1 - 2,640 / 5,400 = 0.511111 of it are left: 298.0264 m.
"""

import math

import numpy as np
import pytest

from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.envs.dogfight.batch import DogfightBatch, MatchSettings
from sparring.envs.dogfight.config import RewardConfig
from sparring.envs.dogfight.training.matches import play
from sparring.envs.dogfight.training.opponents.load import open_player
from tests.envs.dogfight.worlds import IDLE, scene
from tests.envs.dogfight.worlds import play as fly

UP = math.pi / 2
CHECKED = 8_040
HP = RewardConfig(damage_dealt=3.0, damage_taken=1.0, win=0, lose=0, approach=0, proximity=0, facing=0)


def after(first, second, *, tick=CHECKED, closing=45.0, hp=(5, 5), ticks=1):
    """Return the batch at the end of `tick`, with fighters at these places, nose up at 50 m/s."""
    places = zip((first, second), hp, strict=True)
    fighters = [{"x": x, "y": y, "yaw": UP, "speed": 50.0, "hp": left} for (x, y), left in places]
    batch = scene(*fighters, tick=tick - ticks, closing=closing, reward=HP)
    return batch, fly(batch, IDLE, IDLE, ticks=ticks)["hp"].tolist()


@pytest.mark.parametrize(
    ("tick", "first", "second", "expected"),
    [
        (CHECKED, (297.0, 300.0), (-299.0, 300.0), [5, 4]),  # 50 / 120 = 0.42 m up in the tick: 297.0003, 299.0003 m
        (CHECKED, (210.0, 510.0), (-211.0, 511.0), [5, 4]),  # 210 and 210.42 m: 297.28; 211 and 211.42 m: 298.70
        (CHECKED, (299.0, 300.0), (-299.0, 300.0), [4, 4]),
        # 1 - 3,840 / 5,400 = 0.288889 of the radius, 168.4497 m: 167.92 m above the centre, 169.08 m below it.
        (9_240, (0.0, 467.5), (0.0, 130.5), [5, 4]),
    ],
)
def test_fighter_outside_circle_loses_hp(tick, first, second, expected):
    assert after(first, second, tick=tick)[1] == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"tick": CHECKED - 1}, [5, 5]),
        ({"tick": CHECKED + 1}, [5, 5]),
        ({"tick": CHECKED + 119, "ticks": 119}, [5, 5]),  # between two seconds
        ({"closing": 0.0}, [5, 5]),
        ({"tick": 5_400}, [5, 5]),  # the circle begins to close
        ({"tick": 5_520}, [5, 5]),  # 1 - 120 / 5,400 of it are left: 570.1 m
    ],
)
def test_no_hp_is_lost_between_seconds_or_before_closing(how, expected):
    assert after((299.0, 300.0), (-299.0, 300.0), **how)[1] == expected


def test_closing_loss_is_damage_taken_but_not_dealt():
    batch, _ = after((0.0, 300.0), (-299.0, 300.0))
    assert batch.reward[0].tolist() == [0.0, -1.0]


@pytest.mark.parametrize(("hp", "outcome"), [((5, 1), 1), ((1, 5), -1), ((1, 1), 1)])
def test_losing_last_hp_outside_ends_match(hp, outcome):
    batch, _ = after((0.0, 300.0), (-299.0, 300.0), hp=hp)
    assert batch.outcome.tolist() == [outcome]
    assert batch.terminated.tolist() == [outcome == 1]


def test_losing_last_hp_simultaneously_is_draw():
    batch, _ = after((299.0, 300.0), (-299.0, 300.0), hp=(1, 1))
    assert (batch.outcome.tolist(), batch.final_hp.tolist()) == ([0], [[0, 0]])


def test_closing_decides_evaluation_matches():
    """Neither shoots: the straight flyer stays at a wall, the turning one stays inside and wins."""
    straight, tight = (open_player(f"held_out:{name}").contestant for name in ("straight", "tight"))
    results = play(tight, straight, games=4, seed=3, setting=MatchSettings(closing=5.0, threads=1))
    assert (results.wins, results.draws) == (4, 0)
    assert np.all(results.length > 5 * 120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"closing": -1}, r"closing=-1: must be in \[0, 90\)"),
        ({"closing": 90}, r"closing=90: must be in \[0, 90\)"),
        ({"closing": "late"}, r"closing=late: must be a number in \[0, 90\)"),
        ({"closing": 0.001}, r"closing=0\.001: must be 0 for never, or at least a tick and before the time"),
        ({"closing": 10, "max_ticks": 1200}, r"closing=10: must be .* before the time limit of 10 s"),
        ({"closing": 30, "rules": "challenge"}, r"closing=30: the challenge has an arena of its own; give rules="),
    ],
)
def test_invalid_closing_is_rejected_in_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        DogfightBatch(1, **arguments)


def test_challenge_runs_reject_closing():
    with pytest.raises(InputError, match=r"env\.closing=30\.0: has no effect without env\.rules=classic"):
        load(["+run=quickstart", "env.rules=challenge", "env.closing=30"])
