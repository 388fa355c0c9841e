"""ONNX agents: accepted and rejected models, messages, and batch-independent actions."""

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from sparring.agents.opponents.onnx_file import OnnxError
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight.evaluation.onnx_export import build
from sparring.envs.dogfight.training.opponents.load import DUELS, load_policy
from tests.eval.onnx_export import external_data
from tests.eval.onnx_export.onnx_models import across_rows, linear, make_model, save, through_reshape, value, weights

MATMUL = [helper.make_node("MatMul", ["x", "weights"], ["y"])]
RULES = {224: ("challenge", True), 59: ("classic", True), 46: ("classic", False)}


def weights_of_x():
    return numpy_helper.from_array(np.zeros((1, 59), np.float32), "x")


def load(model, tmp_path):
    return load_policy(save(model, tmp_path / "agent.onnx"), "cpu")


def same(one, expected):
    contract = {"rules": "classic", "observe_physics": True, "continuous": 3, "binary": 0}
    return DUELS.action_form(contract).same(one, expected)


def refusal(model, tmp_path):
    with pytest.raises(OnnxError) as caught:
        load(model, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'agent.onnx'}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("size", RULES)
@pytest.mark.parametrize("batch", [1, "N", None])
def test_agent_is_recognized_by_its_input(size, batch, tmp_path):
    entrant = load(linear(size, batch=batch), tmp_path)
    contract = entrant.contestant.contract
    assert (contract["obs_dim"], contract["rules"]) == (size, RULES[size][0])
    if contract["rules"] == "classic":
        assert contract["observe_physics"] == RULES[size][1]
    obs = torch.randn(5, size)
    expected = obs.numpy() @ numpy_helper.to_array(weights(size))
    assert np.abs(entrant.contestant.act(obs).numpy() - expected).max() < 1e-5


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (lambda: linear(60), "its input x is float32 [1, 60]"),
        (lambda: linear(batch=32), "its input x is float32 [32, 59]"),
        (lambda: make_model(MATMUL, inputs=[value("x", [1, "D"])]), "its input x is float32 [1, D]"),
        (lambda: make_model(MATMUL, inputs=[value("x", [59])], outputs=[value("y", [3])]), "is float32 [59]"),
        (lambda: make_model(MATMUL, inputs=[value("x", None)]), "its input x is float32 of any shape"),
        (lambda: linear(outputs=2), "its output y is float32 [1, 2]"),
        (
            lambda: make_model(
                [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)],
                outputs=[value("y", [1, 59], TensorProto.DOUBLE)],
                stored=[],
            ),
            "its output y is float64 [1, 59]",
        ),
        (
            lambda: make_model(
                [helper.make_node("Cast", ["x"], ["c"], to=1), helper.make_node("MatMul", ["c", "weights"], ["y"])],
                inputs=[value("x", [1, 59], TensorProto.DOUBLE)],
            ),
            "its input x is float64 [1, 59]",
        ),
        (
            lambda: make_model(
                [helper.make_node("Add", ["x", "memory"], ["s"]), helper.make_node("MatMul", ["s", "weights"], ["y"])],
                inputs=[value("x", [1, 59]), value("memory", [1, 59])],
            ),
            "has 2 inputs (x, memory)",
        ),
        (
            lambda: make_model(
                [*MATMUL, helper.make_node("Neg", ["y"], ["z"])], outputs=[value("y", [1, 3]), value("z", [1, 3])]
            ),
            "has 2 outputs (y, z)",
        ),
        (lambda: make_model(MATMUL, inputs=[], stored=[weights(), weights_of_x()]), "has 0 inputs"),
        (
            lambda: make_model(MATMUL, outputs=[value("y", [1, "K"])], stored=[weights(59, 4)]),
            "answers 1 observations with float32 [1, 4]",
        ),
    ],
)
def test_other_interface_is_rejected_by_name(model, found, tmp_path):
    message = refusal(model(), tmp_path)
    assert found in message
    assert "wanted is one input float32 [1, D], D being 224 (challenge), 59 or 46 (classic)" in message
    assert "one output float32 [1, 3]" in message


