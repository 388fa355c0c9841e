"""Checkpoints: round trips, damage, foreign content, and old versions on request."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from sparring import train
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import (
    CheckpointError,
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
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import ENV_ID, VERSION
from sparring.envs.dogfight.training.matches import MatchSettings, play

CONTRACT = {
    "id": "sparring/Dogfight-v1",
    "version": 2,
    "rules": "classic",
    "obs_dim": 59,
    "observe_physics": True,
    "continuous": 2,
    "binary": 1,
    "action_repeat": 10,
    "mirror": False,
}
GOLDEN = Path(__file__).parents[1] / "golden"
"""A file of the format before today's, written by the code of its time."""
TRAINING = {"run": "dark-ghost-quickstart", "env_steps": 1000, "updates": 2}


def network(seed=0, hidden=8):
    return ActorCritic(59, 2, 1, NetworkConfig(hidden=hidden), seed=seed)


def saved(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, network(), contract=CONTRACT, training=TRAINING)
    if changes:
        rewrite(path, **changes)
    return path


def rewrite(path, **changes):
    """Change the file's content, keeping it well-formed and without a manifest entry."""
    content = unpack(path.read_bytes()) | changes
    path.write_bytes(pack(content))
    (path.parent / "manifest.json").unlink()


def flip_bit(path):
    """Change one bit of one weight."""
    data = bytearray(path.read_bytes())
    data[data.index(network().actor[0].weight.detach().numpy().tobytes()) + 6] ^= 1
    path.write_bytes(bytes(data))


def test_policy_round_trips_with_contract_and_training(tmp_path):
    checkpoint = load_checkpoint(saved(tmp_path / "final.pt"))
    assert (checkpoint.contract, checkpoint.training) == (CONTRACT, TRAINING)
    assert checkpoint.path == tmp_path / "final.pt"
    assert not checkpoint.network.training
    obs = torch.linspace(-1.0, 1.0, 59).expand(3, 59)
    expected = network().act(obs, deterministic=True)[0]
    assert torch.equal(checkpoint.network.act(obs, deterministic=True)[0], expected)


def test_plain_torch_loads_file_without_running_code(tmp_path):
    content = torch.load(saved(tmp_path / "final.pt"), weights_only=True)
    assert content["format_version"] == 2
    assert content["shape"] == network().shape
    assert content["weights"].keys() == network().state_dict().keys()


def test_only_file_and_manifest_are_written(tmp_path):
    saved(saved(tmp_path / "final.pt"))
    assert sorted(os.listdir(tmp_path)) == ["final.pt", "manifest.json"]
    assert list(json.loads((tmp_path / "manifest.json").read_text())) == ["final.pt"]


def test_crash_while_saving_keeps_old_policy_loadable(tmp_path, monkeypatch):
    path, replace = saved(tmp_path / "final.pt"), os.replace

    def crash_on_the_policy(source, target):
        if str(target) == str(path):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", crash_on_the_policy)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, network(seed=1), contract=CONTRACT, training=TRAINING)
    assert torch.equal(load_checkpoint(path).network.actor[0].weight, network().actor[0].weight)


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize("with_manifest", [True, False])
@pytest.mark.parametrize("damage", [cut, flip_bit])
def test_damaged_file_is_rejected(tmp_path, damage, with_manifest):
    path = saved(tmp_path / "final.pt")
    damage(path)
    if not with_manifest:
        (tmp_path / "manifest.json").unlink()
    kinds = "damaged|truncated" if damage is cut else "damaged"
    with pytest.raises(CheckpointError, match=rf"final\.pt: is ({kinds})"):
        load_checkpoint(path)


def test_valid_file_that_is_not_listed_is_rejected(tmp_path):
    path = saved(tmp_path / "final.pt")
    path.write_bytes(pack({"weights": network(seed=1).state_dict()}))
    with pytest.raises(CheckpointError, match=r"SHA-256 is not the one in manifest\.json"):
        load_checkpoint(path)


