"""Exported models act like torch, for every observation size and network of the family."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from sparring.agents.opponents.onnx_file import OnnxError, parameter_count
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.policy import Policy
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.evaluation import onnx_export as module
from sparring.envs.dogfight.evaluation.onnx_export import build, disagreement, export, run_model
from sparring.envs.dogfight.training.opponents.load import DUELS
from sparring.eval.export import main
from sparring.eval.onnx_export.onnx_model import ExportError, run_recurrent
from tests.configs import messages

CHALLENGE = {"rules": "challenge", "obs_dim": 224}
LESS = {"obs_dim": 46, "observe_physics": False}
MIRROR = {"mirror": True}
SEEN = {"59": {}, "46": LESS, "224": CHALLENGE}
SEEN |= {f"{size} in the mirror": contract | MIRROR for size, contract in SEEN.items()}


@pytest.mark.parametrize(("contract", "blocks"), zip(SEEN.values(), (0, 2) * 3, strict=True), ids=SEEN.keys())
def test_exported_model_acts_like_torch(contract, blocks, make_checkpoint, tmp_path):
    checkpoint = load_checkpoint(make_checkpoint(hidden=16, blocks=blocks, **contract))
    export(checkpoint, tmp_path / "agent.onnx")
    obs = torch.randn(64, checkpoint.network.obs_dim, generator=torch.Generator().manual_seed(5))
    obs[:, 13:45].masked_fill_(torch.arange(64).unsqueeze(1) % 4 == 0, 0.0)  # no bullets
    if checkpoint.contract["rules"] == "challenge":
        obs[:16, 56:] = 0.0  # first decisions: frames that do not exist yet
    actions = run_model((tmp_path / "agent.onnx").read_bytes(), obs.numpy())
    expected = Policy(checkpoint.network, checkpoint.contract).act(obs)
    low, high = torch.tensor([-1.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 1.0])
    clamped = torch.minimum(torch.maximum(expected, low), high)
    assert np.abs(actions - clamped.numpy()).max() < 1e-5
    # The observations reach both clamps and both decisions, else this would show little.
    assert (expected[:, :2] < low[:2]).any()
    assert (expected[:, :2] > high[:2]).any()
    assert set(actions[:, 2]) == {0.0, 1.0}


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_memory_is_input_and_output(memory, make_checkpoint, tmp_path):
    checkpoint, path = load_checkpoint(make_checkpoint(memory=memory, **LESS, **MIRROR)), tmp_path / "agent.onnx"
    export(checkpoint, path, free=True)
    policy, data = Policy(checkpoint.network, checkpoint.contract), path.read_bytes()
    kept = torch.zeros(32, policy.memory_size)
    state = np.zeros((32, policy.memory_size // 2), np.float32)
    for step in range(3):
        obs = torch.randn(32, 46, generator=torch.Generator().manual_seed(step))
        expected, kept = policy.step(obs, kept)
        actions, state = run_recurrent(data, obs.numpy(), state)
        assert np.abs(actions[:, :2] - np.clip(expected[:, :2], [-1, 0], 1).numpy()).max() < 1e-4
        assert np.abs(state - kept[:, : state.shape[1]].numpy()).max() < 1e-5
        assert (actions[:, 2] == (expected[:, 2] > 0).numpy()).all()
    assert np.abs(state).max() > 0.1
    with pytest.raises(OnnxError, match=r"has 2 inputs \(observation, memory\)"):
        DUELS.read_onnx(path)


@pytest.mark.parametrize("contract", [LESS | MIRROR, CHALLENGE], ids=["46 in the mirror", "224"])
def test_any_batch_size_acts_like_torch(contract, make_checkpoint, tmp_path):
    checkpoint = load_checkpoint(make_checkpoint(hidden=16, blocks=1, **contract))
    export(checkpoint, tmp_path / "agent.onnx", free=True)
    session = onnxruntime.InferenceSession(tmp_path / "agent.onnx", providers=["CPUExecutionProvider"])
    for size in (1, 7, 4096):
        obs = torch.randn(size, checkpoint.network.obs_dim, generator=torch.Generator().manual_seed(size))
        expected = Policy(checkpoint.network, checkpoint.contract).act(obs).numpy()
        (actions,) = session.run(["action"], {"observation": obs.numpy()})
        assert actions.shape == (size, 3)
        assert np.abs(actions[:, :2] - np.clip(expected[:, :2], [-1, 0], 1)).max() < 1e-5
        assert (actions[:, 2] == (expected[:, 2] > 0)).mean() > 0.999
    assert DUELS.read_onnx(tmp_path / "agent.onnx").obs_dim == checkpoint.network.obs_dim


def test_model_states_its_contract(make_checkpoint):
    checkpoint = load_checkpoint(make_checkpoint(**CHALLENGE))
    model = onnx.load_from_string(build(checkpoint.network, checkpoint.contract))
    (given,), (returned,) = model.graph.input, model.graph.output
    assert [size.dim_value for size in given.type.tensor_type.shape.dim] == [1, 224]
    assert [size.dim_value for size in returned.type.tensor_type.shape.dim] == [1, 3]
    assert given.type.tensor_type.elem_type == returned.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    (metadata,) = model.metadata_props
    assert json.loads(metadata.value) == checkpoint.contract


def test_critic_is_not_exported(make_checkpoint):
    checkpoint = load_checkpoint(make_checkpoint(hidden=8))
    model = onnx.load_from_string(build(checkpoint.network, checkpoint.contract))
    bounds = 2 * 2 + 1  # of turn and throttle, and the zero above which it fires
    assert parameter_count(model) == (59 * 8 + 8) + (8 * 8 + 8) + (8 * 3 + 3) + bounds  # 584


def test_mirror_tables_count_toward_size_limit(make_checkpoint, tmp_path):
    """The limit covers all numbers in the file, including the mirror's tables."""
    plain, mirrored = (
        load_checkpoint(make_checkpoint(hidden=8, **CHALLENGE, mirror=mirror)) for mirror in (False, True)
    )
    paths = [tmp_path / "plain.onnx", tmp_path / "mirrored.onnx"]
    for checkpoint, path in zip((plain, mirrored), paths, strict=True):
        export(checkpoint, path)
    counts = [DUELS.read_onnx(path).parameters for path in paths]
    stored = [sum(np.prod(w.dims) for w in onnx.load(path).graph.initializer if w.data_type == 1) for path in paths]
    assert counts == stored
    assert counts[1] > counts[0] + 224


