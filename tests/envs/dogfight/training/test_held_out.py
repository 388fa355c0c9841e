"""Held-out opponents: actions by hand in every layout and seat, and no run names them."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
import yaml

from sparring.agents.opponents.players import display_name, find_player
from sparring.agents.opponents.training import find_opponents
from sparring.configs.core.errors import ConfigError, UnknownNameError
from sparring.configs.load import load
from sparring.configs.opponents import named_opponents
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.rules import HELD_OUT, HELD_OUT_SCRIPTS
from sparring.envs.dogfight.training.matches import play
from sparring.envs.dogfight.training.opponents.held_out import HELD_OUT_SOURCES, SampledActions
from sparring.envs.dogfight.training.opponents.load import open_player
from tests.configs.run_configs import PPO, run_config

ROOT = Path(__file__).resolve().parents[4]


def observed(nose, relative, *, speed=0.4, heading=(1.0, 0.0), left=1.0, size=59, bullets=400.0):
    """Return a row: own heading, opponent's position in m, speed in shares of 250 m/s, and heading."""
    row, at = torch.zeros(1, size), 8 if size == 224 else 6
    row[0, 1], row[0, 2] = nose
    row[0, at], row[0, at + 1], row[0, at + 2] = relative[0] / 1000, relative[1] / 1000, speed
    row[0, at + 3], row[0, at + 4] = heading
    row[0, 55 if size == 224 else 45] = left
    if size == 59:
        row[0, 49], row[0, 52] = 250 / 500, bullets / 800
    return row


def answer(name, obs):
    policy = open_player(f"held_out:{name}").contestant
    policy.check({"continuous": 2, "binary": 1})  # of matches
    return policy.act(obs)[0].tolist()


EAST, NORTH = (1.0, 0.0), (0.0, 1.0)


@pytest.mark.parametrize("size", [46, 59, 224])
@pytest.mark.parametrize(
    ("name", "nose", "relative", "more", "expected"),
    [
        ("left", EAST, (0, 100), {}, (0.5, 0.5, 1)),
        ("right", EAST, (0, 100), {}, (-0.5, 0.5, 1)),
        ("tight", EAST, (0, 100), {}, (1, 1, 0)),
        ("wide", EAST, (0, 100), {}, (-0.3, 1, 0)),
        ("straight", EAST, (0, 100), {}, (0, 1, 0)),
        ("straight_fire", EAST, (0, 100), {}, (0, 1, 1)),
        ("pursuit", EAST, (0, 100), {}, (1, 1, 1)),
        ("pursuit", NORTH, (100, 0), {}, (-1, 1, 1)),
        ("runner", EAST, (0, 100), {}, (-1, 1, 0)),
        ("runner", EAST, (-100, 0), {}, (0, 1, 0)),  # already flying away
        ("runner", EAST, (-100, -10), {}, (0.29900596, 1, 0)),  # atan(0.1) = 0.09966865 to the left, times 3
        ("lead", EAST, (200, 0), {"speed": 0.0}, (0, 1, 1)),  # straight ahead and at rest
        # 100 m/s across: t = 200 / sqrt(400^2 - 100^2) = 0.5164 s, 51.64 m to the left: atan(0.2582) = 0.25268.
        ("lead", EAST, (200, 0), {"heading": NORTH}, (0.758041, 1, 0)),
        ("lead", EAST, (0, -200), {"heading": NORTH}, (-1, 1, 0)),
    ],
)
def test_action_matches_hand_calculation(name, nose, relative, more, expected, size):
    assert answer(name, observed(nose, relative, size=size, **more)) == pytest.approx(expected, abs=1e-5)


def test_lead_pursuit_uses_each_match_bullet_speed():
    """At 300 m/s: t = 200 / sqrt(300^2 - 100^2) = 0.7071 s, 70.71 m: atan(0.35355) = 0.339837, times 3."""
    row = observed(EAST, (200, 0), heading=NORTH, bullets=300.0)
    assert answer("lead", row) == pytest.approx((1.0, 1, 0), abs=1e-5)  # at most the full turn
    slow = observed(EAST, (200, 0), heading=NORTH, speed=0.2, bullets=300.0)  # atan(50 / sqrt(87500)) = 0.167448
    assert answer("lead", slow)[0] == pytest.approx(0.502345, abs=1e-5)


