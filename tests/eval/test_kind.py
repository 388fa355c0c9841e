"""Detecting the game of a command line, and rejecting policies of other games."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from sparring.agents.opponents import players
from sparring.agents.opponents.players import check_game
from sparring.agents.policies.checkpoint import CheckpointError, save_checkpoint
from sparring.configs import opponents
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import pack
from sparring.configs.games import DOGFIGHT, DOGFIGHT_V0
from sparring.configs.schema import NetworkConfig
from sparring.configs.serialization import from_plain, to_plain
from sparring.envs import dogfight
from sparring.envs.diplomacy.config import DIPLOMACY
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.dogfight.training.opponents.load import load_policy
from sparring.eval.run import env_of

ROOT = Path(__file__).resolve().parents[2]


def run_of(folder, env_id):
    """Create a run folder with a configuration and an unread policy file."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(to_plain(from_plain({"env": {"id": env_id}}))))
    (folder / "final.pt").touch()
    return folder / "final.pt"


def test_game_follows_neighbouring_configuration(tmp_path):
    check_game(dogfight.GAME, "ace", run_of(tmp_path / "one", DOGFIGHT))
    other, third = run_of(tmp_path / "other", DIPLOMACY), run_of(tmp_path / "third", "CartPole-v1")
    hint = "; its games are played by eval/run.py --env diplomacy --ckpt$"
    with pytest.raises(InputError, match=rf"was trained in {DIPLOMACY}; this command accepts only {DOGFIGHT}{hint}"):
        check_game(dogfight.GAME, "ace", other)
    with pytest.raises(InputError, match=rf"was trained in CartPole-v1; this command accepts only {DOGFIGHT}$"):
        check_game(dogfight.GAME, third)


@pytest.mark.parametrize("text", [None, "", "- 1", "env: 3", "{", "env: {num_envs: 4}"])
def test_game_follows_policy_file_without_configuration(tmp_path, text):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    check_game(dogfight.GAME, tmp_path / "final.pt")


def test_game_follows_policy_file(tmp_path):
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1), seed=1)
    sizes = {"obs_dim": network.shape["obs_dim"], "continuous": 0, "binary": 0}
    contract = {"id": DIPLOMACY, "version": 1, "last_year": 1910, **sizes}
    save_checkpoint(tmp_path / "alone.pt", network, contract=contract, training={})
    with pytest.raises(CheckpointError, match=r"its games are played by eval/run.py --env diplomacy"):
        load_policy(tmp_path / "alone.pt", torch.device("cpu"))


def test_commands_report_game_without_torch(tmp_path):
    path = run_of(tmp_path / "run", "CartPole-v1")
    code = "import sys; sys.modules['torch'] = None; from sparring.eval import payoff\n"
    code += "print(payoff.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--ckpt", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "2\n"
    assert done.stderr.count("\n") == 1
    assert "compare the returns of runs with eval/seeds.py" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        ("", "dogfight"),
        ("--ladder", "dogfight"),
        ("--help", "dogfight"),
        ("--env diplomacy --help", "diplomacy"),
        ("--env dogfight --ckpt dumb-fox", "dogfight"),
        ("--ckpt no-such-run --env gymnasium", "gymnasium"),
        ("--ckpt no-such-run --help", "dogfight"),
        ("--ckpt bot:ace", "dogfight"),
        ("--ckpt bot:dumbbot", "diplomacy"),
        ("--bot chaos", "diplomacy"),
        ("--ladder --opponents chaos,random", "diplomacy"),
        ("--ladder --opponents ace brawler", "dogfight"),
        ("--league RUN", "diplomacy"),
        ("--ckpt tiny --opponents ace", "diplomacy"),
        ("--ckpt http://127.0.0.1:8000/v1", "diplomacy"),
        ("--ckpt gray-wolf", "diplomacy"),
        ("--ckpt dumb-fox", "diplomacy"),
        ("--ckpt dumb-fox/final.pt --seed 3", "diplomacy"),
        ("--ckpt old-hawk", "dogfight"),
        ("--ckpt cart", "gymnasium"),
        ("--ckpt released/diplomacy_x", "diplomacy"),
        ("--ckpt released/dogfight_x.pt", "dogfight"),
        ("--ckpt agent.onnx", "dogfight"),
        ("--ckpt bare.pt", "diplomacy"),
    ],
)
def test_game_follows_player(tmp_path, monkeypatch, arguments, env):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    for run, env_id in (("dumb-fox", DIPLOMACY), ("old-hawk", DOGFIGHT_V0), ("cart", "CartPole-v1")):
        run_of(tmp_path / run, env_id)
    (tmp_path / "gray-wolf" / "final").mkdir(parents=True)
    (tmp_path / "released").mkdir()
    for name in ("gray-wolf/final/config.json", "released/diplomacy_x.pt", "released/dogfight_x.pt", "agent.onnx"):
        (tmp_path / name).touch()
    (tmp_path / "bare.pt").write_bytes(pack({"contract": {"id": DIPLOMACY}}))
    assert env_of(arguments.split()) == env


def test_object_plays_game_of_opponents_or_dogfight(monkeypatch):
    monkeypatch.setattr(opponents, "_registered", {"registered-one": object()})
    for player in ("registered-one", "my_bots:Mine"):
        assert env_of(["--ckpt", player]) == "dogfight"
        assert env_of(["--ckpt", player, "--opponents", "ace,chaser"]) == "dogfight"
        assert env_of(["--ckpt", player, "--opponents", "dumbbot"]) == "diplomacy"


def test_unknown_name_lists_runs_of_all_games(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    run_of(tmp_path / "dumb-fox", DIPLOMACY)
    with pytest.raises(InputError, match="did you mean 'dumb-fox'"):
        env_of(["--ckpt", "dum-fox"])
    with pytest.raises(InputError, match=r"unknown game 'dogfigt'.*did you mean 'dogfight'"):
        env_of(["--env", "dogfigt"])
