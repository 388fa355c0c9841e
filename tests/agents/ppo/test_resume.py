"""An interrupted run resumes bit for bit from its newest valid state, never silently from the start."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.states import StateError
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.resume import drift
from sparring.configs.schema import NetworkConfig, PPOConfig
from tests.agents.ppo.small_run import STEPS, config, flat, long, metrics, state_of, untimed


@pytest.fixture(scope="module")
def whole(undisturbed, tmp_path_factory):
    """Return a copy of an uninterrupted run, started once more so its policy names this folder."""
    root = tmp_path_factory.mktemp("whole")
    shutil.copytree(undisturbed / "small", root / "small")
    train(long(root))
    return root


@pytest.mark.parametrize("cut", [1, 5])
def test_interrupted_run_resumes_bit_for_bit(whole, tmp_path, cut):
    """Interrupted in the first and last phase; test_callbacks covers three and four updates."""
    train(long(tmp_path, max_updates=cut))
    train(long(tmp_path))
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(metrics(tmp_path)) == untimed(metrics(whole))
    for name in ("final.pt", "before.pt", "best.pt"):
        weights = [load_checkpoint(root / "small" / name).network.state_dict() for root in (tmp_path, whole)]
        assert flat(weights[0]) == flat(weights[1])


def test_recurrent_run_resumes_bit_for_bit(tmp_path):
    """Its second update starts within matches with stored memories, and meets snapshots."""
    network = NetworkConfig(hidden=8, memory="lstm")
    short = PPOConfig(rollout_steps=STEPS, epochs=1, minibatch_size=64, sequence_length=4, precision="fp32")
    for name, cuts in (("whole", (0,)), ("cut", (2, 0))):
        for updates in cuts:
            train(config(tmp_path / name, network=network, ppo=short, max_updates=updates))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert state_of(cut) == state_of(whole)
    assert untimed(metrics(cut)) == untimed(metrics(whole))
    assert any(key.startswith("/duel/memories/opponents") for key in state_of(whole))


def test_two_threads_match_one_bit_for_bit(whole, tmp_path):
    """Also when interrupted: matches, actor and critic are distributed over threads, but sums are not split."""
    for updates in (4, 0):
        train(long(tmp_path, threads=2, max_updates=updates))
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(metrics(tmp_path)) == untimed(metrics(whole))


def test_evicted_snapshot_is_kept_while_state_needs_it(whole, tmp_path):
    train(replace(long(tmp_path), checkpoint_every=1))
    folder = tmp_path / "small"
    assert [row["name"] for row in json.loads((folder / "pool" / "index.json").read_text())] == names(5, 6, 7)
    assert sorted(path.stem for path in (folder / "pool").glob("*.pt")) == names(3, 5, 6, 7)
    for update in (7, 8):
        shutil.rmtree(folder / "state" / f"update_{update:06d}")
    train(replace(long(tmp_path), keep_states=1))
    assert state_of(tmp_path) == state_of(whole)
    assert sorted(path.stem for path in (folder / "pool").glob("*.pt")) == names(5, 6, 7)


def names(*updates):
    return [f"snapshot_{update:06d}" for update in updates]


def test_finished_run_has_nothing_to_do(whole, capsys):
    before = {path: path.read_bytes() for path in (whole / "small").glob("*.pt")}
    train(long(whole))
    said = "nothing left to do: 8 updates done, 8 asked for by the schedule; to continue, set phases.2."
    assert said in capsys.readouterr().out
    assert {path: path.read_bytes() for path in (whole / "small").glob("*.pt")} == before


@pytest.fixture(scope="module")
def three_updates(tmp_path_factory):
    root = tmp_path_factory.mktemp("three")
    train(replace(long(root, max_updates=3), checkpoint_every=1))
    return root


@pytest.fixture
def half(three_updates, tmp_path):
    """Return a run with states after updates 1, 2 and 3."""
    shutil.copytree(three_updates / "small", tmp_path / "small")
    return tmp_path


def states(root):
    return sorted(path.name for path in (root / "small" / "state").iterdir())


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_damaged_newest_state_is_set_aside_for_previous(whole, half, capsys):
    damage(half / "small" / "state" / "update_000003" / "state.pt")
    train(long(half))
    out = capsys.readouterr().out
    assert "alert: " in out
    assert "update_000003: is damaged, its SHA-256 is not the one in manifest.json; it is kept as" in out
    assert "resumed after update 2 from update_000002" in out
    assert "update_000003.damaged" in states(half)
    assert state_of(half) == state_of(whole)
    alerts = [json.loads(line) for line in (half / "small" / "events.jsonl").read_text().splitlines()]
    assert any(row["kind"] == "alert" and "damaged" in row["event"] for row in alerts)


@pytest.mark.parametrize("file", ["state.pt", "manifest.json"])
def test_run_with_only_damaged_states_is_rejected_every_time(half, file):
    for path in (half / "small" / "state").iterdir():
        (path / file).write_bytes(b"") if path.name.endswith("1") else (path / file).unlink()
    for _ in range(2):
        with pytest.raises(StateError, match="all its states are damaged; start a new run with another name="):
            train(long(half))
    assert len(metrics(half)) == 3


def test_run_without_state_restarts_with_message(whole, half, capsys):
    shutil.rmtree(half / "small" / "state")
    train(long(half))
    assert "there is no training state yet: the run starts from the beginning" in capsys.readouterr().out
    assert state_of(half) == state_of(whole)


def test_rejected_start_frees_name_for_other_configuration(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sparring.agents.run.session.Guard", refuse)
        with pytest.raises(InputError, match="refused late"):
            train(long(tmp_path))
    train(long(tmp_path, seed=7, max_updates=1))
    assert len(metrics(tmp_path)) == 1
    assert RunFolder(tmp_path / "small").read_config()["seed"] == 7


def refuse(*_, **__):
    raise InputError("refused late")


def test_harmless_changes_are_reported_on_resume(half, capsys):
    train(replace(long(half), max_updates=4, keep_states=2))
    out = capsys.readouterr().out
    assert "option changed: max_updates was 3 and is 4" in out
    assert "option changed: keep_states was 3 and is 2" in out
    assert "inexact" not in out
    assert len(states(half)) == 2


def test_other_number_of_matches_resumes_inexactly(half, capsys):
    small = long(half)
    train(replace(small, env=replace(small.env, num_envs=16), max_updates=4))
    out = capsys.readouterr().out
    assert "inexact resume: num_envs was 8 and is 16" in out
    assert load_checkpoint(half / "small" / "final.pt").training["update"] == 4


def test_saving_by_clock_does_not_change_training(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.agents.run.session.STATE_SECONDS", 0.0)
    train(long(tmp_path))
    assert len(states(tmp_path)) == 3
    assert state_of(tmp_path) == state_of(whole)


def test_deterministic_is_noop_on_cpu_and_may_change_on_resume(tmp_path):
    torch.use_deterministic_algorithms(False)  # another run of this process may have set it
    try:
        weights = [
            load_checkpoint(train(config(tmp_path / str(wanted), deterministic=wanted))).network.state_dict()
            for wanted in (False, True)
        ]
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert drift(config(tmp_path), config(tmp_path, deterministic=True)) == {"deterministic": (False, True)}
