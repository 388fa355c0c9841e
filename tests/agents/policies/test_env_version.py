"""Policies and runs of sparring/Dogfight-v0: refused with the reason and what to do; classic policies can still play.

tests/agents/golden/run_v0 is a run of that version, and checkpoint_1.pt a policy of it, left by the code of its time.
"""

import shutil
from pathlib import Path

import pytest
import torch

from sparring import train
from sparring.agents.play.matches import MatchSettings, play
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import (
    OldVersionError,
    admitted,
    is_old,
    load_checkpoint,
    old_version_message,
    save_checkpoint,
)
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.agents.run.session import RunSession
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import ENV_ID, VERSION

GOLDEN = Path(__file__).parents[1] / "golden"
OLD_RUN = GOLDEN / "run_v0"
OLD_POLICIES = {46: GOLDEN / "checkpoint_1.pt", 59: OLD_RUN / "final.pt"}
REASON = "whose scripted bots and challenge observations differed from the game they are named after"
WHY = f"was trained under sparring/Dogfight-v0, {REASON}"
QUICK = {"threads": 1, "max_ticks": 300}
sizes = pytest.mark.parametrize("size", OLD_POLICIES)


def setting(size, path):
    """Matches like those the recorded policy was trained in."""
    repeat = load_checkpoint(path).contract["action_repeat"]
    return MatchSettings(**QUICK, observe_physics=size == 59, action_repeat=repeat)


def todays(path):
    """The policy in `path` under the contract with which it plays today."""
    checkpoint = load_checkpoint(path)
    return Policy(checkpoint.network, admitted(checkpoint.contract, path), name=str(path))


def challenger(path):
    """A policy of the old version that was trained under challenge rules."""
    batch = DogfightBatch(1, threads=1, rules="challenge")
    contract = batch.contract | {"id": "sparring/Dogfight-v0", "version": 1, "mirror": False}
    network = ActorCritic(batch.obs_dim, 2, 1, NetworkConfig(hidden=4), seed=0)
    save_checkpoint(path, network, contract=contract, training={})
    return path


@sizes
def test_an_old_policy_is_refused_with_the_reason_and_what_to_do(size):
    path = OLD_POLICIES[size]
    policy = Policy.load(path)
    assert is_old(policy.contract)
    with pytest.raises(PolicyError) as refusal:
        play(policy, "ace", games=2, seed=0, setting=setting(size, path))
    advice = f"train a new policy under {ENV_ID}, or let this one play with eval/run.py --env-version 0"
    assert str(refusal.value) == f"{path}: {WHY}; {advice}" == old_version_message(path)


@sizes
def test_asked_for_it_plays_as_it_did(size):
    path = OLD_POLICIES[size]
    policy = todays(path)
    assert (policy.contract["id"], policy.contract["version"]) == (ENV_ID, VERSION)
    assert play(policy, "ace", games=2, seed=0, setting=setting(size, path)).games == 2
    obs = torch.linspace(-1.0, 1.0, 3 * size).reshape(3, size)
    assert torch.equal(policy.act(obs), Policy.load(path).act(obs))


def test_asked_for_it_is_still_refused_what_it_was_not_trained_for():
    policy = todays(OLD_POLICIES[59])
    for other in ({"rules": "challenge"}, {"observe_physics": False}, {"action_repeat": 1}):
        with pytest.raises(PolicyError, match=r"was trained with|observes 59"):
            policy.check(DogfightBatch(1, threads=1, **({"action_repeat": 120} | other)).contract)


def test_an_old_challenge_policy_never_plays(tmp_path):
    path = challenger(tmp_path / "final.pt")
    why = f"{WHY}: it learned from other numbers than {ENV_ID} shows and cannot play; train a new policy"
    with pytest.raises(OldVersionError) as refusal:
        todays(path)
    assert str(refusal.value) == f"{path}: {why}"
    with pytest.raises(PolicyError) as refusal:
        play(Policy.load(path), "ace", games=2, seed=0, setting=MatchSettings(**QUICK, rules="challenge"))
    assert str(refusal.value) == f"{path}: {why}"


def test_a_policy_of_today_passes_unchanged():
    contract = DogfightBatch(1, threads=1).contract | {"mirror": True}
    assert not is_old(contract)
    assert admitted(contract, "final.pt") == contract
    assert not is_old({"id": "sparring/Diplomacy-v0", "version": 1})


@pytest.fixture
def old_run(tmp_path):
    """The old run under checkpoints/, as its user has it."""
    shutil.copytree(OLD_RUN, tmp_path / "small")
    return tmp_path / "small"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "begin", ["resume=small", "name=small +run=quickstart", "name=small +run=bots_only trainer=sb3"]
)
def test_an_old_run_is_not_continued_and_left_as_it_is(old_run, capsys, begin):
    before = contents(old_run)
    assert train.main([*begin.split(), f"checkpoint_dir={old_run.parent}", "logger.progress=false"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    if "sb3" in begin:
        assert "name=small: was started, and trainer=sb3 cannot resume; choose another name" in line
    else:
        assert f"{old_run}: {WHY}, and cannot be resumed under {ENV_ID}; start a new run under another name=" in line
        assert "the old policies can play with eval/run.py --env-version 0" in line
    assert contents(old_run) == before


def test_every_process_of_a_run_is_refused_alike(old_run):
    """torchrun's processes do not look early."""
    config = load(["+run=quickstart", "name=small", f"checkpoint_dir={old_run.parent}"])
    with pytest.raises(ConfigError, match="cannot be resumed under"):
        RunSession(config, total=1)


def test_a_folder_in_which_the_old_version_trained_nothing_takes_a_new_run(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    shutil.copy(OLD_RUN / "config.yaml", folder)
    config = load(["+run=quickstart", "name=small", "logger.progress=false", f"checkpoint_dir={tmp_path}"])
    with RunSession(config, total=1) as session:
        assert session.folder.read_config()["env"]["id"] == ENV_ID
    assert session.changed["env.id"] == ("sparring/Dogfight-v0", ENV_ID)
