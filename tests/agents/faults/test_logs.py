"""Logs damaged between two sessions: an alert names the file and the damage, and training continues."""

import importlib.util
import json
import shutil

import pytest

from sparring.agents.run.log_files import EVENTS, METRICS, LoggerError
from sparring.agents.run.logger import open_logger
from sparring.agents.trainers import train
from sparring.configs.core.session import LoggerConfig
from tests.agents.faults import planted, victims
from tests.agents.ppo.small_run import config, metrics, state_of, untimed


def truncate(file):
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def change_a_byte(file):
    data = bytearray(file.read_bytes())
    at = data.index(b"1")
    data[at] = ord("2")
    file.write_bytes(bytes(data))


def remove(file):
    file.unlink()


def swap_lines(file):
    first, second, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([second, first, *rest]))


DAMAGES = {
    truncate: "is shorter than at the training state, ",
    change_a_byte: "was changed since the training state was saved",
    remove: "is missing, the training state has ",
    swap_lines: "was changed since the training state was saved",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return an uninterrupted run."""
    root = tmp_path_factory.mktemp("whole")
    train(config(root))
    return root


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Return a run with two of three updates done."""
    root = tmp_path_factory.mktemp("started")
    train(config(root, max_updates=2))
    return root


def alerts(root):
    rows = [json.loads(line) for line in (root / "small" / EVENTS).read_text().splitlines()]
    return [row["event"] for row in rows if row["kind"] == "alert"]


@pytest.mark.parametrize(("name", "damage"), [*((METRICS, damage) for damage in DAMAGES), (EVENTS, truncate)])
def test_every_log_damage_raises_alert_and_training_continues(whole, started, tmp_path, capsys, name, damage):
    shutil.copytree(started / "small", tmp_path / "small")
    file = tmp_path / "small" / name
    damage(file)
    capsys.readouterr()
    train(config(tmp_path))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "alert: " in line)
    assert f"alert: {file}: {DAMAGES[damage]}" in line
    assert alerts(tmp_path) == [line.removeprefix("alert: ")]
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(metrics(tmp_path))[-1] == untimed(metrics(whole))[-1]


def test_lines_after_last_state_are_removed_without_alert(whole, started, tmp_path):
    shutil.copytree(started / "small", tmp_path / "small")
    for name in (METRICS, EVENTS):
        with (tmp_path / "small" / name).open("a") as file:
            file.write('{"env_steps": 99999, "kind": "info", "event": "after the state"}\n{"half a li')
    train(config(tmp_path))
    assert alerts(tmp_path) == []
    assert "after the state" not in (tmp_path / "small" / EVENTS).read_text()
    assert untimed(metrics(tmp_path)) == untimed(metrics(whole))


def test_alert_is_raised_once(started, tmp_path):
    """The next state stores the hash of the current file."""
    shutil.copytree(started / "small", tmp_path / "small")
    change_a_byte(tmp_path / "small" / METRICS)
    train(config(tmp_path))
    train(config(tmp_path))
    assert len(alerts(tmp_path)) == 1


def open_log(folder, state=None, hashes=None):
    return open_logger(LoggerConfig(), folder, "dark-ghost", {}, state, hashes)


def test_log_that_is_a_folder_is_rejected_by_name(tmp_path):
    (tmp_path / METRICS).mkdir()
    with pytest.raises(LoggerError, match=r"metrics\.jsonl: cannot be opened \(is a folder, and must be a"):
        open_log(tmp_path)


SECRET = "canary7c5e2f9ab1d3"
SPELLINGS = (SECRET, SECRET.upper(), SECRET[::-1], SECRET.encode().hex())


@pytest.mark.parametrize("mode", ["off", "offline"])
def test_run_files_contain_no_secret(tmp_path, mode):
    if mode == "offline" and importlib.util.find_spec("wandb") is None:
        pytest.skip("Weights & Biases is not installed")
    code = victims.finish(planted.run_with_secrets, tmp_path, SECRET, mode, out=tmp_path / "said")
    said = (tmp_path / "said").read_text()
    assert code == 0, said
    assert "is off for the rest" not in said
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool([path for path in files if path.suffix == ".wandb"]) == (mode == "offline")
    found = [str(path) for path in files for word in SPELLINGS if word.encode() in path.read_bytes()]
    assert found == []
    assert [path for path in files if b"a-project" in path.read_bytes()], "the search finds what is there"