def test_other_file_is_rejected_as_checkpoint(tmp_path):
    text = tmp_path / "notes.pt"
    text.write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes\.pt: is not a file of tensors"):
        load_checkpoint(text)
    tensors = tmp_path / "tensors.pt"
    tensors.write_bytes(pack({"weights": {"w": torch.zeros(1)}}))
    with pytest.raises(CheckpointError, match=r"tensors\.pt: is not a Sparring checkpoint"):
        load_checkpoint(tensors)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"format": "sparring-adapter", "version": 1, "base": "x", "shape": {}, "training": {}, "weights": {}},
            "is an adapter of a language model, not a policy's network; evaluate it with eval/run.py --env ",
        ),
        ({"updates": 2, "learner": {}, "logger": {}}, "is a training state, not a policy; pass the run's name or "),
        ({"shape": {}, "weights": {}}, "is a snapshot of a run's pool, which only that run can use; pass "),
    ],
)
def test_other_run_file_is_named(tmp_path, content, words):
    """The keys are those written by runs of each trainer."""
    (tmp_path / "file.pt").write_bytes(pack(content))
    with pytest.raises(CheckpointError, match=re.escape(f"file.pt: {words}")):
        load_checkpoint(tmp_path / "file.pt")


def test_format_1_file_still_plays_identically():
    checkpoint = load_checkpoint(GOLDEN / "checkpoint_1.pt")
    assert unpack(checkpoint.path.read_bytes())["format_version"] == 1
    old = {"id": "sparring/Dogfight-v0", "version": 1, "obs_dim": 46, "observe_physics": False}
    assert checkpoint.contract == CONTRACT | old
    actions = Policy(checkpoint.network, checkpoint.contract).act(torch.linspace(-1, 1, 46).unsqueeze(0))
    torch.testing.assert_close(actions, torch.tensor([[-0.0039, 0.0036, 0.0]]), rtol=0, atol=1e-4)


OTHER_DIM = CONTRACT | {"obs_dim": 46}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"format_version": version}, "is not a Sparring checkpoint") for version in (0, -1, "1", None, 1.0)),
        ({"format_version": 3}, "has format 3, this Sparring reads up to 2; update it"),
        ({"shape": network(hidden=16).shape}, r"weights.actor.0.weight: has shape \(8, 59\)"),
        ({"shape": network().shape | {"heads": 3}}, r"shape\.heads: is unknown"),
        ({"contract": OTHER_DIM}, r"final\.pt: obs_dim is 46 in the contract, 59 in the network"),
        ({"contract": {key: CONTRACT[key] for key in CONTRACT if key != "rules"}}, "its contract lacks rules"),
        ({"contract": None}, "contract=None: must be"),
    ],
)
def test_invalid_file_content_gives_one_line_error(tmp_path, changes, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(saved(tmp_path / "final.pt", **changes))
    assert "\n" not in str(caught.value)


def test_broken_manifest_is_named(tmp_path):
    path = saved(tmp_path / "final.pt")
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"manifest\.json: is not a manifest"):
        load_checkpoint(path)


def test_path_can_be_str(tmp_path):
    path = saved(tmp_path / "final.pt")
    assert Policy.load(str(path)).name == str(path)
    assert load_checkpoint(str(path)).path == path
    with pytest.raises(CheckpointError, match=r"none\.pt: no such checkpoint"):
        Policy.load(str(tmp_path / "none.pt"))


OLD_RUN = GOLDEN / "run_v0"
OLD_POLICIES = {46: GOLDEN / "checkpoint_1.pt", 59: OLD_RUN / "final.pt"}
REASON = "whose scripted bots and challenge observations differed from the game they are named after"
WHY = f"was trained under sparring/Dogfight-v0, {REASON}"
QUICK = {"threads": 1, "max_ticks": 300}
sizes = pytest.mark.parametrize("size", OLD_POLICIES)


def setting(size, path):
    """Return matches like those the recorded policy was trained in."""
    repeat = load_checkpoint(path).contract["action_repeat"]
    return MatchSettings(**QUICK, observe_physics=size == 59, action_repeat=repeat)


def todays(path):
    """Return the policy in `path` under the contract it uses today."""
    checkpoint = load_checkpoint(path)
    return Policy(checkpoint.network, admitted(checkpoint.contract, path), name=str(path))


