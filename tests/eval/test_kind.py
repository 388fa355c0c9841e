"""A policy of another game is refused by the commands of the dogfight at once, and told who plays it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from sparring.agents.policies.checkpoint import CheckpointError, save_checkpoint
from sparring.agents.policies.order_network import OrderNetwork
from sparring.configs.core.errors import InputError
from sparring.configs.schema import DIPLOMACY, DOGFIGHT, EnvConfig, NetworkConfig, RunConfig
from sparring.configs.serialization import to_plain
from sparring.eval.dogfight.players import load_policy
from sparring.eval.kind import check_dogfight

ROOT = Path(__file__).resolve().parents[2]


def run_of(folder, env_id):
    """A run's folder with a configuration and a file that stands for its policy: it is not read."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(to_plain(RunConfig(env=EnvConfig(id=env_id)))))
    (folder / "final.pt").touch()
    return folder / "final.pt"


def test_by_the_configuration_beside_it(tmp_path):
    check_dogfight("ace", run_of(tmp_path / "one", DOGFIGHT))
    other, third = run_of(tmp_path / "other", DIPLOMACY), run_of(tmp_path / "third", "CartPole-v1")
    hint = "; its games are played by eval/run.py --env diplomacy --ckpt$"
    with pytest.raises(InputError, match=rf"was trained in {DIPLOMACY}; this command takes only {DOGFIGHT}{hint}"):
        check_dogfight("ace", other)
    with pytest.raises(InputError, match=rf"was trained in CartPole-v1; this command takes only {DOGFIGHT}$"):
        check_dogfight(third)


@pytest.mark.parametrize("text", [None, "", "- 1", "env: 3", "{", "env: {num_envs: 4}"])
def test_without_a_configuration_that_says_so_its_own_file_decides(tmp_path, text):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    check_dogfight(tmp_path / "final.pt")


def test_by_its_own_file(tmp_path):
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1), seed=1)
    sizes = {"obs_dim": network.shape["obs_dim"], "continuous": 0, "binary": 0}
    contract = {"id": DIPLOMACY, "version": 1, "last_year": 1910, **sizes}
    save_checkpoint(tmp_path / "alone.pt", network, contract=contract, training={})
    with pytest.raises(CheckpointError, match=r"its games are played by eval/run.py --env diplomacy"):
        load_policy(tmp_path / "alone.pt", torch.device("cpu"))


@pytest.mark.parametrize("command", ["run", "payoff", "export"])
def test_the_commands_say_so_without_torch(tmp_path, command):
    path = run_of(tmp_path / "run", DIPLOMACY)
    code = f"import sys; sys.modules['torch'] = None; from sparring.eval import {command}; sys.exit({command}.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "--ckpt", path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert "its games are played by eval/run.py --env diplomacy --ckpt" in done.stderr
