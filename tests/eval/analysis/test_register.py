"""The register: rows derived from folders, planned runs from files, and an up-to-date page."""

import json
import re

import pytest
import yaml

from sparring.agents.run.folder import read_origin, write_origin
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.serialization import to_plain
from sparring.eval.analysis import register as page
from sparring.eval.analysis.register import planned_rows, read_recorded, rows_of_runs, written


def folder(root, name, *overrides, events=(), rows=2, notes=""):
    path = root / name
    path.mkdir()
    config = load([*overrides, f"name={name}", f"checkpoint_dir={root}"])
    (path / "config.yaml").write_text(yaml.safe_dump(to_plain(config)))
    metrics = [{"env_steps": step + 1, "rollout/win_rate": 0.25 * (step + 1)} for step in range(rows)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    written = [{"env_steps": 2, "kind": "info", "event": event} for event in events]
    (path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    if notes:
        (path / "notes.md").write_text(notes)
    return path


def test_row_is_derived_from_folder(tmp_path):
    lessons = "# Notes\n\nClip 0.3 | is\ntoo large.\n\nMore."
    path = folder(
        tmp_path, "mine", "+run=quickstart", "ppo.clip=0.3", "seed=5", events=["done after 2 updates"], notes=lessons
    )
    (path / "origin.json").write_text('{"commit": "0123456789abcdef", "changed": true}')
    (row,) = rows_of_runs(tmp_path)
    assert (row.name, row.status, row.commit) == ("mine", "completed", "012345678+")
    assert row.changes == "seed=5 ppo.clip=0.3"
    assert row.command == "python train.py +run=quickstart seed=5 ppo.clip=0.3"
    assert row.result == "final(rollout/win_rate) = 0.375"
    assert row.lessons == "Clip 0.3 | is too large."


@pytest.mark.parametrize(
    ("events", "rows", "status", "result"),
    [
        (["done after 2 updates"], 2, "completed", ""),
        (["interrupted after 2 updates"], 2, "failed", "killed after 2 updates"),
        ([], 2, "failed", "killed after 2 updates"),
        (["the run ends after update 2: bad"], 2, "failed", "failed after 2 updates"),
        ([], 0, "failed", "empty after 0 updates"),
    ],
)
def test_status_follows_from_folder(tmp_path, events, rows, status, result):
    folder(tmp_path, "mine", "+run=quickstart", events=events, rows=rows)
    (row,) = rows_of_runs(tmp_path)
    assert row.status == status
    assert row.result.endswith(result)


def test_files_without_run_are_planned():
    names = {row.name: row for row in planned_rows([])}
    assert {"quickstart", "mlp_stability-D", "quickstart_search"} <= names.keys()
    assert (names["baseline_v1"].status, names["mlp_stability-D"].status) == ("planned", "planned")
    floor = names["curriculum_floor"]  # docs/results/floor.md measures it
    assert (floor.status, floor.result) == ("completed", "[floor.md](../results/floor.md)")
    assert names["mlp_stability-D"].command == "python train.py +sweep=mlp_stability runs=D"
    assert names["mlp_stability-D"].changes == "grpo.use_ppo_clipping=true grpo.kl_beta=0.02"


def test_unreadable_folder_does_not_stop_others(tmp_path):
    folder(tmp_path, "mine", "+run=quickstart", events=["done after 2 updates"])
    (folder(tmp_path, "odd", "+run=quickstart") / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    rows = {row.name: row for row in rows_of_runs(tmp_path)}
    assert rows["mine"].status == "completed"
    assert re.fullmatch(r"cannot be read \(.*not text in UTF-8.*\)", rows["odd"].result)


def test_names_select_rows_and_unknown_ones_are_rejected(tmp_path):
    for name in ("one", "two"):
        folder(tmp_path, name, "+run=quickstart")
    assert [row.name for row in rows_of_runs(tmp_path, ["two"])] == ["two"]
    with pytest.raises(InputError, match="three: is neither a run nor a sweep"):
        rows_of_runs(tmp_path, ["three"])


def test_rows_round_trip_through_file_and_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RECORDED", tmp_path / "runs.jsonl")
    monkeypatch.setattr(page, "PAGE", tmp_path / "README.md")
    runs = tmp_path / "runs"
    runs.mkdir()
    folder(runs, "mine", "+run=quickstart", events=["done after 2 updates"])
    assert page.register(None, runs, all_runs=True)["completed"] == 1
    kept = read_recorded(tmp_path / "runs.jsonl")
    (runs / "mine" / "config.yaml").unlink()
    (runs / "mine" / "metrics.jsonl").unlink()
    assert page.register(None, runs, all_runs=True)["completed"] == 1
    assert read_recorded(tmp_path / "runs.jsonl") == kept
    (tmp_path / "runs.jsonl").write_text(written(kept) + "{}\n")
    with pytest.raises(InputError, match=r"line 2 is not a row of the register"):
        read_recorded(tmp_path / "runs.jsonl")


def test_page_is_up_to_date():
    """After changing a run or sweep file, run: python eval/runs.py register --none."""
    assert page.PAGE.read_text(encoding="utf-8") == page.register_page(read_recorded(page.RECORDED))


def test_reference_rows_are_read_with_validated_keys(tmp_path):
    assert len(page.read_reference(page.REFERENCE)) > 30
    path = tmp_path / "reference.yaml"
    path.write_text("- {name: a, source: b, status: completed, resultt: c}\n")
    with pytest.raises(InputError, match=r"resultt: unknown key.*did you mean 'result'"):
        page.read_reference(path)


def test_origin_is_commit_or_unknown(tmp_path):
    write_origin(tmp_path)
    commit = read_origin(tmp_path).get("commit", "")
    assert commit == "" or len(commit.removesuffix("+")) == 9
    (tmp_path / "origin.json").write_text('{"commit": "`rm`"}')
    assert read_origin(tmp_path) == {}
