"""Opponents in Diplomacy: `act(view) -> orders` in the PettingZoo environment and in evaluation."""

import json
import re

import numpy as np
import pytest

import sparring
from sparring.agents.opponents.diplomacy import order_player
from sparring.configs import opponents as registry
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
from sparring.eval.run import main
from tests.agents.opponents import powers

OTHERS = [power for power in POWERS if power != "FRANCE"]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    powers.views.clear()


def defaults(env):
    return {agent: np.zeros(17, np.int64) for agent in env.agents}


def test_an_opponent_sees_its_power_and_its_orders_are_carried_out():
    """Germany's opening by text: the same board as when an agent gives these orders."""
    alone = parallel_env(opponents={"GERMANY": powers.opening})
    assert "GERMANY" not in alone.possible_agents
    both = parallel_env()
    alone.reset(seed=1)
    both.reset(seed=1)
    actions = defaults(both)
    actions["GERMANY"], _ = both.submit("GERMANY", ["A BER - KIE", "A MUN - RUH", "F KIE - DEN"])
    both.step(actions)
    alone.step(defaults(alone))
    assert all(np.array_equal(alone.row()[name], value) for name, value in both.row().items())
    (view,) = powers.views
    assert (view.power, view.phase) == ("GERMANY", "S1901M")
    assert set(view.legal) == {"BER", "KIE", "MUN"}
    assert "A BER - KIE" in view.legal["BER"]
    assert "You are GERMANY." in view.text


def test_an_agent_plays_a_whole_game_against_a_bot_and_python_objects():
    """All six others hold or follow a bot; the bot's draws follow the seed."""
    rest = dict.fromkeys(OTHERS[:3], "dumbbot") | dict.fromkeys(OTHERS[3:], powers.Holder)
    boards = []
    for seed in (3, 3, 4):
        env = parallel_env(opponents=rest, last_year=1903)
        env.reset(seed=seed)
        while env.agents:
            assert env.agents == ["FRANCE"]
            env.step(defaults(env))
        boards.append(env.row()["units"].tolist())
    assert boards[0] == boards[1] != boards[2]


@pytest.mark.parametrize(
    ("opponents", "message"),
    [
        ({"GERMANI": "dumbbot"}, "unknown power 'GERMANI'.*did you mean 'GERMANY'"),
        ({"GERMANY": "dumbot"}, "unknown opponent 'dumbot'.*did you mean 'dumbbot'"),
        ({"GERMANY": 7}, r"a int cannot act"),
        (dict.fromkeys(POWERS, "dumbbot"), "every power has one; leave at least one to an agent"),
    ],
)
def test_wrong_opponents_are_one_line(opponents, message):
    with pytest.raises(InputError, match=message):
        parallel_env(opponents=opponents)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (powers.impossible, r"opponent impossible, as GERMANY in S1901M: 'A BER - PAR' cannot be carried out: .*legal"),
        (powers.one_text, r"opponent one_text: act returned no list of orders for GERMANY"),
    ],
)
def test_an_order_that_is_not_legal_names_opponent_power_and_phase(act, message):
    env = parallel_env(opponents={"GERMANY": act})
    env.reset()
    with pytest.raises(InputError, match=message):
        env.step(defaults(env))


def test_evaluation_takes_a_reference(tmp_path, capsys):
    """Planted: a power that only holds never wins alone and never has more than its three or four centres."""
    options = ["--games", "7", "--last-year", "1902", "--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    reference = "tests.agents.opponents.powers:Holder"
    assert main(["--env", "diplomacy", "--ckpt", reference, "--opponents", "defensive", *options]) == 0
    (found,) = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert found["alone"]["solos"]["value"] == 0.0
    assert found["alone"]["centres"]["value"] <= 4.0
    assert {view.power for view in powers.views} == set(POWERS)
    assert re.search("Holder", (tmp_path / "diplomacy.md").read_text())
    sparring.register_opponent("still")(powers.Holder)
    assert order_player("still").name == order_player(powers.Holder).name == "still"