def flown(opponent, steps):
    """Return the random opponent's actions in the first row of 64, over a match."""
    return np.array(
        [opponent.act(observed(EAST, (0, 100), left=1 - 10 * k / 10_800).repeat(64, 1)).tolist() for k in range(steps)]
    )


def test_random_actions_are_held_and_repeat_by_seed_and_match():
    opponent = SampledActions()
    opponent.reseed(3)
    first, second = flown(opponent, 960), flown(opponent, 96)
    opponent.reseed(3)
    assert np.array_equal(flown(opponent, 96), first[:96])
    opponent.reseed(4)
    assert not np.array_equal(flown(opponent, 96), first[:96])
    assert not np.array_equal(first[:96], second)  # another match
    assert not np.array_equal(first[:, 0], first[:, 1])  # and another row
    assert np.abs(first[..., 0]).max() <= 1.0
    assert 0.0 <= first[..., 1].min() <= first[..., 1].max() <= 1.0
    # Uniform draws: means of 0, 1/2 and 1/2. One draw in 24 decisions, on average, held for up to 48.
    assert first.mean(axis=(0, 1)) == pytest.approx((0.0, 0.5, 0.5), abs=0.05)
    changes = (first[1:] != first[:-1]).any(axis=2)
    assert changes.mean() == pytest.approx(1 / 24, rel=0.05)
    gaps = np.diff(np.flatnonzero(changes[:, 0]))
    assert 1 <= gaps.min() < 12
    assert 36 < gaps.max() <= 48


@pytest.mark.parametrize("name", ["lead", "random"])
def test_games_repeat_and_are_played_from_both_seats(name):
    """A chaser beats an idler from either seat, and the same call gives the same games."""
    opponent = open_player(f"held_out:{name}").contestant
    first, again = (play(opponent, "do_nothing", games=20, seed=5) for _ in range(2))
    assert np.array_equal(first.outcome, again.outcome)
    assert np.array_equal(first.length, again.length)
    if name == "lead":
        assert all((first.outcome[first.left_seat == seat] > 0).sum() >= 8 for seat in (0, 1))


def test_names_are_known_everywhere_except_in_training():
    assert tuple(HELD_OUT_SOURCES) == HELD_OUT_SCRIPTS
    assert [display_name(find_player(name, GAME)) for name in HELD_OUT] == list(HELD_OUT)
    with pytest.raises(UnknownNameError, match="did you mean 'held_out:straight'"):
        find_player("held_out:strait", GAME)
    env = gymnasium.make("sparring/Dogfight-v1", opponent="held_out:straight")
    env.reset(seed=1)
    env.step(np.zeros(3, np.float32))
    env.close()
    with pytest.raises(ConfigError, match="opponent held_out:lead: is held out for evaluation"):
        find_opponents(load(["+run=quickstart", "opponents=['held_out:lead']"]))


def texts(content, key=""):
    """Yield every string in nested lists and mappings, except initial weights."""
    if isinstance(content, str) and key != "init_from":
        yield content
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from texts(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from texts(value, key)


def named(found):
    """Return texts that name the held-out set, by any path, with or without suffix."""
    stems = [Path(name).name for name in HELD_OUT]
    return [
        text for text in found if Path(text.removesuffix(".pt")).name in [*stems, "held_out"] or "held_out:" in text
    ]


def test_no_run_or_sweep_file_names_held_out_opponent():
    files = [path for kind in ("run", "sweep") for path in (ROOT / "configs" / kind).glob("*.yaml")]
    assert len(files) > 50
    assert {file.stem for file in files if named(texts(yaml.safe_load(file.read_text(encoding="utf-8"))))} == set()


def test_no_composed_run_names_held_out_opponent():
    assert len(PPO) > 5
    for run in PPO:
        found = named_opponents(run_config(run))
        assert named([text for names in found.values() for text in names]) == [], run


@pytest.mark.parametrize(
    "text", ["held_out", "held_out:left", "released/dogfight_unified_dr.pt", "x/dogfight_strong_dr"]
)
def test_file_naming_held_out_opponent_is_detected(text):
    planted = {"phases": [{"stages": [{"at": 0, "bots": ["ace", text]}]}], "init_from": "released/dogfight_unified_dr"}
    assert named(texts(planted)) == [text]
    assert named(texts({"runs": {"A": {"changes": {"against": text}}}})) == [text]
