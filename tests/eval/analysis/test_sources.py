"""The same run from its folder, W&B file and TensorBoard files, against the logged values."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sparring.agents.run.folder import RunLock
from sparring.eval.analysis.options import find_run
from sparring.eval.analysis.record import RunNotFoundError
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles
from sparring.eval.analysis.sources.wandb_offline import WandBOffline
from tests.eval.analysis.conftest import CONFIG, ROWS, row, write_run

SOURCES = {"folder": RunFolders, "wandb-offline": WandBOffline, "tensorboard": TensorBoardFiles}
FLOAT32 = 2.0**-24
"""Largest relative error of a number that is stored as float32."""


def source_of(name, root):
    if name == "wandb-offline":
        pytest.importorskip("wandb")
    return SOURCES[name](root)


def logged(metric):
    values = {update: row(update).get(metric, np.nan) for update in range(1, ROWS + 1)}
    if metric == "rollout/reward":
        values |= {again: -again for again in (6, 7, 8)}
    return np.array(list(values.values()))


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_logged_numbers(recorded, name):
    history = source_of(name, recorded).history("dark-ghost")
    assert history.damage == ()
    np.testing.assert_array_equal(history.env_steps, np.arange(1, ROWS + 1) * 128)
    np.testing.assert_array_equal(history.step, np.arange(1, ROWS + 1))
    assert sorted(history.columns) == ["eval/win_rate", "rollout/reward", "train/loss"]  # train/odd is never finite
    for metric, column in history.columns.items():
        np.testing.assert_allclose(column, logged(metric), rtol=FLOAT32 if name == "tensorboard" else 0, atol=0)
    assert np.all(np.diff(history.timestamp) >= 0)
    assert abs(history.timestamp[-1] - time.time()) < 3600
    assert {event["event"] for event in history.events} >= {"phase curriculum, update 5: ace"}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_same_record(recorded, name):
    (run,) = source_of(name, recorded).runs()
    assert (run.id, run.source, run.status, run.damage) == ("dark-ghost", name, "completed", ())
    assert (run.summary["updates"], run.summary["env_steps"]) == (ROWS, ROWS * 128)
    assert run.summary["rollout/reward"] == pytest.approx(ROWS / 7, rel=1e-7)
    assert run.config == ({} if name == "tensorboard" else CONFIG)
    tags = ("quickstart", "ppo", "sparring/Dogfight-v1")  # run file, trainer and environment, in W&B too
    assert run.tags == (() if name == "tensorboard" else tags)
    assert run.created <= run.updated


def test_points_beyond_ten_thousand_are_read(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "long")) as writer:
        for step in range(12_000):
            writer.add_scalar("a", step % 97, step)
    history = TensorBoardFiles(tmp_path).history("long")
    np.testing.assert_array_equal(history.columns["a"], np.arange(12_000) % 97)
    np.testing.assert_array_equal(history.env_steps, np.arange(12_000))


def test_unusual_events_are_read_individually(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "odd")) as writer:
        writer.add_scalar("new", 2.5, 1, new_style=True)
        writer.add_scalars("group", {"x": 1.0}, 1)
        writer.add_scalar("large", -1.0, 2**62)
        writer.add_scalar("negative", 3.0, -4)
        writer.add_histogram("weights", np.arange(50.0), 1)
        writer.add_text("info", "hello" * 200, 1)
    history = TensorBoardFiles(tmp_path).history("odd")
    assert history.damage == ()
    found = {
        key: dict(zip(history.env_steps.tolist(), history.columns[key].tolist(), strict=True))
        for key in history.columns
    }
    assert (found["new"][1], found["large"][2**62], found["negative"][-4]) == (2.5, -1.0, 3.0)
    assert history.events == [{"env_steps": 1, "kind": "info", "event": "hello" * 200}]


def test_rows_match_event_accumulator(recorded):
    """TensorBoard's own reader also hides reverted rows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    theirs = EventAccumulator(str(recorded / "dark-ghost"), size_guidance={"scalars": 0})
    theirs.Reload()
    points = theirs.Scalars("rollout/reward")
    x, y = TensorBoardFiles(recorded).history("dark-ghost").series("rollout/reward", "env_steps")
    assert [point.step for point in points] == x.tolist()
    assert [point.value for point in points] == y.tolist()