def test_gaussian_only_policy_is_exported(make_checkpoint, tmp_path):
    """Stable-Baselines3 trains such policies, which fire if the third action is above zero."""
    network = ActorCritic(59, 3, 0, NetworkConfig(hidden=8, blocks=0), seed=3)
    with torch.no_grad():
        network.actor[-1].weight.mul_(100.0)
    contract = load_checkpoint(make_checkpoint()).contract | {"continuous": 3, "binary": 0}
    save_checkpoint(tmp_path / "sb3.pt", network, contract=contract, training={})
    checkpoint = load_checkpoint(tmp_path / "sb3.pt")
    assert export(checkpoint, tmp_path / "agent.onnx") < 1e-5
    obs = torch.randn(64, 59, generator=torch.Generator().manual_seed(5))
    expected = Policy(checkpoint.network, checkpoint.contract).act(obs)[:, 2].numpy() > 0.0
    actions = run_model((tmp_path / "agent.onnx").read_bytes(), obs.numpy())
    assert (actions[:, 2] == expected).all()
    assert 0 < expected.sum() < 64


def test_policy_of_old_environment_is_rejected(make_checkpoint, tmp_path):
    path = make_checkpoint(id="sparring/Dogfight-v0", version=1)
    with pytest.raises(
        ExportError, match=r"final\.pt: was trained in sparring/Dogfight-v0; only .*-v1 can be exported"
    ):
        export(load_checkpoint(path), tmp_path / "agent.onnx")
    assert not (tmp_path / "agent.onnx").exists()


def test_difference_is_detected(make_checkpoint):
    checkpoint, other = load_checkpoint(make_checkpoint()), load_checkpoint(make_checkpoint("b/final.pt", seed=2))
    data = build(other.network, other.contract)
    assert disagreement(other, data) < 1e-5
    assert disagreement(checkpoint, data) == float("inf")  # They shoot at different times.


def test_differing_model_is_not_written(make_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "disagreement", lambda *_: 1e-3)
    with pytest.raises(ExportError, match="differs from torch"):
        export(load_checkpoint(make_checkpoint()), tmp_path / "agent.onnx")
    assert not (tmp_path / "agent.onnx").exists()


def test_large_policies_are_rejected(make_checkpoint, tmp_path, monkeypatch):
    assert (module.load.MAX_PARAMETERS, module.load.MAX_BYTES) == (250_000, 10_000_000)
    monkeypatch.setattr(module.load, "MAX_PARAMETERS", 583)
    with pytest.raises(ExportError, match=r"584 parameters, at most 583 .*network\.hidden"):
        export(load_checkpoint(make_checkpoint(hidden=8)), tmp_path / "agent.onnx")
    assert not (tmp_path / "agent.onnx").exists()


def test_command_writes_beside_checkpoint(make_checkpoint, capsys, printed):
    path = make_checkpoint()
    assert main(["--ckpt", "pupil"]) == 0
    assert path.with_suffix(".onnx").is_file()
    assert "float32[N, 59] -> float32[N, 3]" in capsys.readouterr().out
    assert "float32[1, 59] -> float32[1, 3]" in printed(main, ["--ckpt", "pupil", "--batch", "1"])
    make_checkpoint("rival/final.pt", **CHALLENGE)
    assert "float32[1, 224] -> float32[1, 3]" in printed(main, ["--ckpt", "rival"])


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_export"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, make_checkpoint, check_row):
    make_checkpoint()
    check_row(main, row)


def test_missing_package_is_named(make_checkpoint, monkeypatch, error_line):
    make_checkpoint()
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "onnx is not installed for" in (line := error_line(main, ["--ckpt", "pupil"]))
    assert line.endswith("; run `sparring install export`\n")
