"""Training states: whole or not there, a readable manifest, the last few kept. Reading: see the resume tests."""

import json
import resource
import signal

import pytest
import torch

from sparring.agents.run.states import FORMAT_VERSION, DamagedStateError, StateFolder, read_state


def content(value):
    return {"w": torch.full((1000,), float(value)), "n": [value]}


def folder(path, keep=3):
    return StateFolder(path / "state", keep, alert=pytest.fail)


def published(path, updates, keep=3):
    states = folder(path, keep)
    for update in updates:
        states.publish(update, content(update), {"update": update, "pool": [f"s{update}"]})
    return states


def test_the_manifest_is_readable_without_torch(tmp_path):
    published(tmp_path, [5])
    manifest = json.loads((tmp_path / "state" / "update_000005" / "manifest.json").read_text())
    size = (tmp_path / "state" / "update_000005" / "state.pt").stat().st_size
    assert (manifest["format"], manifest["format_version"]) == ("sparring-training-state", FORMAT_VERSION)
    assert (manifest["bytes"], len(manifest["sha256"])) == (size, 64)
    assert manifest["summary"] == {"update": 5, "pool": ["s5"]}


def test_the_newest_comes_back_and_the_oldest_go(tmp_path):
    states = published(tmp_path, [5, 10, 15, 20])
    assert [path.name for path in states.paths()] == ["update_000010", "update_000015", "update_000020"]
    assert [summary["update"] for summary in states.summaries()] == [10, 15, 20]
    found = states.latest()
    assert (found.content["n"], found.summary["update"], found.path) == ([20], 20, states.paths()[-1])
    assert torch.equal(found.content["w"], content(20)["w"])


def test_a_number_of_seven_digits_is_newer_than_one_of_six(tmp_path):
    states = published(tmp_path, [500_000, 1_000_003], keep=1)
    assert [path.name for path in states.paths()] == ["update_1000003"]
    assert states.latest().content["n"] == [1_000_003]


def test_none_were_ever_written(tmp_path):
    assert folder(tmp_path).latest() is None


def test_publishing_a_state_twice_replaces_the_first(tmp_path):
    states = published(tmp_path, [5, 5])
    assert len(states.paths()) == 1
    assert states.latest().content["n"] == [5]


def test_half_written_states_are_ignored_and_removed(tmp_path):
    states = published(tmp_path, [5])
    (tmp_path / "state" / ".update_000010.abc.tmp").mkdir()
    assert len(states.paths()) == 1
    states.clean()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["update_000005"]


def test_a_full_disk_leaves_earlier_states_readable(tmp_path):
    states = published(tmp_path, [5])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            states.publish(10, content(10), {"update": 10})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert states.latest().summary["update"] == 5
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["update_000005"]


@pytest.mark.parametrize("file", ["state.pt", "manifest.json"])
def test_every_truncation_is_noticed(tmp_path, file):
    path = published(tmp_path, [5]).paths()[0]
    data = (path / file).read_bytes()
    for keep in (0, 1, len(data) // 2, len(data) - 2):
        (path / file).write_bytes(data[:keep])
        with pytest.raises(DamagedStateError):
            read_state(path)
    (path / file).write_bytes(data)
    assert read_state(path).summary["update"] == 5


def test_another_summary_is_noticed(tmp_path):
    path = published(tmp_path, [5]).paths()[0]
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["summary"]["pool"] = ["s6"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        DamagedStateError, match=r"manifest\.json: is damaged, its summary is not the one that was written"
    ):
        read_state(path)


def test_every_flipped_bit_of_the_tensors_is_noticed(tmp_path):
    path = published(tmp_path, [5]).paths()[0]
    data = (path / "state.pt").read_bytes()
    for at in range(0, len(data), 97):
        (path / "state.pt").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(DamagedStateError, match="is damaged"):
            read_state(path)
