"""Exported policies of air combat and Gymnasium environments act like torch."""

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.rules import CombatOptions
from sparring.eval.export import main
from sparring.eval.onnx_export.onnx_model import run_recurrent


def save(path, contract, **options):
    """Save a checkpoint whose actions depend on observations."""
    network = build_network(shape_for(contract, NetworkConfig(hidden=16, **options)), seed=3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in network.actor.parameters():
            if weight.dim() > 1:
                weight.add_(0.5 * torch.randn(weight.shape, generator=generator))
    save_checkpoint(path, network, contract=contract, training={})
    return load_checkpoint(path).network


AIR = {
    "guns": (CombatOptions(), {}),
    "missiles and teams": (CombatOptions(missiles=2, flares=8, team_size=2), {"blocks": 1}),
    "discrete": (CombatOptions(action_form="discrete"), {"activation": "tanh"}),
    "manoeuvres with missiles": (CombatOptions(action_form="manoeuvres", missiles=2), {}),
    "commands": (CombatOptions(action_form="commands"), {}),
    "gru": (CombatOptions(), {"memory": "gru"}),
    "lstm of choices": (CombatOptions(action_form="discrete", flares=8), {"memory": "lstm"}),
}


@pytest.mark.parametrize(("case", "batch"), zip(AIR, ("free", "1") * 3 + ("free",), strict=True))
def test_air_combat_is_exported_with_all_action_forms_and_memory(case, batch, tmp_path, printed):
    """The rows come from matches flown with these actions."""
    options, network_options = AIR[case]
    matches = AirCombatBatch(4, options=options, threads=1, seed=3)
    network = save(tmp_path / "final.pt", matches.contract, **network_options)
    assert "Largest difference from torch" in printed(main, ["--ckpt", str(tmp_path / "final.pt"), "--batch", batch])
    data = (tmp_path / "final.onnx").read_bytes()
    memory = torch.zeros(4 * matches.seats, network.memory_size)
    state = memory[:, : network.memory_size // 2].numpy()
    for _ in range(5):
        rows = matches.obs.flatten(0, 1)
        actions, state = run_recurrent(data, rows.numpy(), state)
        if network.memory_size:
            expected, _, memory = network.step(rows, memory, deterministic=True)
            np.testing.assert_allclose(state, memory[:, : network.memory_size // 2], atol=1e-5)
        else:
            expected = network.act(rows, deterministic=True)[0]
        np.testing.assert_allclose(actions, expected, rtol=0.0, atol=1e-5)
        matches.step(expected.view(4, matches.seats, -1))
    matches.close()


SPACES = {
    "Pendulum-v1": {"continuous": 1, "binary": 0, "obs_dim": 3},
    "CartPole-v1": {"continuous": 0, "binary": 0, "categorical": 2, "obs_dim": 4},
    "several choices": {"continuous": 0, "binary": 0, "categorical": [3, 2, 4], "obs_dim": 5},
    "switches": {"continuous": 0, "binary": 3, "obs_dim": 5},
    "gsde": {"continuous": 2, "binary": 0, "obs_dim": 5},
}


@pytest.mark.parametrize(("case", "normalized"), [*((case, True) for case in SPACES), ("several choices", False)])
def test_gymnasium_is_exported_with_observation_statistics(case, normalized, tmp_path):
    """As in training, large means are subtracted from float32 observations in float64."""
    sizes = SPACES[case]
    draw, size = np.random.default_rng(0), sizes["obs_dim"]
    mean, spread = draw.uniform(-300.0, 300.0, size), draw.uniform(0.1, 40.0, size)
    normalizer = {"mean": mean.tolist(), "variance": (spread**2).tolist(), "count": 9.0 if normalized else 0.0}
    contract = {"id": case if case.endswith("v1") else "Own-v0", "version": 1, "normalizer": normalizer, **sizes}
    network = save(tmp_path / "final.pt", contract, gsde=case == "gsde")
    assert main(["--ckpt", str(tmp_path / "final.pt")]) == 0
    rows = draw.normal(size=(50, size))
    rows = (rows * spread + mean if normalized else rows).astype(np.float32)
    seen = np.clip((rows - mean) / np.sqrt(spread**2 + 1e-8), -10.0, 10.0) if normalized else rows
    expected = network.act(torch.from_numpy(seen).float(), deterministic=True)[0]
    data = (tmp_path / "final.onnx").read_bytes()
    actions, _ = run_recurrent(data, rows, np.zeros((50, 0), np.float32))
    np.testing.assert_allclose(actions, expected, rtol=0.0, atol=1e-5)
    assert len(np.unique(actions, axis=0)) > 1


def test_exported_gymnasium_run_acts_like_loaded_policy(tmp_path):
    place = [f"checkpoint_dir={tmp_path}", "name=small", "logger.progress=false", "device=cpu", "threads=1"]
    size = ["env.num_envs=2", "ppo.rollout_steps=32", "ppo.minibatch_size=32", "network.hidden=8", "max_updates=2"]
    final = train(load(["+run=gymnasium_continuous", *place, *size, "env.normalize_obs=true"]))
    assert main(["--ckpt", str(final)]) == 0
    policy, data = sparring.load(final), final.with_suffix(".onnx").read_bytes()
    rows = np.random.default_rng(1).normal(size=(30, *policy.observation_space.shape)).astype(np.float32)
    actions, _ = run_recurrent(data, rows, np.zeros((30, 0), np.float32))
    np.testing.assert_allclose(actions, policy.act(torch.from_numpy(rows)), rtol=0.0, atol=1e-5)
