"""Exported Diplomacy models play like the checkpoints they came from."""

import json
from functools import partial

import pytest

pytest.importorskip("onnx")

import onnx
import torch
from onnx import helper, numpy_helper

import sparring
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.eval.export import main as export_main
from sparring.eval.run import main as run_main

main = partial(run_main, env="diplomacy")

QUICK = ["--games", "7", "--last-year", "1903", "--threads", "1", "--device", "cpu", "--quiet"]


def exported(folder, *, all_phases):
    """Save a policy that moves, retreats and builds, and export its model beside it."""
    contract = MovementBatch(DiplomacyBatch(1, threads=1), all_phases=all_phases, seed=1).contract
    network = build_network(shape_for(contract, NetworkConfig(hidden=8, blocks=1, all_phases=all_phases)), seed=1)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
        network.actor.hold.bias.sub_(3.0)
    save_checkpoint(folder / "policy.pt", network, contract=contract, training={})
    assert export_main(["--ckpt", str(folder / "policy.pt")]) == 0
    return folder / "policy.pt", folder / "policy.onnx"


@pytest.mark.parametrize("all_phases", [False, True])
def test_exported_model_plays_games_of_its_checkpoint(all_phases, tmp_path):
    found = []
    for file in exported(tmp_path, all_phases=all_phases):
        for words in (["--ckpt", str(file), "--opponents", "dumbbot"], ["--bot", "random", "--opponents", str(file)]):
            assert main([*words, *QUICK, "--out", str(tmp_path)]) == 0
            (record,) = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
            found.append(record["ends"])
    assert found[:2] == found[2:]
    assert len(set(found[0])) > 1


def test_exported_model_plays_in_payoff_matrix_and_test(tmp_path):
    policy, model = exported(tmp_path, all_phases=False)
    data = sparring.payoff(
        env="diplomacy", opponents=[str(policy), str(model)], games=14, last_year=1902, threads=1
    ).data
    assert data["records"][0]["pairs"] == [0, 0, 7, 0, 0]  # they are one player
    words = ["--ckpt", str(model), "--opponents", "random", "--sprt", "--games", "14", "--max-games", "14"]
    assert main([*words, "--last-year", "1901", "--threads", "1", "--quiet", "--out", str(tmp_path)]) == 1
    assert sum(json.loads((tmp_path / "sprt.policy.onnx.json").read_text())["pairs"]) == 7


def test_unusable_models_are_rejected_in_one_line(tmp_path, error_line):
    _, file = exported(tmp_path, all_phases=False)
    model = onnx.load(str(file))
    wanted = "wanted is a model of Diplomacy that eval/export.py wrote"
    cases = [
        (
            ["--bot", "random", "--opponents", f"stochastic:{file}"],
            "is an ONNX model, which does not sample its orders",
        ),
        (["--ckpt", str(file), "--stochastic", "--opponents", "random"], "which does not sample its orders"),
    ]
    for number, (contract, output) in enumerate((({"id": "other"}, "action"), ({}, "orders"))):
        copy, path = onnx.ModelProto(), tmp_path / f"case{number}.onnx"
        copy.CopyFrom(model)
        if contract:
            helper.set_model_props(copy, {"contract": json.dumps(contract)})
        else:
            copy.graph.output.append(helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, ["N", 17]))
            copy.graph.node.append(helper.make_node("Identity", ["action"], [output]))
        onnx.save(copy, str(path))
        cases.append((["--ckpt", str(path), "--opponents", "random"], wanted))
    copy, path = onnx.ModelProto(), tmp_path / "high.onnx"
    copy.CopyFrom(model)
    (node,) = [node for node in copy.graph.node if "action" in node.output]
    node.output[:] = ["low"]
    copy.graph.initializer.append(numpy_helper.from_array(torch.tensor([40.0]).numpy(), "forty"))
    copy.graph.node.append(helper.make_node("Add", ["low", "forty"], ["action"]))
    onnx.save(copy, str(path))
    cases.append((["--ckpt", str(path), "--opponents", "random"], "expected a whole number in [0, 36]"))
    for words, message in cases:
        assert message in error_line(main, [*words, *QUICK])
