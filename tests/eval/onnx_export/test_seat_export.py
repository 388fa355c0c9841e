"""Exported seat policies act like torch: legal, by role, from images, and with memory."""

import json

import numpy as np
import onnx
import pytest
import torch

from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.schema import NetworkConfig
from sparring.eval.export import main
from sparring.eval.onnx_export.onnx_model import run_recurrent
from sparring.eval.onnx_export.seat_model import build_seats, random_rows, seat_disagreement

F = 63
BOARD = [2, 4, 5, 3]


def contract(**changes):
    sizes = {"continuous": 0, "binary": 0, "categorical": 5, "masked": True, "roles": [0, 0], "picture": []} | changes
    choices = sizes["categorical"] if isinstance(sizes["categorical"], list) else [sizes["categorical"]]
    columns = F + sizes["masked"] * sum(choices) + (max(sizes["roles"]) > 0)
    return {"id": "pettingzoo:own.game", "version": 1, "obs_dim": columns, "kwargs": {}} | sizes


def save(path, given, **options):
    network = build_network(shape_for(given, NetworkConfig(hidden=8, **options)), seed=3)
    with torch.no_grad():
        for role in network.actor:
            role.head.weight.mul_(50.0)
    save_checkpoint(path, network, contract=given, training={})
    return load_checkpoint(path)


GAMES = {
    "masked": (contract(), {}),
    "choices and blocks": (contract(categorical=[2, 3]), {"blocks": 1}),
    "roles": (contract(roles=[0, 1, 2, 1]), {"activation": "tanh"}),
    "continuous": (contract(continuous=2, categorical=0, masked=False), {}),
    "binary": (contract(binary=3, categorical=0, masked=False), {}),
    "board": (contract(picture=[*BOARD, 0]), {}),
    "channels first": (contract(picture=[*BOARD, 1], roles=[0, 1]), {"encoder": "impala"}),
    "gru": (contract(roles=[1, 0]), {"memory": "gru"}),
    "lstm": (contract(picture=[*BOARD, 1]), {"memory": "lstm"}),
}


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(("given", "options"), GAMES.values(), ids=GAMES.keys())
def test_exported_model_acts_like_torch(given, options, free, tmp_path):
    checkpoint = save(tmp_path / "final.pt", given, **options)
    network = checkpoint.network
    data = build_seats(network, checkpoint, free=free)
    model = onnx.load_from_string(data)
    assert json.loads(model.metadata_props[0].value) == given
    memory, generator = torch.zeros(12, network.memory_size), torch.Generator().manual_seed(7)
    state = memory[:, : network.memory_size // 2].numpy()
    for _ in range(3):
        obs = random_rows(network, 12, generator)
        expected, _, memory = network.step(obs, memory, deterministic=True)
        actions, state = run_recurrent(data, obs.numpy(), state)
        np.testing.assert_allclose(actions, expected.numpy(), atol=1e-5)
        np.testing.assert_allclose(state, memory[:, : state.shape[1]].numpy(), atol=1e-6)


def test_model_with_other_weights_or_without_mask_differs(tmp_path):
    checkpoint = save(tmp_path / "final.pt", contract())
    network = checkpoint.network
    data = build_seats(network, checkpoint, free=True)
    assert seat_disagreement(network, data) < 1e-5
    network.masked = False
    unmasked = build_seats(network, checkpoint, free=True)
    network.masked = True
    assert seat_disagreement(network, unmasked) == float("inf")
    with torch.no_grad():
        network.actor[0].head.weight.mul_(-1.0)
    assert seat_disagreement(network, data) > 0.01


def test_command_exports_seat_policies(tmp_path, printed):
    save(tmp_path / "final.pt", contract(roles=[0, 1]), memory="gru")
    said = printed(main, ["--ckpt", str(tmp_path / "final.pt")])
    assert f"{tmp_path / 'final.onnx'}: float32[N, {F + 6}] -> float32[N, 1], " in said
    assert "Its memory, float32[N, 8], is an input and an output; zeros begin an episode" in said
    model = onnx.load(tmp_path / "final.onnx")
    assert [value.name for value in model.graph.input] == ["observation", "memory"]
    assert [value.name for value in model.graph.output] == ["action", "next_memory"]
