"""What a run is built from: its device, its threads, and a seed for every use of chance."""

import subprocess
import sys
import time

import pytest
import torch

from sparring.agents.distributed.threads import set_threads
from sparring.agents.ppo import trainer as module
from sparring.agents.ppo.tasks import dogfight
from sparring.agents.ppo.trainer import SEED_USES, PPOTrainer, derive_seeds
from sparring.configs.core import status
from sparring.configs.core.device import choose_device, usable_cores
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import LoggerConfig
from tests.agents.ppo.small_run import config


@pytest.fixture(params=[0, 2], ids=["no GPU", "two GPUs"])
def gpus(request, monkeypatch):
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: request.param)
    return request.param


def test_auto_takes_the_first_gpu_where_there_is_one(gpus):
    assert choose_device("auto") == (torch.device("cuda", 0) if gpus else torch.device("cpu"))


def test_cpu_means_cpu(gpus):
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:1", 1), ("cuda:2", 2)])
def test_a_gpu_by_number(gpus, name, index):
    if index < gpus:
        assert choose_device(name) == torch.device("cuda", index)
        return
    with pytest.raises(ConfigError, match=rf"device={name}: this machine has {gpus} CUDA devices; use device=cpu"):
        choose_device(name)


def test_threads_are_those_asked_for_or_every_core():
    before = torch.get_num_threads()
    try:
        assert set_threads(3) == torch.get_num_threads() == 3
        assert set_threads(0) == usable_cores()
        assert (set_threads(6, halves=True), torch.get_num_threads()) == (6, 3)
        assert (set_threads(1, halves=True), torch.get_num_threads()) == (1, 1)
        assert torch.get_num_threads() == max(usable_cores() // 2, 1)
    finally:
        torch.set_num_threads(before)


def test_every_use_of_chance_has_its_own_seed():
    first, again, other = derive_seeds(1), derive_seeds(1), derive_seeds(2)
    assert first == again
    assert tuple(first) == SEED_USES
    assert len(set(first.values()) | set(other.values())) == 2 * len(SEED_USES)
    assert all(0 <= seed < 2**31 for seed in first.values())


@pytest.mark.parametrize("progress", [True, False])
def test_a_simulator_that_takes_long_to_load_is_explained_where_progress_is_shown(
    progress, tmp_path, monkeypatch, capsys
):
    make_batch = dogfight.make_batch

    def slowly(*arguments, **options):
        time.sleep(0.3)
        return make_batch(*arguments, **options)

    monkeypatch.setattr(status, "PATIENCE", 0.05)
    monkeypatch.setattr(dogfight, "make_batch", slowly)
    PPOTrainer(config(tmp_path, logger=LoggerConfig(progress=progress))).close()
    assert (status.COMPILING in capsys.readouterr().err) is progress


def test_learning_does_not_load_torchs_compiler():
    """It takes 0.8 s at every start. Adam's steps are torch's own, see `test_parity.py`."""
    code = """
import sys
import torch
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.learner import adam
from sparring.configs.schema import NetworkConfig
network = ActorCritic(3, 1, 1, NetworkConfig(hidden=8), seed=1)
optimizer = adam(network, 0.1)
before = network.log_std.item()
network.log_std.grad = torch.ones(1)
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
assert abs(before - network.log_std.item() - 0.1) < 1e-4
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