def test_held_lock_means_running(tmp_path):
    folder = write_run(tmp_path, "held", ended="")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"env_steps": 99')
    (killed,) = RunFolders(tmp_path).runs()
    assert killed.status == "killed"
    assert "cut off after 16 bytes" in killed.damage[0]
    lock = RunLock(folder)
    (running,) = RunFolders(tmp_path).runs()
    lock.release()
    assert (running.status, running.damage) == ("running", ())


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ("done after 3 updates: final.pt", "completed"),
        ("interrupted after 3 updates: final.pt", "killed"),
        ("the run ends after update 3: given up", "failed"),
        ("nothing left to do: 3 updates are done", "completed"),
        ("phase a", "killed"),
        ("resumed after update 2 from update_000002", "killed"),
    ],
)
def test_status_follows_from_last_status_event(tmp_path, event, status):
    write_run(tmp_path, "one", ended=event, rows=3)
    assert RunFolders(tmp_path).record("one").status == status


def test_run_without_rows_is_empty(tmp_path):
    write_run(tmp_path, "none", rows=0, ended="")
    assert RunFolders(tmp_path).record("none").status == "empty"


KILLED = """
import os, sys, time
import wandb
run = wandb.init(project="p", dir=sys.argv[1], name="dead", mode="offline",
                 settings=wandb.Settings(console="off", silent=True, x_disable_meta=True, disable_git=True))
for step in range(200):
    run.log({"env_steps": step, "a": step})
print("logged", flush=True)
time.sleep(60)
"""


def test_killed_run_has_status_killed(tmp_path):
    """A process is killed during an offline run, which reads as running before."""
    pytest.importorskip("wandb")
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"logged\n"
    source, before = WandBOffline(tmp_path), []
    deadline = time.monotonic() + 30
    while not before and time.monotonic() < deadline:
        before = source.runs()
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while (run := source.record("dead")).status == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [one.status for one in before] == ["running"]
    assert run.status == "killed"


def test_unknown_runs_list_nearest_names(recorded):
    with pytest.raises(RunNotFoundError, match="no run 'dark-gost' in folder and tensorboard; did you mean dark-ghost"):
        find_run("dark-gost", [RunFolders(recorded), TensorBoardFiles(recorded)])
    _, run = find_run(str(recorded / "dark-ghost"), [])
    assert run.id == "dark-ghost"


def test_event_file_folder_is_run_by_path(tmp_path, monkeypatch):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "foreign" / "PPO_1")) as writer:
        writer.add_scalar("rollout/ep_rew_mean", 2.0, 64)
    source, run = find_run(str(tmp_path / "foreign" / "PPO_1"), [])
    assert (source.name, run.id, run.summary["rollout/ep_rew_mean"]) == ("tensorboard", "PPO_1", 2.0)
    monkeypatch.chdir(tmp_path / "foreign")
    assert find_run("PPO_1", [RunFolders(tmp_path)])[0].history("PPO_1").env_steps.tolist() == [64]


def test_artifacts_have_sizes_and_listed_hashes(tmp_path):
    folder = write_run(tmp_path, "one", rows=2)
    (folder / "final.pt").write_bytes(b"abc")
    (folder / "manifest.json").write_text(json.dumps({"final.pt": {"sha256": "a" * 64}}))
    found = {entry["name"]: entry for entry in RunFolders(tmp_path).artifacts("one")}
    assert (found["final.pt"]["kind"], found["final.pt"]["bytes"], found["final.pt"]["sha256"]) == (
        "checkpoint",
        3,
        "a" * 64,
    )
