"""Cloning in OpenSpiel text games: demonstrated players, and a run that saves its model."""

from collections import Counter

import pytest

pytest.importorskip("pyspiel")
pytest.importorskip("transformers")

from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.envs.openspiel_text.evaluation.models import open_player
from sparring.envs.openspiel_text.task import demonstrations
from tests.envs.openspiel_text.test_task import RUN

CLONE = ("+run=openspiel_text_clone", *RUN[1:])


def shown(*options, games=400, seed=1):
    return demonstrations(load([*CLONE, *options]), games=games, seed=seed)


def bets(steps):
    """Return the share of bets at the first decision, by card."""
    first = [game[0] for step in steps for game in step]
    cards = Counter(one.text.partition("Your card: ")[2].split()[0] for one in first)
    made = Counter(one.text.partition("Your card: ")[2].split()[0] for one in first if one.chosen[0].text == "Bet")
    return {card: made[card] / cards[card] for card in cards}


def test_random_play_bets_half_of_time():
    games = shown()
    step = games.next(twice=True)
    assert games.source == "random in 400 games of kuhn_poker"
    assert bets([step]) == pytest.approx(dict.fromkeys(("Jack", "Queen", "King"), 0.5), abs=0.12)
    decisions = [one for game in step for one in game]
    assert {one.answer for one in decisions} == {"Pass\n</move>", "Bet\n</move>"}
    same = sum(one.chosen == one.again for one in decisions) / len(decisions)
    assert same == pytest.approx(0.5, abs=0.08)


def test_teacher_plays_its_own_policy():
    found = bets([shown("clone.teacher=openspiel:cfr:1000").next()])  # in an equilibrium the Queen never bets first
    assert found["Queen"] < 0.05
    assert found["King"] == pytest.approx(3 * found["Jack"], abs=0.15)


def test_equal_seeds_repeat_games_and_state_resumes():
    first, second = shown(games=5), shown(games=5)
    steps = [[[(one.text, one.answer) for one in game] for game in first.next()] for _ in range(3)]
    assert steps[0] != steps[1]
    second.load_state_dict({"steps": 2})
    assert [[(one.text, one.answer) for one in game] for game in second.next()] == steps[2]
    assert second.state_dict() == {"steps": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["clone.bot=dumbbot"], "clone.bot=dumbbot: choose from random"),
        (["clone.teacher=json:tool"], "clone.teacher=json:tool: is code"),
        (["clone.teacher=nobody"], "nobody: expected openspiel:uniform"),
        (["env.answer.form=reasoning"], "env.answer"),
    ],
)
def test_other_teachers_are_rejected_in_one_line(options, message):
    with pytest.raises((ConfigError, InputError)) as refused:
        shown(*options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_clone_of_random_play_plays_nearly_at_random(tmp_path):
    sizes = ("clone.hidden=16", "clone.layers=1", "clone.heads=2", "clone.updates=60", "clone.games_per_update=32")
    places = (f"checkpoint_dir={tmp_path}", "name=clone", "evaluation.games=8", "evaluation.every=60")
    final = train(load([*CLONE, *sizes, *places, "clone.init_std=0.02", "clone.learning_rate=1e-2"]))
    policy = open_player(str(final))
    import pyspiel

    state = pyspiel.load_game("kuhn_poker").new_initial_state().child(1).child(2)
    assert policy([state])[0] == pytest.approx({0: 0.5, 1: 0.5}, abs=0.15)
