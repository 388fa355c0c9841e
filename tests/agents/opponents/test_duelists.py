"""Policies of other libraries in every numeric game act as in their own library."""

import json

import numpy as np
import onnx
import pytest
import torch
from gymnasium.spaces import Box

import sparring
from sparring.agents.opponents.onnx_file import CONTRACT, OnnxError
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import CHECKPOINTS
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.rules import CombatOptions
from sparring.envs.air_combat.training.opponents import CombatConditions, open_player
from sparring.envs.dogfight.training.matches import play
from sparring.envs.imported.training.opponents import load_seat_policy, open_seat_player
from sparring.eval.run import GameChoice, main
from tests.envs.imported.evaluation.saved import save_run

AIR = CHECKPOINTS / "released" / "air_combat_quickstart.pt"
SEEN, ACTED = Box(-np.inf, np.inf, (44,), np.float32), Box(-1.0, 1.0, (4,), np.float32)
OBS = np.random.default_rng(0).uniform(-2, 2, (64, 44)).astype(np.float32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return sparring.export(AIR, tmp_path_factory.mktemp("air") / "agent.onnx")


def zipped(folder, **spaces):
    pytest.importorskip("stable_baselines3")
    from tests.agents.policies.test_sb3_zips import model, saved

    made = model(**{"observation": SEEN, "action": ACTED} | spaces)
    return made, saved(made, folder)


@pytest.mark.parametrize("bound", [1.0, 0.5])
def test_sb3_zip_flies_air_combat_like_its_predict(bound, tmp_path):
    made, path = zipped(tmp_path, action=Box(-bound, bound, (4,), np.float32))
    policy = open_player(path).contestant
    expected = made.predict(OBS, deterministic=True)[0] / bound
    assert np.abs(np.clip(policy.act(torch.from_numpy(OBS)).numpy(), -1, 1) - expected).max() < 1e-5
    assert np.abs(expected).max() > 0.1


def test_sb3_zip_of_other_size_is_rejected_in_air_combat(tmp_path):
    _, path = zipped(tmp_path, observation=Box(-1, 1, (45,), np.float32))
    with pytest.raises(InputError, match="observes 45 floats, which does not match any rules of air combat"):
        open_player(path)
    _, path = zipped(tmp_path, action=Box(-1, 1, (3,), np.float32))
    with pytest.raises(InputError, match=r"action_space=Box\(-1, 1, \(3,\)\): expected 4 numbers"):
        open_player(path)


def test_exported_pilot_flies_match_of_its_checkpoint(exported):
    checkpoint = load_checkpoint(AIR)
    obs = torch.from_numpy(OBS)
    expected = Policy(checkpoint.network, checkpoint.contract).act(obs)
    player = open_player(exported)
    assert (player.contestant.act(obs) - expected).abs().max() < 1e-5
    setting = CombatConditions(threads=1, action_repeat=checkpoint.contract["action_repeat"])
    games = [
        play(one, "ace", games=4, seed=3, setting=setting) for one in (player.contestant, open_player(AIR).contestant)
    ]
    assert np.abs(games[0].length - games[1].length).max() <= 2 * setting.action_repeat  # float32 rounds otherwise
    assert games[0].outcome.tolist() == games[1].outcome.tolist()


def test_exported_model_plays_game_of_its_contract(exported, tmp_path):
    assert GameChoice(ckpt=str(exported)).game == "air_combat"
    result = sparring.evaluate(exported, opponents=["ace"], games=2, threads=1, stochastic=True)
    assert result.data["kind"] == "air_combat"
    assert result.data["notes"][-1] == f"{exported} is an ONNX agent, whose actions are not sampled"
    (older,) = result.data["notes"][:-1]
    assert older.startswith(f"{exported} was trained in version 1 of sparring/AirCombat-v1; version 2 changed ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"missiles": 99}, "its contract has missiles=99: must be in"),
        ({"action_repeat": "six"}, "action_repeat"),
        ({"version": -1}, "version"),
        ({"missiles": 2}, "wanted is one input float32"),
    ],
)
def test_unknown_contract_is_rejected_in_one_line(changes, message, exported, tmp_path):
    model = onnx.load(exported)
    (entry,) = [entry for entry in model.metadata_props if entry.key == CONTRACT]
    entry.value = json.dumps(json.loads(entry.value) | changes)
    onnx.save(model, tmp_path / "agent.onnx")
    with pytest.raises(OnnxError, match=message) as caught:
        open_player(tmp_path / "agent.onnx")
    assert str(caught.value).startswith(f"{tmp_path}/agent.onnx: ")


def test_other_layout_version_is_distinguished(exported, tmp_path):
    model = onnx.load(exported)
    (entry,) = [entry for entry in model.metadata_props if entry.key == CONTRACT]
    entry.value = json.dumps(json.loads(entry.value) | {"layout": "44:00000000"})
    onnx.save(model, tmp_path / "agent.onnx")
    with pytest.raises(PolicyError, match="was trained with layout=44:00000000"):
        sparring.evaluate(tmp_path / "agent.onnx", opponents=["ace"], games=2, threads=1)


def test_python_object_returns_one_choice_per_action_component():
    batch = AirCombatBatch(2, threads=1, options=CombatOptions(action_form="discrete"))
    policy = open_player(lambda obs: np.zeros((len(obs), 4))).contestant
    policy.check(batch.contract)
    assert policy.act(batch.obs.flatten(0, 1)).shape == (4, 4)
    batch.close()


def test_exported_seat_plays_legal_actions_of_its_network(tmp_path):
    pytest.importorskip("pyspiel")
    path = save_run(tmp_path / "leduc", "openspiel", "leduc_poker")
    policy, model = (
        load_seat_policy(path),
        open_seat_player(str(sparring.export(path)), load_seat_policy(path).contract),
    )
    size = policy.contract["obs_dim"] - 3
    generator = np.random.default_rng(1)
    mask = generator.random((200, 3)) < 0.5
    mask[np.arange(200), generator.integers(3, size=200)] = True
    rows = torch.from_numpy(np.concatenate([generator.random((200, size)), mask], axis=1).astype(np.float32))
    memory = rows[:, :0]
    chosen = model.act(rows, memory)[0]
    assert torch.equal(chosen, policy.act(rows, memory)[0])
    assert mask[np.arange(200), chosen[:, 0].long()].all()
    assert len(set(chosen[:, 0].tolist())) > 1
    other = save_run(tmp_path / "kuhn", "openspiel", "kuhn_poker")
    with pytest.raises(PolicyError, match="was trained with id=openspiel:leduc_poker"):
        open_seat_player(str(path.with_suffix(".onnx")), load_seat_policy(other).contract)


def test_game_of_policy_file_beats_game_of_same_named_bot(tmp_path):
    """Diplomacy has a bot called random, too."""
    pytest.importorskip("pyspiel")
    path = save_run(tmp_path / "leduc", "openspiel", "leduc_poker")
    assert GameChoice(opponents=["random", str(path)]).game == "openspiel"
    assert GameChoice(opponents=["random", str(CHECKPOINTS / "released/diplomacy_student")]).game == "diplomacy"
    assert GameChoice(opponents=["random"]).game == "diplomacy"


def test_dogfight_opponent_can_sample_actions(tmp_path):
    sampled = "stochastic:released/dogfight_bots_only"
    words = ["--ckpt", "released/dogfight_bots_only", "--opponents", sampled, "--games", "2", "--threads", "1"]
    assert main([*words, "--quiet", "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.json")
    (record,) = json.loads(file.read_text())["records"]
    assert record["opponent"] == sampled
