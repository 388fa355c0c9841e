"""Truncated and bit-flipped files of every kind: rejected by name, or read with unchanged content.

A listed file is checked as a whole, so a sample of places would do; the others depend on what is checked inside them,
and their samples are larger. A seed of its own for every kind of file makes a failure come again.
"""

import json
import random
import shutil

import pytest
import torch

from sparring.agents.run.states import StateError, StateFolder, read_state
from sparring.agents.trainers import train
from sparring.configs.core.archive import TensorFileError
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.load import load
from tests.agents.ppo.small_run import config


def damaged(data, samples, name):
    """Return many damaged versions of `data`: a flipped bit, truncation, zeros, a repeated stretch, extra bytes."""
    rng = random.Random(name)
    for _ in range(samples):
        at = rng.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    for _ in range(samples // 4):
        at, length = rng.randrange(len(data)), rng.randrange(1, 65)
        yield data[:at]
        yield data[:at] + bytes(min(length, len(data) - at)) + data[at + length :]
        yield data[: at + length] + data[at:]
    yield data + b"\0" * 100


def plain(value):
    """Return the exact content: tensors by type, shape and bits."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().contiguous().view(-1).view(torch.uint8) if value.numel() else value
        return str(value.dtype), tuple(value.shape), flat.tolist()
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    return repr(value)


def check(file, read, expected, error, samples=100):
    """Every wrong version of `file` makes `read` raise `error` in one line naming a file, or give what is expected."""
    whole, noticed = file.read_bytes(), 0
    for data in damaged(whole, samples, file.name):
        file.write_bytes(data)
        try:
            found = read()
        except error as caught:
            found = str(caught)
            noticed += 1
        names_it = isinstance(found, str) and str(file.parent) in found and "\n" not in found
        assert found == expected or names_it
    file.write_bytes(whole)
    assert read() == expected
    assert noticed > samples / 4, "what was done to the file was hardly ever noticed"


def test_damaged_tensor_file_of_any_kind_is_detected():
    content = {"a": torch.arange(5), "b": [torch.ones(2, dtype=torch.float64), None, 2**70], "c": {"d": "text"}}
    whole, expected = pack(content), plain(unpack(pack(content)))
    for data in damaged(whole, 300, "tensors"):
        try:
            assert plain(unpack(data)) == expected
        except TensorFileError:
            continue


@pytest.fixture
def states(tmp_path):
    folder = StateFolder(tmp_path / "state", 3, alert=lambda text: None)
    folder.publish(5, {"w": torch.arange(30.0), "n": [5]}, {"update": 5, "num_envs": 8, "phase": "a", "pool": ["s"]})
    return folder


def state(path):
    found = read_state(path)
    return plain(found.content), found.summary


@pytest.mark.parametrize("name", ["state.pt", "manifest.json"])
def test_damaged_training_state_is_rejected_or_unchanged(states, name):
    path = states.paths()[0]
    check(path / name, lambda: state(path), state(path), StateError)


def test_run_ignores_pool_index_and_league_files(tmp_path):
    """A state contains both; the content of these files is overwritten."""
    train(config(tmp_path, max_updates=3, checkpoint_every=1))
    files = [tmp_path / "small" / name for name in ("pool/index.json", "league.json")]
    before = [file.read_text() for file in files]
    fewer = json.dumps(json.loads(before[0])[:1])
    for text in (fewer, "[]"):
        for file in files:
            file.write_text(text)
        train(config(tmp_path, checkpoint_every=1, max_updates=3))
        assert [file.read_text() for file in files] == before
    index = files[0]
    other_name = before[0].replace('"update": ', '"update": 1')
    for text in ("[", "null", "[" * 100_000, other_name):
        index.write_text(text)
        train(config(tmp_path, checkpoint_every=1, max_updates=3))
        assert index.read_text() == before[0]
        assert (index.parent / "index.json.damaged").read_text() == text
        events = (tmp_path / "small" / "events.jsonl").read_text()
        assert (
            "is not a pool index; it is kept as index.json.damaged and written again from the training state" in events
        )
    index.unlink()
    train(config(tmp_path, checkpoint_every=1))
    assert index.read_text() == before[0]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Return a run with one update done."""
    root = tmp_path_factory.mktemp("started")
    train(config(root, max_updates=1))
    return root


def test_run_is_not_resumed_with_other_configuration(started, tmp_path):
    shutil.copytree(started / "small", tmp_path / "small")
    stored, state = tmp_path / "small" / "config.yaml", tmp_path / "small" / "state" / "update_000001"
    stored.write_text(stored.read_text().replace("learning_rate: 0.0003", "learning_rate: 0.0007"))
    before = state.stat().st_mtime_ns
    with pytest.raises(ConfigError, match=r"config\.yaml: differs from the run's original; restore it"):
        train(load(["resume=small", f"checkpoint_dir={tmp_path}", "max_updates=2"]))
    assert state.stat().st_mtime_ns == before
    stored.write_text("# a comment\n" + stored.read_text().replace("0.0007", "3.0e-4"))
    train(load(["resume=small", f"checkpoint_dir={tmp_path}", "max_updates=2"]))


def test_truncated_opponent_name_is_rejected_with_file_to_restore(started, tmp_path):
    """A truncated name could be a Python object registered by the script that started the run."""
    shutil.copytree(started / "small", tmp_path / "small")
    stored = tmp_path / "small" / "config.yaml"
    text = stored.read_text()
    stored.write_text(text[: text.index("do_nothing") + len("do_n")])
    said = rf"its opponent do_n is neither a run nor registered here; .*; if none does, restore {stored} \(every policy"
    with pytest.raises(InputError, match=said):
        load(["resume=small", f"checkpoint_dir={tmp_path}"])


def test_truncated_configuration_is_named_instead_of_differences(started, tmp_path):
    """Half a configuration file is still a valid configuration with default values."""
    shutil.copytree(started / "small", tmp_path / "small")
    stored = tmp_path / "small" / "config.yaml"
    text, now = stored.read_text(), load(["resume=small", f"checkpoint_dir={started}"])
    now.checkpoint_dir, now.resume = str(tmp_path), ""
    stored.write_text(text[: text.index("ppo:")])
    with pytest.raises(ConfigError, match=r"config\.yaml: differs from the run's original; restore it"):
        train(now)
    stored.unlink()
    with pytest.raises(
        InputError, match=r"config\.yaml: is missing; restore it \(every policy of the run contains a copy\)"
    ):
        train(now)


def test_flipped_digit_in_number_of_matches_is_detected(started, tmp_path):
    """With another number of matches they would restart, and the run would silently differ."""
    shutil.copytree(started / "small", tmp_path / "small")
    manifest = tmp_path / "small" / "state" / "update_000001" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"num_envs": 8', '"num_envs": 9'))
    with pytest.raises(StateError, match=r"manifest\.json: is damaged: its summary does not match its SHA-256"):
        read_state(manifest.parent)
    plain = json.loads(manifest.read_text())
    del plain["summary_sha256"]
    manifest.write_text(json.dumps(plain))
    with pytest.raises(StateError, match=r"manifest\.json: is (missing or )?damaged"):
        read_state(manifest.parent)
