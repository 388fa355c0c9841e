"""A run folder can be moved or copied: it stores no absolute path, and a copy reads its own adapters."""

import json
import shutil

import pytest

from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.run.states import StateFolder
from sparring.curriculum.league.file import LeagueFile
from tests.agents.language.grpo.small_runs import events, in_process, rows, run

OPTIONS = (
    *("grpo.steps=3", "grpo.buffer_depth=1", "league.checkpoint_every=1", "league.cold_start_steps=0"),
    *("league.self_play=0", "league.baseline=0", "league.peer=0.5", "league.exploitable=0.5"),
)


@pytest.fixture(scope="module", autouse=True)
def no_workers():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GRPOTrainer, "_new_players", in_process)
        yield


@pytest.fixture(scope="module")
def whole(toy, tmp_path_factory):
    return run(toy, tmp_path_factory.mktemp("whole"), "small", *OPTIONS)


@pytest.fixture(scope="module")
def started(toy, tmp_path_factory):
    """Return the run's folder after two steps, with unfinished plans against checkpoints."""
    return run(toy, tmp_path_factory.mktemp("started"), "small", *OPTIONS, "max_updates=2").parent


def newest(folder):
    return StateFolder(folder / "state", 3, alert=pytest.fail).latest()


def texts(value):
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in texts(part)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def test_run_files_contain_no_absolute_path(started):
    found = newest(started)
    stored = texts(found.content) + texts(found.summary)
    for name in ("league.json", "manifest.json"):
        stored += texts(json.loads((started / name).read_text()))
    plans = [job["plan"] for job in found.content["tasks"]]
    assert any(path.endswith(".pt") for plan in plans for _, path in plan["paths"])
    assert [text for text in stored if text.startswith("/") or str(started.parent) in text] == []


def test_moved_run_resumes_identically(toy, started, whole, tmp_path):
    shutil.copytree(started, tmp_path / "away" / "other")
    hidden = started.with_name("hidden")
    started.rename(hidden)
    try:
        moved = run(toy, tmp_path / "away", "other", *OPTIONS)
    finally:
        hidden.rename(started)
    assert rows(moved) == rows(whole)
    assert load_adapter(moved).weights.keys() == load_adapter(whole).weights.keys()
    assert all((load_adapter(moved).weights[key] == value).all() for key, value in load_adapter(whole).weights.items())
    assert '"alert"' not in events(moved)


def test_old_state_with_absolute_paths_resumes_after_move(toy, started, whole, tmp_path):
    shutil.copytree(started, tmp_path / "small")
    states = StateFolder(tmp_path / "small" / "state", 3, alert=pytest.fail)
    found = states.latest()
    for job in found.content["tasks"]:
        job["plan"]["paths"] = [[name, f"/gone/small/{path}"] for name, path in job["plan"]["paths"]]
    states.publish(found.summary["update"], found.content, found.summary)
    assert rows(run(toy, tmp_path, "small", *OPTIONS)) == rows(whole)


def test_inheriting_run_moves_without_its_source(toy, started, tmp_path):
    shutil.copytree(started, tmp_path / "source")
    options = (*OPTIONS, "league.inherit=source", "grpo.steps=2")
    heir = run(toy, tmp_path, "heir", *options, "max_updates=1").parent
    (tmp_path / "away").mkdir()
    heir.rename(tmp_path / "away" / "heir")
    final = run(toy, tmp_path / "away", "heir", *options)
    assert '"alert"' not in events(final)
    inherited = [agent for agent in LeagueFile(final.parent).read().of_kind("checkpoint") if "/" in agent.name]
    assert inherited
    for agent in inherited:
        assert load_adapter(final.parent / agent.path).weights


def test_run_without_first_adapter_resumes_from_state(toy, started, tmp_path):
    shutil.copy(started / "final.pt", tmp_path / "first.pt")
    options = ("grpo.steps=2", f"model.adapter={tmp_path / 'first.pt'}")
    run(toy, tmp_path, "mine", *options, "max_updates=1")
    (tmp_path / "first.pt").unlink()
    assert len(rows(run(toy, tmp_path, "mine", *options))) == 2


def test_lost_checkpoints_leave_league_and_pending_plans(toy, started, tmp_path, capsys):
    """Without this, every game against them failed, and a step of such games ended the run at each start."""
    shutil.copytree(started, tmp_path / "small")
    damaged, missing = (tmp_path / "small" / f"step_00000{step}.pt" for step in (1, 2))
    plans = [job["plan"] for job in newest(started).content["tasks"]]
    assert any("checkpoint_000001" in group["players"] for plan in plans for group in plan["groups"])
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(bytes(data))
    missing.unlink()
    final = run(toy, tmp_path, "small", *OPTIONS)
    leaves = "leaves the league, and training continues without it"
    alerts = [line for line in capsys.readouterr().out.splitlines() if "alert: " in line]
    first, second = (line for line in alerts if line.endswith(leaves))
    assert first.startswith(f"alert: {damaged}: is damaged or was replaced: ")
    assert first.endswith(f"; checkpoint_000001 {leaves}")
    assert second == f"alert: {missing}: cannot be read (No such file or directory); checkpoint_000002 {leaves}"
    assert len(rows(final)) == 3
    agents = LeagueFile(final.parent).read().agents
    assert {"checkpoint_000001", "checkpoint_000002"}.isdisjoint(agents)
    assert "checkpoint_000003" in agents
