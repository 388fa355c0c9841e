"""Trackio files: conversion, reading, damage, and the package itself where it is installed."""

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from sparring.agents.run.log_files import LoggerError
from sparring.agents.run.logger import open_logger
from sparring.configs.core.session import LoggerConfig
from sparring.eval.analysis.options import SourceName, SourceOptions
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.trackio_files import TrackioFiles
from sparring.eval.runs import ask, main
from tests.eval.analysis.conftest import ROWS

needs_trackio = pytest.mark.skipif(not importlib.util.find_spec("trackio"), reason="its own environment")


@pytest.fixture(scope="module")
def converted(recorded, tmp_path_factory):
    """Return a project file with the recorded run, converted from its folder."""
    path = tmp_path_factory.mktemp("trackio") / "sparring.db"
    assert main(["export", "dark-ghost", "--dir", str(recorded), "-o", str(path)]) == 0
    return path


def assert_alike(history, other, seconds=1e-5):
    assert sorted(history.columns) == sorted(other.columns)
    for name in ("step", "env_steps"):
        np.testing.assert_array_equal(getattr(history, name), getattr(other, name))
    np.testing.assert_allclose(history.timestamp, other.timestamp, rtol=0, atol=seconds)
    for name, column in history.columns.items():
        np.testing.assert_array_equal(column, other.columns[name])
    assert [event["event"] for event in history.events] == [event["event"] for event in other.events]


def test_converted_run_reads_identically(recorded, converted):
    folder, file = RunFolders(recorded), TrackioFiles(converted.parent)
    assert_alike(file.history("dark-ghost"), folder.history("dark-ghost"))
    record, original = file.record("dark-ghost"), folder.record("dark-ghost")
    assert (record.config, record.status, record.tags) == (original.config, "completed", original.tags)
    assert record.created == pytest.approx(original.created, abs=1e-3)
    assert (record.summary["updates"], record.summary["project"]) == (ROWS, "sparring")
    assert file.record(record.summary["run_id"]).id == "dark-ghost"
    assert [entry["name"] for entry in file.artifacts("dark-ghost")] == ["sparring.db"]
    assert [path.name for path in converted.parent.iterdir()] == ["sparring.db"]


def test_commands_read_trackio_file(recorded, converted, capsys):
    where = {"dir": converted.parent, "source": "trackio"}
    assert ask("list", [], where)["runs"][0]["source"] == "trackio"
    assert ask("list", [], {**where, "project": "other"})["runs"] == []
    direct = ask("get-metrics", ["dark-ghost"], {"dir": recorded, "metrics": ["train/loss"]})
    asked = ask("get-metrics", ["dark-ghost"], {**where, "metrics": ["train/loss"]})
    assert asked["metrics"] == direct["metrics"]
    assert main(["export", "dark-ghost", "--dir", str(recorded), "-o", str(converted)]) == 2
    assert "has a run 'dark-ghost' already; give another file" in capsys.readouterr().err


def test_run_with_folder_is_listed_once(recorded, converted, tmp_path):
    shutil.copytree(recorded / "dark-ghost", tmp_path / "dark-ghost", ignore=shutil.ignore_patterns("wandb", "events*"))
    (tmp_path / "trackio").mkdir()
    shutil.copy(converted, tmp_path / "trackio")
    runs = [run.source for source in SourceOptions(root=tmp_path).find() for run in source.runs()]
    assert runs == ["folder"]
    assert len(SourceOptions(root=tmp_path, source=SourceName.TRACKIO).find()[0].runs()) == 1


def test_damage_in_trackio_file_is_reported(converted, tmp_path):
    shutil.copy(converted, tmp_path / "row.db")
    with sqlite3.connect(tmp_path / "row.db") as file:
        file.execute("UPDATE metrics SET metrics = '{' WHERE id = 3")
        file.execute("CREATE TABLE alerts (run_id TEXT, title TEXT, text TEXT, id INTEGER)")
        file.execute("INSERT INTO alerts SELECT run_id, 'hot', 'the machine', 1 FROM configs")
    (run,) = TrackioFiles(tmp_path).runs()
    assert run.damage == (f"{tmp_path / 'row.db'}: row 3 is not a JSON object; it is left out",)
    assert TrackioFiles(tmp_path).history(run.id).events[-1]["event"] == "hot: the machine"
    with sqlite3.connect(tmp_path / "row.db") as file:
        file.execute("PRAGMA user_version = 9")
    (tmp_path / "cut.db").write_bytes(converted.read_bytes()[:5000])
    with sqlite3.connect(tmp_path / "other.db") as file:  # of another program
        file.execute("CREATE TABLE notes (text TEXT)")
    runs = {run.id: run for run in TrackioFiles(tmp_path).runs()}
    assert sorted(runs) == ["cut", "row"]
    assert "layout 9 of trackio, known are 0 to 2; update Sparring" in runs["row"].damage[0]
    assert "cannot be read" in runs["cut"].damage[0]


def test_error_names_missing_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(LoggerError, match=r"`sparring install trackio`"):
        open_logger(LoggerConfig(trackio=True), tmp_path, "dark-ghost", {})


LOGGED = """
import json, sys
from pathlib import Path
from sparring.agents.run.logger import open_logger
from sparring.configs.core.session import LoggerConfig
folder = Path(sys.argv[1]) / "dark-ghost"
folder.mkdir()
logger = open_logger(LoggerConfig(trackio=True), folder, "dark-ghost", {"run": "quickstart", "seed": 3})
for update in range(1, 6):
    logger.log(update * 128, {"train/loss": 1 / update, "train/odd": float("nan")})
logger.event("done after 5 updates: final.pt")
logger.close()
import trackio
api = trackio.Api()
told = {run.name: run.history() if hasattr(run, "history") else None for run in api.runs("converted")}
from trackio.sqlite_storage import SQLiteStorage
rows = SQLiteStorage.get_logs("converted", "dark-ghost")
config = SQLiteStorage.get_run_config("converted", "dark-ghost")
print(json.dumps([sorted(told), [row.get("train/loss") for row in rows], config["seed"]]))
"""


@needs_trackio
def test_package_and_reader_are_compatible_both_ways(converted, tmp_path):
    shutil.copy(converted, tmp_path / "converted.db")
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path)}
    command = [sys.executable, "-c", LOGGED, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    names, losses, seed = json.loads(done.stdout)  # nothing else is printed
    direct = TrackioFiles(converted.parent).history("dark-ghost").columns["train/loss"]
    assert (names, seed) == (["dark-ghost"], 3)
    assert [loss for loss in losses if loss is not None] == direct.tolist()
    record = TrackioFiles(tmp_path, "sparring").record("dark-ghost")
    history = TrackioFiles(tmp_path, "sparring").history("dark-ghost")
    assert (record.status, record.config) == ("completed", {"run": "quickstart", "seed": 3})
    assert history.columns["train/loss"].tolist() == [1 / update for update in range(1, 6)]
    assert history.env_steps.tolist() == [128 * update for update in range(1, 6)]
