"""Runs that earlier code has left are continued by today's, and those that later code leaves are refused, not lost.

tests/agents/golden holds a run of every format of training states, written by the code of its time
(`record_golden_state.py`). What another machine computes may differ in the last digits, so nothing here compares
numbers that were computed.
"""

import json
import shutil

import pytest
import torch

import train
from agents.checkpoint import load_checkpoint
from agents.run_folder import RunFolder
from agents.state_folder import FORMAT_VERSION, MANIFEST, StateFolder, read_state
from tests.agents.ppo.record_golden_state import GOLDEN

RUNS = sorted(path.name for path in GOLDEN.glob("state_*"))
LATER = FORMAT_VERSION + 1


@pytest.fixture(params=RUNS)
def old(request, tmp_path):
    """A copy of a recorded run, as one finds it under checkpoints/."""
    return copied(request.param, tmp_path)


@pytest.fixture
def newest(tmp_path):
    return copied(f"state_{FORMAT_VERSION}", tmp_path)


def copied(name, root):
    shutil.copytree(GOLDEN / name, root / "small")
    return RunFolder(root / "small")


def resume(folder, *options):
    return train.main(["resume=small", f"checkpoint_dir={folder.path.parent}", "logger.progress=false", *options])


def shapes(value, key=""):
    """What a state holds, by path, without the numbers; lists, whose length is a matter of results, are not opened."""
    if isinstance(value, torch.Tensor):
        return {key: (str(value.dtype), *value.shape)}
    if isinstance(value, dict):
        return {k: v for name, item in value.items() for k, v in shapes(item, f"{key}/{name}").items()} or {key: {}}
    return {key: type(value).__name__}


def test_there_is_a_run_of_every_format():
    assert [f"state_{version}" for version in range(1, FORMAT_VERSION + 1)] == RUNS


def test_it_is_whole_and_says_what_it_is(old):
    state = read_state(old.state / "update_000002")
    expected = {"run": "small", "update": 2, "env_steps": 64, "phase": "transition", "num_envs": 4, "processes": 1}
    assert expected.items() <= state.summary.items()
    assert state.summary["config_sha256"] == old.fingerprint()
    assert sorted(f"{name}.pt" for name in state.summary["pool"]) == sorted(path.name for path in old.pool.glob("*.pt"))
    assert state.content["updates"] == 2
    assert state.content["position"] == {"update": 2, "clock": 2, "since": 2}


def test_it_is_small_and_names_no_folder_of_the_machine_it_comes_from(old):
    files = contents(old).values()
    assert sum(map(len, files)) < 150_000
    assert not any(folder in data for data in files for folder in (b"/tmp", b"/home", b"/root", b"/var"))


def test_the_run_goes_on_where_it_was(old, capsys):
    assert resume(old, "max_updates=3", "device=cpu", "threads=1") == 0
    said = capsys.readouterr().out
    assert "resumed after update 2 from update_000002" in said
    assert "option changed: max_updates was 2 and is 3" in said
    assert [path.name for path in StateFolder(old.state, 3, alert=pytest.fail).paths()] == ["update_000003"]
    rows = [json.loads(line) for line in (old.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [32, 64, 96]
    final = load_checkpoint(old.final).training
    assert (final["update"], final["phase"], final["interrupted"]) == (3, "selfplay", False)


def test_todays_code_writes_the_format_that_was_recorded(newest, tmp_path):
    """If not: raise FORMAT_VERSION, record a run of the new format, and go on reading this one."""
    recorded = read_state(newest.state / "update_000002").content
    shutil.rmtree(newest.state)  # without one the run begins anew
    assert resume(newest, "device=cpu", "threads=1") == 0
    written = read_state(newest.state / "update_000002").content
    assert shapes(written) == shapes(recorded)


def contents(folder):
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("others", [True, False])
def test_a_format_to_come_is_refused_and_nothing_is_begun_anew(newest, capsys, others):
    """Whatever else its manifest holds or lacks."""
    manifest = newest.state / "update_000002" / MANIFEST
    plain = json.loads(manifest.read_text()) | {"format_version": LATER, "new": 1}
    manifest.write_text(json.dumps(plain if others else {key: plain[key] for key in ("format", "format_version")}))
    before = contents(newest)
    assert resume(newest) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"update_000002: has format {LATER}, this Sparring reads up to {FORMAT_VERSION}; update it" in line
    assert contents(newest) == before
