"""Start and end of a run on a failing disk: one-line errors and a saved last state."""

import errno
import json
import os
import shutil

import pytest

from sparring import train as command
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.agents.run import folder, logger
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from tests.agents.ppo.small_run import config


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def last_state(root):
    return StateFolder(root / "small" / "state", 3, alert=pytest.fail).latest()


def events(root):
    return (root / "small" / "events.jsonl").read_text()


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Return a run with two of three updates done."""
    root = tmp_path_factory.mktemp("started")
    train(config(root, max_updates=2))
    return root


@pytest.fixture
def half(started, tmp_path):
    shutil.copytree(started / "small", tmp_path / "small")
    return tmp_path


def content(path):
    """Return weights and summary of a policy; its configuration names the folder."""
    policy = load_checkpoint(path)
    weights = {name: value.tolist() for name, value in policy.network.state_dict().items()}
    return weights, policy.training | {"config": None}


# ---- the start


@pytest.mark.parametrize("name", ["small", ""])
def test_unwritable_configuration_gives_one_line_and_no_folder(tmp_path, monkeypatch, capsys, name):
    small = config(tmp_path, name=name)
    monkeypatch.setattr(command, "load", lambda arguments: small)
    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_atomically", full)
        assert command.main(["seed=1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "config.yaml: cannot be written (No space left on device); free some space or set another" in error
    assert list(tmp_path.iterdir()) == []
    train(config(tmp_path, max_updates=1))  # the name is free


def test_uncreatable_folder_gives_one_line_error(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_make", full)
    with pytest.raises(
        InputError, match=r"no folder can be created in it \(No space left on device\); free space or use"
    ):
        train(config(tmp_path))


def test_pool_that_is_a_file_is_rejected_by_name(tmp_path):
    train(config(tmp_path, max_updates=1))
    shutil.rmtree(tmp_path / "small" / "pool")
    (tmp_path / "small" / "pool").write_text("")
    with pytest.raises(InputError, match=r"small/pool: is a file, and must be a folder; remove it"):
        train(config(tmp_path, max_updates=2))


# ---- the manifest of policies


def test_damaged_manifest_is_rebuilt_from_state_at_start(half):
    manifest = half / "small" / "manifest.json"
    before = json.loads(manifest.read_text())
    manifest.write_text("[")
    train(config(half, max_updates=2))
    assert json.loads(manifest.read_text()).keys() == before.keys()
    assert (half / "small" / "manifest.json.damaged").read_text() == "["
    assert "manifest.json: is damaged; it is kept as manifest.json.damaged and rebuilt with " in events(half)


def test_manifest_damaged_during_run_does_not_stop_training(half, monkeypatch):
    evaluate = PPOTrainer.evaluate

    def harm(trainer):
        (half / "small" / "manifest.json").write_text("[")
        return evaluate(trainer)

    monkeypatch.setattr(PPOTrainer, "evaluate", harm)
    final = train(config(half))
    assert last_state(half).summary["update"] == 3
    assert load_checkpoint(final).training["update"] == 3
    assert final.name in json.loads((half / "small" / "manifest.json").read_text())


# ---- the end


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("x")])
def test_final_state_is_saved_without_final_policy(half, monkeypatch, error):
    def fail(trainer, path, **_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(PPOTrainer, "save_policy", fail)
        expected = InputError if isinstance(error, OSError) else type(error)
        with pytest.raises(expected, match=r"final\.pt: cannot be written|x"):
            train(config(half, checkpoint_every=100))
    assert last_state(half).summary["update"] == 3
    assert content(train(config(half, checkpoint_every=100))) == content(train(config(half / "other")))


def test_final_state_is_saved_if_log_cannot_close(half, monkeypatch):
    def fail(sink):
        raise RuntimeError("a fault of the uploader")

    monkeypatch.setattr(logger.TensorBoard, "close", fail)
    train(config(half, checkpoint_every=100))
    assert last_state(half).summary["update"] == 3


def test_undeletable_files_do_not_make_state_look_unsaved(half, monkeypatch):
    monkeypatch.setattr(PPOTrainer, "_sweep", full)
    train(config(half))
    said = events(half)
    assert "no training state was saved" not in said
    assert "unneeded files remain (No space left on device)" in said
    assert last_state(half).summary["update"] == 3


def test_unsaved_final_state_is_error_but_policy_is_saved(half, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "publish", full)
        with pytest.raises(
            InputError, match=r"small/state: the last training state cannot be written; free some space"
        ):
            train(config(half))
    assert load_checkpoint(half / "small" / "final.pt").training["update"] == 3
    train(config(half))
    assert last_state(half).summary["update"] == 3
