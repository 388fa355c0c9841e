"""The W&B cloud with a loopback server and the real `wandb.Api`."""

import json

import numpy as np
import pytest

pytest.importorskip("wandb")

from sparring.eval import runs as command
from sparring.eval.analysis.record import RunNetworkError, RunNotFoundError
from sparring.eval.analysis.sources import wandb_cloud
from sparring.eval.analysis.sources.wandb_cloud import WandBCloud
from tests.eval.analysis.wandb_server import WandBServer, run_of, stop_service

NAMES = ("amber-ace", "bold-bee", "calm-cat", "dark-dog", "eager-eel")
MANY = 20_000


@pytest.fixture
def server(monkeypatch, tmp_path):
    found = WandBServer([run_of(name, number) for number, name in enumerate(NAMES)])
    monkeypatch.setenv("WANDB_BASE_URL", found.url)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    stop_service()  # its settings are read from the environment once
    yield found
    stop_service(2)
    found.shutdown()


def cloud(tmp_path, *, timeout=30, **options):
    return WandBCloud("ent/proj", cache=tmp_path / "cache", timeout=timeout, retries=0, **options)


def test_all_pages_are_read(server, tmp_path):
    server.runs_[4]["group"] = "night"
    runs = cloud(tmp_path).runs()
    assert [run.group for run in runs] == ["night", "", "", "", ""]
    assert [run.id for run in runs] == list(reversed(NAMES))  # newest first
    assert server.asked.count("runs") == 3
    assert (runs[0].status, runs[0].config, runs[0].tags) == ("completed", {"seed": 4}, ("ppo",))
    assert runs[0].summary == {"train/loss": 0.5, "run_id": "id4", "commit": "abc"}
    assert runs[0].created == 1767225600.0


def test_history_has_rows_and_events(server, tmp_path):
    history = cloud(tmp_path).history("calm-cat")
    np.testing.assert_array_equal(history.columns["train/loss"], [0.0, 0.125, 0.25])
    np.testing.assert_array_equal(history.env_steps, [10, 20, 30])
    np.testing.assert_array_equal(history.timestamp, [1e9, 1e9 + 1, 1e9 + 2])
    assert history.events == [{"env_steps": 20, "kind": "info", "event": "hello"}]
    assert cloud(tmp_path).artifacts("id2") == []


def test_long_history_is_read_in_pages(server, tmp_path):
    server.runs_ = [run_of("long", 1, rows=MANY)]
    history = cloud(tmp_path).history("long")
    np.testing.assert_array_equal(history.columns["train/loss"], np.arange(MANY) / 8)
    assert server.asked.count("history") == MANY / 1000


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (401, "key"),
        (404, "HTTP 404: not found"),
        (429, "try again|wait"),
        (500, "try again"),
        ("half", "no usable answer"),
    ],
)
def test_faults_give_one_line_error(server, tmp_path, fault, message):
    """The W&B client retries 429 and 500 until a time-out, which is then reported."""
    server.fault = fault
    with pytest.raises(RunNetworkError, match=message) as error:
        cloud(tmp_path, timeout=1 if fault in (429, 500) else 10).runs()
    assert server.url in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_server_gives_one_line_error(server, tmp_path, monkeypatch):
    server.shutdown()
    server.server_close()
    with pytest.raises(RunNetworkError, match="no usable answer"):
        cloud(tmp_path, timeout=1).runs()


def test_unknown_run_suggests_nearest(server, tmp_path):
    with pytest.raises(RunNotFoundError, match="did you mean calm-cat"):
        cloud(tmp_path).record("calm-cut")


def test_cache_answers_and_counts(server, tmp_path, monkeypatch):
    first = cloud(tmp_path)
    first.history("calm-cat")
    assert first.cache.figures()["misses"] == 2
    asked = len(server.asked)
    again = cloud(tmp_path)
    again.history("calm-cat")
    assert (again.cache.hits, again.cache.misses, len(server.asked)) == (2, 0, asked)
    # Later the list is asked for again; the rows of a run that has ended are not, until it changes.
    monkeypatch.setattr(wandb_cloud, "FRESH", -1.0)
    later = cloud(tmp_path)
    later.history("calm-cat")
    assert (later.cache.hits, later.cache.misses) == (1, 1)
    server.runs_[2]["heartbeatAt"] = "2026-02-01T00:00:00Z"
    changed = cloud(tmp_path)
    changed.history("calm-cat")
    assert (changed.cache.hits, changed.cache.misses) == (0, 2)
    asked = len(server.asked)
    offline = cloud(tmp_path, offline=True)
    assert len(offline.history("calm-cat").step) == 3
    assert (offline.cache.hits, len(server.asked)) == (2, asked)
    with pytest.raises(RunNetworkError, match="--offline: the cache has no answer"):
        offline.history("bold-bee")


def test_damaged_cache_is_downloaded_again(server, tmp_path):
    cloud(tmp_path).runs()
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:50])
    assert len(cloud(tmp_path).runs()) == 5


def test_commands_and_exit_codes(server, tmp_path, capsys, monkeypatch, printed):
    options = ["--project", "ent/proj", "--source", "wandb", "--json"]
    found = json.loads(printed(command.main, ["list", *options]))
    assert [run["run_id"] for run in found["runs"]] == list(reversed(NAMES))
    assert found["cache"]["misses"] == 1
    assert command.main(["get-metrics", "--run-id", "calm-cat", "-m", "train/loss", *options]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["train/loss"]["y"] == [0.0, 0.125, 0.25]
    assert command.main(["get-run", "--run-id", "calm-kat", *options]) == 3
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    assert command.main(["list", "--project", "ent/other", "--source", "wandb"]) == 5
    assert "no API key" in capsys.readouterr().err
    assert command.main(["list", "--source", "wandb"]) == 2
