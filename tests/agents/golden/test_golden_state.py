"""Runs written by earlier code resume; a run in an unsupported format is rejected and kept.

tests/agents/golden holds a run of the present format of training states, written by the code of its time
(`record_golden_state.py`). What another machine computes may differ in the last digits, so nothing here compares
numbers that were computed.
"""

import json
import shutil

import pytest
import torch

from sparring import train
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.states import FORMAT_VERSION, MANIFEST, StateFolder, read_state
from tests.agents.golden.record_golden_state import GOLDEN

LATER, EARLIER = FORMAT_VERSION + 1, FORMAT_VERSION - 1


@pytest.fixture
def recorded(tmp_path):
    """Return a copy of the recorded run as a user would find it under checkpoints/."""
    shutil.copytree(GOLDEN / f"state_{FORMAT_VERSION}", tmp_path / "small")
    return RunFolder(tmp_path / "small")


def resume(folder, *options):
    return train.main(["resume=small", f"checkpoint_dir={folder.path.parent}", "logger.progress=false", *options])


def shapes(value, key=""):
    """Return the structure of a state by path, without numbers; lists of variable length are not opened."""
    if isinstance(value, torch.Tensor):
        return {key: (str(value.dtype), *value.shape)}
    if isinstance(value, dict):
        return {k: v for name, item in value.items() for k, v in shapes(item, f"{key}/{name}").items()} or {key: {}}
    return {key: type(value).__name__}


def test_golden_state_is_complete_and_described(recorded):
    state = read_state(recorded.state / "update_000002")
    expected = {"run": "small", "update": 2, "env_steps": 64, "phase": "transition", "num_envs": 4, "processes": 1}
    assert expected.items() <= state.summary.items()
    assert state.summary["config_sha256"] == recorded.fingerprint()
    assert sorted(state.summary["pool"]) == sorted(path.stem for path in recorded.pool.glob("*.pt"))
    assert state.content["updates"] == 2
    assert state.content["position"] == {"update": 2, "clock": 2, "since": 2}


def test_golden_state_is_small_and_names_no_local_folder(recorded):
    files = contents(recorded).values()
    assert sum(map(len, files)) < 150_000
    assert not any(folder in data for data in files for folder in (b"/tmp", b"/home", b"/root", b"/var"))


def test_golden_run_resumes_where_it_stopped(recorded, capsys):
    assert resume(recorded, "max_updates=3", "device=cpu", "threads=1") == 0
    said = capsys.readouterr().out
    assert "resumed after update 2 from update_000002" in said
    assert "option changed: max_updates was 2 and is 3" in said
    assert [path.name for path in StateFolder(recorded.state, 3, alert=pytest.fail).paths()] == ["update_000003"]
    rows = [json.loads(line) for line in (recorded.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [32, 64, 96]
    final = load_checkpoint(recorded.final).training
    assert (final["update"], final["phase"], final["interrupted"]) == (3, "selfplay", False)


def test_current_code_writes_recorded_format(recorded):
    """If this fails: raise FORMAT_VERSION, record a run of the new format, and read or reject this one."""
    before = read_state(recorded.state / "update_000002").content
    shutil.rmtree(recorded.state)  # without one the run starts from the first update
    assert resume(recorded, "device=cpu", "threads=1") == 0
    assert shapes(read_state(recorded.state / "update_000002").content) == shapes(before)


def contents(folder):
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"}


ANSWERS = {
    LATER: f"has format {LATER}, this Sparring reads {FORMAT_VERSION}; update it",
    EARLIER: f"has format {EARLIER}, but only {FORMAT_VERSION} is supported; start a new run with another",
}


@pytest.mark.parametrize("version", ANSWERS)
@pytest.mark.parametrize("others", [True, False])
def test_other_format_is_rejected_and_run_left_unchanged(recorded, capsys, version, others):
    """This holds for any other content of its manifest."""
    manifest = recorded.state / "update_000002" / MANIFEST
    plain = json.loads(manifest.read_text()) | {"format_version": version, "new": 1}
    manifest.write_text(json.dumps(plain if others else {key: plain[key] for key in ("format", "format_version")}))
    before = contents(recorded)
    assert resume(recorded) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"update_000002: {ANSWERS[version]}" in line
    assert contents(recorded) == before
