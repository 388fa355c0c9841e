"""Exported Diplomacy policies order like torch, in positions from bot and random games."""

import numpy as np
import pytest
import torch

from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.core.files import CHECKPOINTS
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.evaluation.order_export import order_disagreement
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.envs.diplomacy.observation import AT
from sparring.eval.export import main
from sparring.eval.onnx_export.onnx_model import run_recurrent


def positions(network, count=6, steps=40):
    """Return rows [B, D] of all powers in games of a sampling policy."""
    generator, rows = torch.Generator().manual_seed(9), []
    games = MovementBatch(DiplomacyBatch(count, threads=1), all_phases=network.config.all_phases, seed=4)
    for _ in range(steps):
        rows.append(games.obs.flatten(0, 1).clone())
        games.step(network.act(rows[-1], generator=generator)[0].unflatten(0, (count, -1)))
    games.close()
    return torch.cat(rows)


def agree(network, file, batch):
    """Compare orders and probabilities with torch's; return both."""
    untrained = build_network(network.shape, seed=1)  # orders at random, so that units are dislodged
    obs = positions(untrained) if batch == "free" else positions(untrained, 2, 6)
    actions, flat = run_recurrent(file.read_bytes(), obs.numpy(), np.zeros((len(obs), 0), np.float32))
    probabilities = flat.reshape(len(obs), 17, 37)
    expected, _ = network.act(obs, deterministic=True)
    np.testing.assert_array_equal(actions, expected)
    log_probs, present = network.log_probs(obs, expected.long(), apart=True)
    np.testing.assert_allclose(probabilities, log_probs.exp().detach(), rtol=0.0, atol=1e-5)
    assert present.any(1).sum() > len(obs) / 4
    assert len(np.unique(actions, axis=0)) > 5
    return obs, actions


@pytest.mark.parametrize(
    ("all_phases", "in_turn", "batch"),
    [(False, False, "free"), (True, True, "free"), (True, True, "1")],
)
def test_orders_and_probabilities_match_torch(all_phases, in_turn, batch, tmp_path):
    contract = MovementBatch(DiplomacyBatch(1, threads=1), all_phases=all_phases, seed=1).contract
    options = NetworkConfig(hidden=12, blocks=2, all_phases=all_phases, in_turn=in_turn)
    network, generator = build_network(shape_for(contract, options), seed=1), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
        network.actor.hold.bias.sub_(3.0)  # units move, retreat and build
    file = tmp_path / "final.pt"
    save_checkpoint(file, network, contract=contract, training={})
    assert main(["--ckpt", str(file), "--batch", batch]) == 0
    obs, actions = agree(load_checkpoint(file).network, file.with_suffix(".onnx"), batch)
    if all_phases and batch == "free":
        phases = obs.view(len(obs), 75, -1)[:, 0, AT["phase"]].argmax(-1)
        acted = {int(phase) for phase in phases[(actions > 0).any(1)]}
        assert acted == {0, 1, 2, 3, 4}


def test_released_student_is_exported_and_other_weights_differ(tmp_path):
    student, file = CHECKPOINTS / "released" / "diplomacy_student.pt", tmp_path / "student.onnx"
    assert main(["--ckpt", str(student), "--out", str(file), "--batch", "1"]) == 0
    network = load_checkpoint(student).network
    agree(network, file, "1")
    with torch.no_grad():
        network.actor.hold.bias.add_(0.01)
    data, obs = (tmp_path / "student.onnx").read_bytes(), positions(network, 1, 2)
    assert order_disagreement(network, data, obs) > 1e-4


@pytest.mark.parametrize("suffix", [".zip", ".onnx"])
@pytest.mark.parametrize("game", ["Diplomacy", "chess", "openspiel", "pettingzoo", "gymnasium"])
def test_policy_is_rejected_where_actions_are_not_plain_numbers(game, suffix, tmp_path, capsys):
    from sparring.eval.run import main as evaluate

    (file := tmp_path / f"model{suffix}").write_bytes(b"PK")
    assert evaluate(["--env", game.lower(), "--ckpt", str(file), "--quiet"]) == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "model" in text]
    kind = {".zip": "SB3 zips", ".onnx": "ONNX models"}[suffix]
    why = f", and actions of {game} are not plain numbers" if game in ("Diplomacy", "chess") else ""
    games = {".zip": "the dogfight, air combat", ".onnx": "the dogfight, Diplomacy, air combat"}[suffix]
    expected = f"{kind} play only {games} and in Gymnasium{why}; give a .pt file or a run's name"
    if suffix == ".onnx" and game != "chess":  # models of theirs can play
        expected = "is damaged, or not a valid ONNX model"
    elif game == "gymnasium":
        expected = "does not name its environment; add --id, as in --id CartPole-v1"
    assert expected in line