def test_custom_operators_are_rejected(tmp_path):
    node = helper.make_node("Steer", ["x", "weights"], ["y"], domain="com.example")
    model = make_model([node], opsets=(("", 17), ("com.example", 1)))
    assert "uses the custom operator com.example.Steer" in refusal(model, tmp_path)


def test_custom_operators_inside_branch_are_rejected(tmp_path):
    inner = helper.make_node("Steer", ["x", "weights"], ["a"], domain="com.example")
    then = helper.make_graph([inner], "then", [], [value("a", [1, 3])])
    plain = helper.make_graph([helper.make_node("MatMul", ["x", "weights"], ["b"])], "else", [], [value("b", [1, 3])])
    condition = numpy_helper.from_array(np.array(True), "condition")
    node = helper.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=plain)
    model = make_model([node], stored=[weights(), condition], opsets=(("", 17), ("com.example", 1)))
    assert "com.example.Steer" in refusal(model, tmp_path)


def test_onnx_functions_are_accepted(tmp_path):
    body = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    steer = helper.make_function("local", "Steer", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)])
    node = helper.make_node("Steer", ["x", "weights"], ["y"], domain="local")
    model = make_model([node], opsets=(("", 17), ("local", 1)), functions=[steer])
    assert same(load(model, tmp_path).contestant.act(torch.ones(2, 59)).numpy(),
                        load(linear(), tmp_path).contestant.act(torch.ones(2, 59)).numpy())  # fmt: skip


def test_external_weights_are_rejected(tmp_path):
    model = linear()
    onnx.save(model, tmp_path / "agent.onnx", save_as_external_data=True, location="rest.bin", size_threshold=0)
    assert (tmp_path / "rest.bin").exists()
    with pytest.raises(OnnxError, match=r"keeps the weights 'weights' in another file \(external data\)"):
        load_policy(tmp_path / "agent.onnx", "cpu")


