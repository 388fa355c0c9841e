"""Write docs/league.html, the page of a league, from the files of a run in docs/league/: `python docs/league_page.py`.

`--run checkpoints/NAME` takes these files from another run first: config.yaml, league.json, and of metrics.jsonl only
what the page draws. The page itself is the one of `python eval/runs.py league RUN --html FILE`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[0] = str(ROOT)

from sparring.eval.analysis.reports.league_report import league_report  # noqa: E402
from sparring.eval.analysis.reports.rendering import to_html  # noqa: E402
from sparring.eval.analysis.sources.run_folders import RunFolders  # noqa: E402

PAGE, RUNS = ROOT / "docs" / "league.html", ROOT / "docs" / "league"
DRAWN = ("step", "env_steps", "elo/*", "league/*elo*", "league/pool_score", "pfsp/*")
"""Metrics of the page, with the keys that place a row."""


def page() -> str:
    """Return the page of the one run in docs/league/."""
    runs = RunFolders(RUNS)
    (name,) = runs.names()
    return to_html(league_report(runs.record(name), runs.history(name)))


def take(run: Path) -> None:
    """Replace the files in docs/league/ by those of a run."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    shutil.rmtree(RUNS, ignore_errors=True)
    folder = RUNS / run.name
    folder.mkdir(parents=True)
    config = (run / "config.yaml").read_text(encoding="utf-8")
    config = re.sub(r"^checkpoint_dir: .*$", "checkpoint_dir: checkpoints", config, flags=re.MULTILINE)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    shutil.copy(run / "league.json", folder)
    (folder / "metrics.jsonl").write_text("".join(f"{drawn(line)}\n" for line in lines), encoding="utf-8")


def drawn(line: str) -> str:
    """Return a row of metrics with what the page draws, to four decimals."""
    row = json.loads(line)
    kept = {key: value for key, value in row.items() if any(fnmatchcase(key, pattern) for pattern in DRAWN)}
    return json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in kept.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="folder of a run whose files replace those in docs/league/")
    if run := parser.parse_args().run:
        take(run)
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
