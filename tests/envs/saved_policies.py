"""A folder of small untrained checkpoints in place of checkpoints/, and the shared browser."""

import sys

import pytest
import torch

from sparring.agents.opponents import players
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.rules import ENV_ID, VERSION

CONTRACT = {
    "id": ENV_ID,
    "version": VERSION,
    "rules": "classic",
    "obs_dim": 59,
    "observe_physics": True,
    "continuous": 2,
    "binary": 1,
    "action_repeat": 10,
    "mirror": False,
}


@pytest.fixture(scope="session", autouse=True)
def shared_browser():
    """Close the shared browser if one was opened."""
    yield
    if module := sys.modules.get("tests.eval.browser.browser"):
        module.close_shared()


@pytest.fixture
def long_steps(monkeypatch):
    """Let policies act once per second, so matches take a twelfth of the steps."""
    monkeypatch.setitem(CONTRACT, "action_repeat", 120)


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    monkeypatch.setattr(players, "ROOT", tmp_path)
    monkeypatch.setattr(players, "CHECKPOINTS", folder)
    return folder


@pytest.fixture
def make_checkpoint(checkpoints):
    """Save an untrained policy as `name` and return its path; its actions are far from zero."""

    def make(name="pupil/final.pt", *, hidden=8, blocks=0, memory="none", seed=1, gain=100.0, **contract):
        agreed = CONTRACT | contract
        config = NetworkConfig(hidden=hidden, blocks=blocks, memory=memory)
        network = build_network(shape_for(agreed, config), seed=seed)
        head = network.actor[-1] if memory == "none" else network.actor[0].head
        with torch.no_grad():
            head.weight.mul_(gain)
        path = checkpoints / name
        path.parent.mkdir(exist_ok=True)
        save_checkpoint(path, network, contract=agreed, training={"run": path.parent.name, "env_steps": 7})
        return path

    return make