@pytest.mark.parametrize("part", external_data.PARTS)
@pytest.mark.parametrize("place", ["rest.bin", external_data.MEMORY])
def test_external_weights_in_other_model_parts_are_rejected(part, place, tmp_path, monkeypatch):
    """This includes a file in the working directory, which onnxruntime would read for a sparse constant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rest.bin").write_bytes(bytes(4 * 59 * 3))
    (tmp_path / "agent.onnx").write_bytes(external_data.agent(part, place))
    with pytest.raises(OnnxError, match=r"keeps the weights 'outside' in another file \(external data\)"):
        load_policy(tmp_path / "agent.onnx", "cpu")


@pytest.mark.parametrize("cut", [0, 0.5, 0.9])
def test_truncated_file_is_damaged(cut, tmp_path):
    path = save(linear(), tmp_path / "agent.onnx")
    data = path.read_bytes()
    path.write_bytes(data[: int(cut * len(data))])
    with pytest.raises(OnnxError, match=r"agent\.onnx: is damaged, or not a valid ONNX model"):
        load_policy(path, "cpu")


def test_other_file_type_is_damaged(tmp_path, make_checkpoint):
    path = tmp_path / "agent.onnx"
    for data in (b"not a model", b"\x00" * 100, make_checkpoint().read_bytes(), np.random.default_rng(0).bytes(5000)):
        path.write_bytes(data)
        with pytest.raises(OnnxError, match="is damaged, or not a valid ONNX model"):
            load_policy(path, "cpu")


@pytest.mark.parametrize("node", ["Log", "Reciprocal"])
def test_non_finite_actions_are_rejected(node, tmp_path):
    nodes = [helper.make_node(node, ["x"], ["h"]), helper.make_node("MatMul", ["h", "weights"], ["y"])]
    message = refusal(make_model(nodes), tmp_path)
    assert "returns NaN or infinite actions for " in message
    assert "of 48 probe observations; expected finite" in message


def test_random_actions_are_rejected(tmp_path):
    noise = helper.make_node("RandomNormalLike", ["h"], ["noise"])
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["h"]), noise, helper.make_node("Add", ["h", "noise"], ["y"])]
    assert "answers the same observation differently when asked again" in refusal(make_model(nodes), tmp_path)


def test_unloadable_model_gives_one_line_error(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "short"], ["y"])]
    message = refusal(
        make_model(nodes, stored=[numpy_helper.from_array(np.ones((7, 3), np.float32), "short")]), tmp_path
    )
    assert "cannot be run by onnxruntime" in message


@pytest.mark.parametrize(
    ("model", "batched"),
    [
        (linear, True),
        (lambda: linear(batch="N"), True),
        (through_reshape, False),
        (lambda: through_reshape(batch="N"), False),
        (across_rows, False),
    ],
    ids=["fixed", "free", "reshaped", "free but reshaped", "across rows"],
)
def test_actions_do_not_depend_on_batch(model, batched, tmp_path):
    actor = DUELS.onnx_actor(DUELS.read_onnx(save(model(), tmp_path / "agent.onnx")))
    assert (actor.batched is not None) == batched
    obs = np.random.default_rng(3).normal(size=(70, 59)).astype(np.float32)
    alone = np.concatenate([actor.run(row[None]) for row in obs])
    for size in (2, 7, 70):
        found = np.concatenate([actor.run(obs[at : at + size]) for at in range(0, 70, size)])
        assert np.abs(found - alone).max() < 1e-5
    matrix = numpy_helper.to_array(weights())
    expected = obs @ matrix * (2 if model is across_rows else 1)
    assert np.abs(alone - expected).max() < 1e-4


def test_equal_actions_are_compared_with_tolerance():
    actions = np.array([[0.5, 0.5, 1.0], [2.0, -3.0, -4.0]], np.float32)
    assert same(actions, actions * [[1, 1, 7], [3, 2, 2]])  # beyond the bounds, and shots, only the side counts
    for change in ([2e-5, 0, 0], [0, 2e-5, 0], [0, 0, -2]):
        assert not same(actions, actions + np.array([change, [0, 0, 0]], np.float32))


def test_model_too_large_for_public_challenge_is_noted(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "wide"], ["h"]), helper.make_node("MatMul", ["h", "weights"], ["y"])]
    for size, noted in ((224, True), (59, False)):
        stored = [
            numpy_helper.from_array(np.zeros((size, 4500), np.float32), "wide"),
            numpy_helper.from_array(np.zeros((4500, 3), np.float32), "weights"),
        ]
        entrant = load(make_model(nodes, inputs=[value("x", [1, size])], stored=stored), tmp_path)
        assert len(entrant.notes) == noted
    entrant = load(make_model(nodes, inputs=[value("x", [1, 224])], stored=[
        numpy_helper.from_array(np.zeros((224, 12000), np.float32), "wide"),
        numpy_helper.from_array(np.zeros((12000, 3), np.float32), "weights"),
    ]), tmp_path)  # fmt: skip
    (note,) = entrant.notes
    assert "has 2,724,000 parameters (at most 250,000) and 10,89" in note
    assert note.endswith(" bytes (at most 10,000,000), so the public challenge would refuse it")


def test_agent_never_samples(tmp_path):
    path = save(linear(), tmp_path / "agent.onnx")
    entrant = load_policy(path, "cpu", deterministic=False)
    assert entrant.contestant.deterministic
    assert entrant.notes == (f"{path} is an ONNX agent, whose actions are not sampled",)


def test_exported_policy_must_match_its_contract(make_checkpoint, tmp_path):
    checkpoint = load_checkpoint(make_checkpoint(action_repeat=5))
    (tmp_path / "agent.onnx").write_bytes(build(checkpoint.network, checkpoint.contract))
    assert load_policy(tmp_path / "agent.onnx", "cpu").contestant.contract["action_repeat"] == 5
    diplomacy = json.dumps(checkpoint.contract | {"id": "sparring/Diplomacy-v0"})
    for text, refused in ((diplomacy, True), ("{", False), ("3", False), ('{"id": "other"}', False)):
        model = linear()
        helper.set_model_props(model, {"contract": text})
        save(model, tmp_path / "agent.onnx")
        if refused:
            with pytest.raises(InputError, match=r"was trained in sparring/Diplomacy-v0; .*--env diplomacy"):
                load_policy(tmp_path / "agent.onnx", "cpu")
        else:
            load_policy(tmp_path / "agent.onnx", "cpu")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_missing_package_is_named_with_command(package, monkeypatch, tmp_path):
    path = save(linear(), tmp_path / "agent.onnx")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"^{package} is not installed for .*; run `sparring install export`$"):
        load_policy(path, "cpu")
