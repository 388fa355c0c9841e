"""Players of imported games: resolving names, and their actions."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from sparring.agents.opponents.onnx_file import OnnxError
from sparring.agents.opponents.players import OpponentError
from sparring.agents.play.seat_matches import seat_actions
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.policies.policy import PolicyError
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import forget_opponent, register_opponent
from sparring.configs.schema import NetworkConfig
from sparring.envs.imported.training.opponents import (
    MatchSeats,
    NetworkSeats,
    RandomSeats,
    check_contract,
    open_seat_player,
)
from sparring.envs.spaces import to_actions
from tests.agents.play.toy_matches import ToyBatch

MIXED = {
    "id": "pettingzoo:mixed",
    "version": 1,
    "obs_dim": 7,
    "continuous": 0,
    "binary": 0,
    "categorical": [2, 3],
    "masked": True,
    "roles": [0, 1],
    "picture": [],
    "kwargs": {},
}


def rows(*masks):
    """Return rows of one feature, the mask and role 1."""
    return torch.tensor([[0.5, *map(float, mask), 1.0] for mask in masks])


def test_random_actions_are_uniform_over_legal_ones():
    player = open_seat_player("random", MIXED, seed=3)
    obs = rows([1, 0, 1, 0, 1]).expand(4000, 7)
    actions, _ = player.act(obs, torch.zeros(4000, 0))
    assert (actions[:, 0] == 0).all()
    counts = torch.bincount(actions[:, 1].long(), minlength=3).tolist()
    assert counts[1] == 0
    assert abs(counts[0] - 2000) < 160  # five standard deviations
    player.reseed(3)
    assert torch.equal(player.act(obs, torch.zeros(4000, 0))[0], actions)


def test_random_numbers_and_switches():
    contract = MIXED | {"continuous": 2, "categorical": 0, "masked": False, "roles": [0, 0], "obs_dim": 1}
    actions, _ = open_seat_player("random", contract).act(torch.zeros(1000, 1), torch.zeros(1000, 0))
    assert actions.shape == (1000, 2)
    assert actions.min() < -0.9
    assert actions.max() > 0.9
    switches = open_seat_player("random", contract | {"continuous": 0, "binary": 3})
    assert set(switches.act(torch.zeros(50, 1), torch.zeros(50, 0))[0].flatten().tolist()) == {0.0, 1.0}


def test_object_sees_features_roles_and_masks():
    seen = []

    def act(obs, mask):
        seen.append((obs, mask))
        return np.zeros((len(obs), 2))

    player = open_seat_player(act, MIXED)
    assert player.act(rows([1, 0, 1, 0, 1]), torch.zeros(1, 0))[0].tolist() == [[0.0, 0.0]]
    ((obs, mask),) = seen
    assert obs.tolist() == [[0.5, 1.0]]
    assert mask.tolist() == [[True, False, True, False, True]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([[0, 1]], r"chose 1 in row 0, which mask forbids; legal are \[0, 2\]"),
        ([[0, 3]], r"chose 3; must be a whole number in \[0, 2\]"),
        ([[0.5, 0]], r"chose 0.5; must be a whole number in \[0, 1\]"),
        ([[0]], r"of 1 rows returned shape \(1, 1\); expected are 1 rows of 2"),
        ([["a", "b"]], "a list, not an array of numbers"),
        ([[np.nan, 0]], "a number that is not finite"),
    ],
)
def test_wrong_answer_is_named(returned, message):
    with pytest.raises(OpponentError, match=message):
        open_seat_player(lambda obs, mask: returned, MIXED).act(rows([1, 0, 1, 0, 1]), torch.zeros(1, 0))


def test_object_without_act_is_rejected():
    with pytest.raises(OpponentError, match="a int cannot act"):
        open_seat_player(3, MIXED)
    with pytest.raises(OpponentError, match=r"give act two parameters, act\(obs, mask\)"):
        open_seat_player(lambda obs: 0, MIXED)


def test_registered_player_is_reseeded_for_every_run():
    """One object serves all runs of the process."""
    obs, memory = rows([1, 1, 1, 1, 1]).expand(40, 7), torch.zeros(40, 0)
    register_opponent("drawing")(RandomSeats(MIXED))
    try:
        drawn = [open_seat_player("drawing", MIXED, seed=seed).act(obs, memory)[0] for seed in (5, 5, 6)]
    finally:
        forget_opponent("drawing")
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


class FirstLegal:
    def choose(self, match, seat):
        return int(match.mask.argmax())


def test_object_can_request_match():
    batch = ToyBatch(4)
    player = open_seat_player(FirstLegal, batch.contract)
    assert isinstance(player, MatchSeats)
    assert seat_actions(player, batch, torch.tensor([0, 2]), torch.zeros(2, 0))[0].tolist() == [[1.0], [1.0]]
    with pytest.raises(OpponentError, match="needs the match itself"):
        player.act(batch.obs[0], torch.zeros(2, 0))
    player._source.choose = lambda match, seat: 7
    with pytest.raises(OpponentError, match=r"choose\(match, 0\) returned 7, none of Discrete\(3\)"):
        seat_actions(player, batch, torch.tensor([0]), torch.zeros(1, 0))


def saved(path, contract):
    network = build_network(shape_for(contract, NetworkConfig(hidden=8, blocks=0)), seed=1)
    save_checkpoint(path, network, contract=contract, training={"run": "toy"})
    return path


def test_files_are_deterministic_unless_named_otherwise(tmp_path):
    contract = MIXED | {"masked": False, "roles": [0, 0], "obs_dim": 1}
    path = saved(tmp_path / "final.pt", contract)
    player, sampled = (open_seat_player(text, contract) for text in (str(path), f"stochastic:{path}"))
    assert isinstance(player, NetworkSeats)
    assert (player.deterministic, sampled.deterministic) == (True, False)
    obs = torch.ones(200, 1)
    assert len(player.act(obs, torch.zeros(200, 0))[0].unique(dim=0)) == 1
    assert len(sampled.act(obs, torch.zeros(200, 0))[0].unique(dim=0)) == 6
    with pytest.raises(PolicyError, match=r"was trained with kwargs=\{\}, not \{'players': 3\}; play with the options"):
        open_seat_player(str(path), contract | {"kwargs": {"players": 3}})
    with pytest.raises(PolicyError, match="trained with id=pettingzoo:mixed, not openspiel:go; name a policy of"):
        open_seat_player(path, contract | {"id": "openspiel:go"})


@pytest.mark.parametrize(("key", "value"), [("continuous", 10**12), ("obs_dim", 10**12)])
def test_model_with_huge_declared_sizes_is_rejected(key, value, tmp_path):
    onnx = pytest.importorskip("onnx")
    stated = MIXED | {"continuous": 2, "categorical": 0, "masked": False, "roles": [0, 0], "obs_dim": 1, key: value}
    sizes = {"x": [1, stated["obs_dim"]], "y": [1, "A"]}
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes[name])] for name in sizes
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "agent", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.helper.set_model_props(model, {"contract": json.dumps(stated)})
    onnx.save(model, tmp_path / "huge.onnx")
    with pytest.raises(OnnxError, match=rf"^[^\n]*huge\.onnx: its contract has {key}={value}: expected [^\n]*$"):
        open_seat_player(str(tmp_path / "huge.onnx"), stated)


def test_unknown_name_error_lists_known_names():
    with pytest.raises(InputError, match=r"unknown player 'randon': write random, a run or a .* did you mean 'random'"):
        open_seat_player("randon", MIXED)


def test_policy_of_other_game_kind_is_rejected():
    with pytest.raises(PolicyError, match="ace: plays sparring/Dogfight-v1, not pettingzoo:mixed; name"):
        check_contract("ace", {"id": "sparring/Dogfight-v1"}, MIXED)
    check_contract("one", MIXED | {"roles": (0, 1)}, MIXED)


def test_game_values_are_rescaled_to_network_range():
    space = Box(np.float32([0.0, -1.0]), np.float32([10.0, 1.0]))
    match = SimpleNamespace(action_spaces=[space])
    player = MatchSeats(SimpleNamespace(choose=lambda match, seat: np.float32([7.5, 0.25])), name="half")
    assert player.action(match, 0).tolist() == [0.5, 0.25]
    np.testing.assert_allclose(to_actions(space, np.array([[0.5, 0.25]]), scale=True), [[7.5, 0.25]])