def challenger(path):
    """Return a policy of the old version trained under challenge rules."""
    batch = DogfightBatch(1, threads=1, rules="challenge")
    contract = batch.contract | {"id": "sparring/Dogfight-v0", "version": 1, "mirror": False}
    network = ActorCritic(batch.obs_dim, 2, 1, NetworkConfig(hidden=4), seed=0)
    save_checkpoint(path, network, contract=contract, training={})
    return path


@sizes
def test_old_policy_is_rejected_with_reason_and_fix(size):
    path = OLD_POLICIES[size]
    policy = Policy.load(path)
    assert is_old(policy.contract)
    with pytest.raises(PolicyError) as refusal:
        play(policy, "ace", games=2, seed=0, setting=setting(size, path))
    advice = f"train a new policy under {ENV_ID}, or let this one play with eval/run.py --env-version 0"
    assert str(refusal.value) == f"{path}: {WHY}; {advice}" == old_version_message(path)


@sizes
def test_old_policy_opened_for_current_version_plays_as_before(size):
    path = OLD_POLICIES[size]
    policy = todays(path)
    assert (policy.contract["id"], policy.contract["version"]) == (ENV_ID, VERSION)
    assert play(policy, "ace", games=2, seed=0, setting=setting(size, path)).games == 2
    obs = torch.linspace(-1.0, 1.0, 3 * size).reshape(3, size)
    assert torch.equal(policy.act(obs), Policy.load(path).act(obs))


def test_opened_old_policy_is_rejected_in_other_matches():
    policy = todays(OLD_POLICIES[59])
    for other in ({"rules": "challenge"}, {"observe_physics": False}, {"action_repeat": 1}):
        with pytest.raises(PolicyError, match=r"was trained with|observes 59"):
            policy.check(DogfightBatch(1, threads=1, **({"action_repeat": 120} | other)).contract)


def test_old_challenge_policy_never_plays(tmp_path):
    path = challenger(tmp_path / "final.pt")
    why = f"{WHY}: it learned from other numbers than {ENV_ID} shows and cannot play; train a new policy"
    with pytest.raises(OldVersionError) as refusal:
        todays(path)
    assert str(refusal.value) == f"{path}: {why}"
    with pytest.raises(PolicyError) as refusal:
        play(Policy.load(path), "ace", games=2, seed=0, setting=MatchSettings(**QUICK, rules="challenge"))
    assert str(refusal.value) == f"{path}: {why}"


def test_current_policy_is_unchanged():
    contract = DogfightBatch(1, threads=1).contract | {"mirror": True}
    assert not is_old(contract)
    assert admitted(contract, "final.pt") == contract
    assert not is_old({"id": "sparring/Diplomacy-v0", "version": 1})


@pytest.fixture
def old_run(tmp_path):
    """Return the old run under checkpoints/, as its user has it."""
    shutil.copytree(OLD_RUN, tmp_path / "small")
    return tmp_path / "small"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "begin", ["resume=small", "name=small +run=quickstart", "name=small +run=bots_only trainer=sb3"]
)
def test_old_run_is_not_resumed_and_left_unchanged(old_run, error_line, begin):
    before = contents(old_run)
    line = error_line(train.main, [*begin.split(), f"checkpoint_dir={old_run.parent}", "logger.progress=false"])
    if "sb3" in begin:
        assert "name=small: was started, and trainer=sb3 cannot resume; choose another name" in line
    else:
        assert f"{old_run}: {WHY}, and cannot be resumed under {ENV_ID}; start a new run under another name=" in line
        assert "the old policies can play with eval/run.py --env-version 0" in line
    assert contents(old_run) == before


def test_every_process_rejects_old_run(old_run):
    """torchrun's other processes skip the early check."""
    config = load(["+run=quickstart", "name=small", f"checkpoint_dir={old_run.parent}"])
    with pytest.raises(ConfigError, match="cannot be resumed under"):
        RunSession(config, total=1)


def test_untrained_old_folder_accepts_new_run(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    shutil.copy(OLD_RUN / "config.yaml", folder)
    config = load(["+run=quickstart", "name=small", "logger.progress=false", f"checkpoint_dir={tmp_path}"])
    with RunSession(config, total=1) as session:
        assert session.folder.read_config()["env"]["id"] == ENV_ID
    assert session.changed["env.id"] == ("sparring/Dogfight-v0", ENV_ID)
