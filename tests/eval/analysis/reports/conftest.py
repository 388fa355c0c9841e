"""Recorded traces as run folders. traces/record.py made them; the first line of each has its command."""

import gzip
import json
from pathlib import Path

import pytest
import yaml

from sparring.eval.analysis.sources.run_folders import RunFolders

TRACES = Path(__file__).parent / "traces"


@pytest.fixture
def run_folder(tmp_path):
    """Write a trace as a run folder and return its path; `edit` changes rows, `options` the configuration."""

    def write(name, *, to="", edit=None, rows=None, **options):
        head, *recorded = map(json.loads, gzip.decompress((TRACES / f"{name}.jsonl.gz").read_bytes()).splitlines())
        folder = tmp_path / "checkpoints" / (to or name)
        folder.mkdir(parents=True)
        kept = recorded[:rows]
        for number, row in enumerate(kept):
            if edit:
                edit(number, row)
        (folder / "config.yaml").write_text(yaml.safe_dump(head["config"] | options))
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in kept))
        (folder / "events.jsonl").write_text("")
        return folder

    return write


@pytest.fixture
def read_run(run_folder):
    """Return record and history of a trace."""

    def read(name, **how):
        folder = run_folder(name, **how)
        source = RunFolders(folder.parent)
        return source.record(folder.name), source.history(folder.name)

    return read
