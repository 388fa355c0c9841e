"""The PettingZoo interface, flight files, and the interfaces used by trainers."""

import re

import numpy as np
import pytest

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.parallel_env import parallel_env
from sparring.envs.imported.pettingzoo import make

NOTHING = np.array([0.0, 0.0, 0.5, -1.0], dtype=np.float32)


def test_match_against_pilot_ends_with_result():
    env = parallel_env(opponent="straight", max_ticks=8)
    obs, _ = env.reset(seed=3)
    assert list(obs) == ["player_0"]
    env.step({"player_0": NOTHING})
    obs, rewards, terminated, truncated, infos = env.step({"player_0": NOTHING})
    assert truncated == {"player_0": True}
    assert terminated == {"player_0": False}
    assert infos == {"player_0": {"outcome": 0, "ticks": 8, "hp": 1.0}}
    assert obs["player_0"][rules.OBSERVATION.index("time_left")] == 0.0
    assert rewards["player_0"] == pytest.approx(-1.5, abs=0.3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missile": 2}, r"unknown option 'missile': .*did you mean 'missiles'\?"),
        ({"num_envs": 2}, "unknown option 'num_envs'"),
        ({"missiles": 2.5}, r"missiles=2.5: must be a whole number in \[0, 8\]"),
        ({"missiles": "2"}, r"missiles='2': must be a whole number in \[0, 8\]"),
        ({"flares": 121}, r"flares=121: must be in \[0, 120\]"),
        ({"radar": 1}, "radar=1: must be True or False"),
        ({"observe_physics": "no"}, "observe_physics='no': must be True or False"),
        ({"action_form": None}, "action_form=None: choose from continuous, discrete, manoeuvres"),
        ({"reward": {"win": 1.0}}, "reward={'win': 1.0}: must be a CombatReward"),
        ({"chase": "x"}, r"chase=x: must be a number in \[0, 1\]"),
    ],
)
def test_bad_options_give_one_line_error(options, message):
    with pytest.raises(InputError, match=message):
        parallel_env(**options)


def test_bad_input_is_rejected():
    with pytest.raises(UnknownNameError, match="dogfigter"):
        parallel_env(opponent="dogfigter")
    with pytest.raises(InputError, match="render_mode=human: must be None or acmi"):
        parallel_env(render_mode="human")
    env = parallel_env(opponent="ace")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"player_0 is .*: must be 4 finite numbers in \[-1, 1\]"):
        env.step({"player_0": np.full(4, np.nan)})
    with pytest.raises(ValueError, match=r"actions for \[\]: give one for each of player_0"):
        env.step({})


def test_imported_game_trainers_accept_env():
    match = make("sparring.envs.air_combat.parallel_env", {"model": "point_mass"})
    assert match.seats == ("player_0", "player_1")
    assert match.action_spaces[0].shape == (4,)


def test_flight_file_round_trips():
    """Header, frames and angles follow the format, read by an independent reader."""
    env = parallel_env(opponent="turning", render_mode="acmi")
    env.reset(seed=5)
    for _ in range(30):
        env.step({"player_0": NOTHING})
    lines = env.render().splitlines()
    assert lines[:2] == ["FileType=text/acmi/tacview", "FileVersion=2.2"]
    times = [float(line[1:]) for line in lines if line.startswith("#")]
    assert np.diff(times) == pytest.approx([4 / 60] * 30, abs=2e-3)
    rows = [re.fullmatch(r"2,T=([-\d.|]+)(,.*)?", line) for line in lines]
    track = np.array([[float(part) for part in row[1].split("|")] for row in rows if row])
    assert track.shape == (31, 6)
    flown = np.linalg.norm(np.diff(track[:, :2] * 111_319.49, axis=0), axis=1).sum() / 2.0
    assert 170 < flown < 280
    assert track[-1, 3] > 20.0  # banked to the right
    assert sum("Name=F-16C" in line for line in lines) == 2
