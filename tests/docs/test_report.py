"""The exploitability report reads recorded rows: the files and fields it needs exist."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT = (ROOT / "docs" / "report" / "report.typ").read_text(encoding="utf-8")


def rows(name):
    return [json.loads(line) for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line]


def test_every_file_named_in_report_exists():
    named = {name.lstrip("/") for name in re.findall(r"[\w./]*docs/[\w./]+\.\w+", REPORT)}
    assert {"docs/results/exploitability.jsonl", "docs/images/exploitability.png"} <= named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_recorded_rows_have_fields_read_by_report():
    for row in rows("docs/results/exploitability.jsonl"):
        assert {"game", "agent", "attack", "gain", "low", "high", "moves"} <= row.keys(), row
    for row in rows("docs/results/exploitability_calibration.jsonl"):
        assert {"game", "policy", "seed", "exact"} <= row.keys(), row
        assert len(row["curve"][-1]) == 2, row


def test_every_game_in_table_has_name_in_report():
    names = set(re.findall(r"(\w+): \"", REPORT[REPORT.index("#let names") : REPORT.index("#let game")]))
    assert {row["game"].split("(")[0] for row in rows("docs/results/exploitability.jsonl")} <= names
