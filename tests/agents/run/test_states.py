"""Training states: atomic writes, a readable manifest, and retention. For reading see the resume tests."""

import json

import pytest
import torch

from sparring.agents.run.states import FORMAT_VERSION, StateFolder


def content(value):
    return {"w": torch.full((1000,), float(value)), "n": [value]}


def folder(path, keep=3):
    return StateFolder(path / "state", keep, alert=pytest.fail)


def published(path, updates, keep=3):
    states = folder(path, keep)
    for update in updates:
        states.publish(update, content(update), {"update": update, "pool": [f"s{update}"]})
    return states


def test_manifest_is_readable_without_torch(tmp_path):
    published(tmp_path, [5])
    manifest = json.loads((tmp_path / "state" / "update_000005" / "manifest.json").read_text())
    size = (tmp_path / "state" / "update_000005" / "state.pt").stat().st_size
    assert (manifest["format"], manifest["format_version"]) == ("sparring-training-state", FORMAT_VERSION)
    assert (manifest["bytes"], len(manifest["sha256"])) == (size, 64)
    assert manifest["summary"] == {"update": 5, "pool": ["s5"]}


def test_newest_state_is_loaded_and_oldest_are_deleted(tmp_path):
    states = published(tmp_path, [5, 10, 15, 20])
    assert [path.name for path in states.paths()] == ["update_000010", "update_000015", "update_000020"]
    assert [summary["update"] for summary in states.summaries()] == [10, 15, 20]
    found = states.latest()
    assert (found.content["n"], found.summary["update"], found.path) == ([20], 20, states.paths()[-1])
    assert torch.equal(found.content["w"], content(20)["w"])


def test_seven_digit_number_is_newer_than_six_digit(tmp_path):
    states = published(tmp_path, [500_000, 1_000_003], keep=1)
    assert [path.name for path in states.paths()] == ["update_1000003"]
    assert states.latest().content["n"] == [1_000_003]


def test_publishing_state_twice_replaces_first(tmp_path):
    states = published(tmp_path, [5, 5])
    assert len(states.paths()) == 1
    assert states.latest().content["n"] == [5]


def test_partial_states_are_ignored_and_removed(tmp_path):
    states = published(tmp_path, [5])
    (tmp_path / "state" / ".update_000010.abc.tmp").mkdir()
    assert len(states.paths()) == 1
    states.clean()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["update_000005"]
