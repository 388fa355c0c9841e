"""Opponents with `act(view) -> orders` in the PettingZoo environment, evaluation and training."""

import json
import re

import numpy as np
import pytest

import sparring
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.trainers import train
from sparring.configs import opponents as registry
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.browser.static_page import stored_student
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
from sparring.envs.diplomacy.movement_batch import MovementBatch, movement_contract
from sparring.envs.diplomacy.training.opponents import load_observing_policy, open_player
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.eval.run import main
from tests.agents.opponents import powers
from tests.agents.ppo.small_run import untimed

OTHERS = [power for power in POWERS if power != "FRANCE"]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    powers.views.clear()


def defaults(env):
    return {agent: np.zeros(17, np.int64) for agent in env.agents}


def test_opponent_sees_its_power_and_its_orders_are_played():
    """Germany's opening as text gives the same board as an agent's orders."""
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


def test_agent_plays_whole_game_against_bot_and_objects():
    """The six others hold or are a bot, whose draws follow the seed."""
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
def test_wrong_opponents_give_one_line_error(opponents, message):
    with pytest.raises(InputError, match=message):
        parallel_env(opponents=opponents)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (powers.impossible, r"opponent impossible, as GERMANY in S1901M: 'A BER - PAR' cannot be carried out: .*legal"),
        (powers.one_text, r"opponent one_text: act did not return a list of orders for GERMANY"),
    ],
)
def test_illegal_order_names_opponent_power_and_phase(act, message):
    env = parallel_env(opponents={"GERMANY": act})
    env.reset()
    with pytest.raises(InputError, match=message):
        env.step(defaults(env))


def test_evaluation_accepts_reference(tmp_path, capsys):
    """A holding power never wins alone, and never exceeds its three or four centres."""
    options = ["--games", "7", "--last-year", "1902", "--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    reference = "tests.agents.opponents.powers:Holder"
    assert main(["--env", "diplomacy", "--ckpt", reference, "--opponents", "defensive", *options]) == 0
    (found,) = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert found["alone"]["solos"]["value"] == 0.0
    assert found["alone"]["centres"]["value"] <= 4.0
    assert {view.power for view in powers.views} == set(POWERS)
    assert re.search("Holder", (tmp_path / "diplomacy.md").read_text())
    assert main(["--env", "diplomacy", "--ckpt", "bot:dumbbot", "--opponents", f"{reference},random", *options]) == 0
    found, other = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert (found["one"], found["six"], other["six"]) == ("dumbbot", reference, "random")
    assert found["alone"]["centres"]["value"] > 5.0 > 4.0 >= found["together"]["centres"]["value"]
    sparring.register_opponent("still")(powers.Holder)
    assert open_player("still").name == open_player(powers.Holder).name == "still"


# ---- training

REFERENCE = "tests.agents.opponents.powers:Holder"


def test_opponent_orders_all_its_powers_in_learner_games():
    """After one step in which all other powers hold, the board equals the rules applied to the learner's orders."""
    batch = DiplomacyBatch(7, last_year=1902, threads=1)
    games = MovementBatch(batch, seed=0, writers=[open_player(powers.Holder)])
    env = LearnerEnv(games, bots=(*codes.BOTS, "Holder"), seed=0)
    env.assign(np.full(7, len(codes.BOTS)))
    opening = batch.units.clone()
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1), seed=1)
    env.step(network.act(env.obs, deterministic=False)[0])
    owner = codes.power_of(opening[0].numpy())
    for game, now in enumerate(batch.units):
        theirs = (owner != game) & (opening[0].numpy() > 0)
        assert (now[theirs] == opening[game][theirs]).all()  # six powers stand where they stood
    assert (batch.units != opening).any()  # and the learner's units have moved
    assert {(view.power, view.phase[0]) for view in powers.views} >= {(power, "S") for power in POWERS}
    assert sum(view.phase[0] == "S" for view in powers.views) == 6 * 7
    batch.close()


def run_options(tmp_path, *more):
    small = ("+run=diplomacy_ppo", "env.num_envs=14", "env.last_year=1901", "ppo.rollout_steps=2", "network.hidden=8")
    small += ("ppo.minibatch_size=28", "network.blocks=1", "device=cpu", "threads=1", "logger.progress=false")
    return load([*small, "evaluation.every=1", "evaluation.games=7", f"checkpoint_dir={tmp_path}", *more])


def rows_of_run(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "event" not in row]


def test_training_against_object_and_policy_resumes_bit_for_bit(tmp_path):
    first = train(run_options(tmp_path, "name=first", "max_updates=1", "evaluation.every=0"))
    mixed = f"phases.0.stages.0.bots=[random,'{REFERENCE}','{first}']"
    train(run_options(tmp_path, "name=whole", "max_updates=2", mixed, "env.num_envs=21", "evaluation.every=2"))
    train(run_options(tmp_path, "name=cut", "max_updates=1", mixed, "env.num_envs=21", "evaluation.every=2"))
    with pytest.raises(ConfigError, match=rf"^resume=cut: its opponent {REFERENCE} runs the code of the module"):
        load(["resume=cut", f"checkpoint_dir={tmp_path}", "max_updates=2"])
    train(load(["resume=cut", f"checkpoint_dir={tmp_path}", "max_updates=2", mixed]))
    found = sparring.evaluate(first, opponents=powers.Holder, games=7, last_year=1901, threads=1).data
    assert (found["records"][0]["six"], found["records"][0]["games"]) == ("Holder", 7)
    whole, cut = rows_of_run(tmp_path / "whole"), rows_of_run(tmp_path / "cut")
    assert untimed(cut) == untimed(whole)
    names = ("random", "Holder", "first")
    assert {f"eval/{name}/centres" for name in names} <= whole[1].keys()
    assert {f"rollout/{name}/win_rate" for name in names} <= whole[0].keys()
    assert all(0.0 < row["time/opponent_share"] < 1.0 for row in whole)
    assert not [key for key in rows_of_run(tmp_path / "first")[0] if "opponent_share" in key]


def test_wrong_run_opponents_give_one_line_error(tmp_path):
    with pytest.raises(ConfigError, match=r"against=dumbot: choose from .*did you mean 'dumbbot'"):
        run_options(tmp_path, "against=dumbot")
    with pytest.raises(InputError, match="no checkpoint"):
        train(run_options(tmp_path, "against=./tiny", "name=text"))
    with pytest.raises(InputError, match=r"^opponent .*impossible, as .* 'A BER - PAR' cannot be carried out"):
        train(run_options(tmp_path, "against='tests.agents.opponents.powers:impossible'", "name=wrong"))


def test_all_phase_policy_in_file(tmp_path):
    """The serverless page rejects it in one line that names the option; `sparring.load` plays it."""
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=True), seed=1)
    file = tmp_path / "every.pt"
    save_checkpoint(file, network, contract=movement_contract(1910, all_phases=True), training={})
    with pytest.raises(InputError, match=r"was trained with network\.all_phases=true, unsupported by the page"):
        stored_student(str(file))
    loaded = load_observing_policy(file, "cpu")
    assert loaded.observation_space.shape == (75, 74)
    assert loaded.predict(np.zeros((2, 75, 74)))[0].shape == (2, codes.SLOTS)
