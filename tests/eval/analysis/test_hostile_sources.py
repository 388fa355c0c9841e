"""Hostile files: links out of a folder, endless databases, terminal escapes in names."""

import json
import sqlite3

import pytest

from sparring.configs.core.errors import InputError
from sparring.eval.analysis.record import RunNotFoundError
from sparring.eval.analysis.sources import trackio_files
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.trackio_files import LAYOUT, TrackioFiles, append_run
from tests.eval.analysis.conftest import write_run
from tests.eval.analysis.test_mcp_server import converse

CANARY = "c4n4ry"
ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'a' AS run_id, '' AS timestamp, "
)
ENDLESS += "'a' || i AS run_name, i AS step, '{\"x\": 1}' AS metrics FROM n"


@pytest.fixture
def served(tmp_path):
    """Return a served folder with one run, inside another run, with links to a neighbouring run."""
    (tmp_path / "config.yaml").write_text(f"seed: 1\nrun: {CANARY}\n")
    root = tmp_path / "served"
    write_run(root, "inside", rows=3)
    private = write_run(tmp_path / "beside", CANARY, rows=3)
    (private / "config.yaml").write_text(f"seed: 1\nrun: {CANARY}\n")
    (root / "linked").symlink_to(private)
    return root


@pytest.mark.parametrize("name", ["..", "linked", "../beside/c4n4ry", "inside/../../"])
def test_server_reads_nothing_outside_its_folder(served, name, monkeypatch):
    monkeypatch.chdir(served)
    answers, _ = converse(
        served,
        ("get_run", {"run": name}),
        ("get_metrics", {"run": name, "metrics": ["train/loss"]}),
        ("analyze", {"run": name}),
        ("compare", {"runs": ["inside", name]}),
        ("list_runs", {}),
    )
    assert [error for error, _ in answers] == [True] * 4 + [False]
    assert not any(CANARY in text.replace(name, "") for _, text in answers)
    assert [run["run_id"] for run in json.loads(answers[-1][1])["runs"]] == ["inside"]


def test_run_folder_linked_by_user_is_listed_on_command_line(served):
    assert {run.id for run in RunFolders(served).runs()} == {"inside", "linked"}
    with pytest.raises(RunNotFoundError):
        RunFolders(served).record("..")


@pytest.mark.parametrize(
    "file", ["config.yaml", "metrics.jsonl", "events.jsonl", "eval.json", "manifest.json", "state"]
)
def test_link_in_run_folder_is_not_followed(served, tmp_path, file):
    outside = tmp_path / "outside"
    secret = {"summary": {"device": CANARY}, "seed": CANARY, "env_steps": 1, "event": CANARY, "kind": "info"}
    for target in (outside / "update_000001" / "manifest.json", outside / "file"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(secret) + "\n")
    link = served / "inside" / file
    if link.exists():
        link.unlink()
    link.symlink_to(outside if file == "state" else outside / "file")
    record, history = RunFolders(served).record("inside"), RunFolders(served).history("inside")
    assert CANARY not in f"{record.config} {record.summary} {history}"
    assert file == "manifest.json" or any("link" in line for line in record.damage)


@pytest.mark.parametrize("replaced", ["metrics", "configs", "alerts"])
def test_endless_view_is_not_read(tmp_path, replaced):
    with sqlite3.connect(tmp_path / "p.db") as file:
        file.executescript(LAYOUT)
        file.execute("INSERT INTO metrics VALUES (1, 'a', '', 'a', 0, '{\"x\": 1}')")
        if replaced != "alerts":
            file.execute(f"DROP TABLE {replaced}")
        columns = {"configs": ", '{}' AS config, '' AS created_at", "alerts": ", 't' AS title, 'u' AS text"}
        file.execute(f"CREATE VIEW {replaced} AS {ENDLESS.replace(' FROM n', columns.get(replaced, '') + ' FROM n')}")
    runs = TrackioFiles(tmp_path).runs()
    assert [run.id for run in runs] == ([] if replaced == "metrics" else ["a"])


def test_database_statements_are_bounded(tmp_path, monkeypatch):
    """The table's column is computed on each read, with SQLite's maximum length."""
    with sqlite3.connect(tmp_path / "p.db") as file:
        file.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, step INTEGER, metrics TEXT, "
            "run_name TEXT AS (hex(zeroblob(400000000))) VIRTUAL)"
        )
        file.execute("INSERT INTO metrics VALUES (1, 'a', '', 0, '{}')")
    (run,) = TrackioFiles(tmp_path).runs()
    assert "too big" in run.damage[0]
    with sqlite3.connect(tmp_path / "q.db") as file:
        file.executescript(LAYOUT)
        file.executemany(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('a', '', 'a', 0, ?)",
            [("{}",)] * 1000 + [("no",)] * 1000,
        )
    (run,) = TrackioFiles(tmp_path, "q").runs()
    assert run.damage == (f"{tmp_path / 'q.db'}: row 1001 is not a JSON object, nor are 999 more; it is left out",)
    monkeypatch.setattr(trackio_files, "MOST_RUNS", 0)
    assert "more than 0 runs" in TrackioFiles(tmp_path, "q").runs()[0].damage[0]
    monkeypatch.undo()
    monkeypatch.setattr(trackio_files, "LEAST_WORK", -(tmp_path / "q.db").stat().st_size)
    monkeypatch.setattr(trackio_files, "WORK_UNIT", 1)
    (run,) = TrackioFiles(tmp_path, "q").runs()
    assert "interrupted" in run.damage[0]


def test_linked_database_is_neither_read_nor_written(tmp_path, served):
    with sqlite3.connect(tmp_path / "outside.db") as file:
        file.executescript(LAYOUT)
        file.execute(f"INSERT INTO metrics VALUES (1, 'a', '', '{CANARY}', 0, '{{}}')")
    for name in ("p.db", "q.db-wal"):
        (served / name).symlink_to(tmp_path / "outside.db")
    (served / "q.db").write_bytes((tmp_path / "outside.db").read_bytes())
    before = (tmp_path / "outside.db").read_bytes()
    runs = TrackioFiles(served).runs()
    assert all("is a link" in run.damage[0] for run in runs)
    assert CANARY not in str(runs)
    folder = RunFolders(served)
    with pytest.raises(InputError, match="is a link"):
        append_run(served / "p.db", folder.record("inside"), folder.history("inside"))
    assert (tmp_path / "outside.db").read_bytes() == before
