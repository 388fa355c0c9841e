"""The register of experiments, docs/experiments/README.md: generated, one row a run.

`docs/experiments/runs.jsonl` holds the rows of recorded runs and keeps them after their folders are gone. Rows of
existing folders are derived from the folder each time. Only the lessons are written by hand: the first paragraph of
`notes.md` in a run folder. `docs/experiments/reference.yaml` holds the results that the original logs report. Files of
`configs/sweep/` and `configs/run/` without a recorded run are planned.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sparring.agents.run.folder import read_origin
from sparring.configs.core.errors import ConfigError, InputError, one_line
from sparring.configs.core.files import PACKAGE, read_regular_text, write_atomically
from sparring.configs.load import load, runs
from sparring.configs.serialization import from_stored, options, read_yaml
from sparring.eval.analysis.record import RunRecord
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sweeps import sweep_folder
from sparring.eval.analysis.sweeps.criteria import read_measure
from sparring.eval.analysis.sweeps.file import (
    SweepFile,
    mapping,
    overrides,
    parse_sweep,
    read_sweep_file,
    sweep_files,
    text,
)
from sparring.eval.command import write
from sparring.eval.stats.tables import table

NOTES = "notes.md"
RESULTS, COMMAND = PACKAGE / "docs" / "results", re.compile(r"\+(?:run|sweep)=([\w-]+)")
"""Pages of measured figures, and the pattern of a run file or sweep file in their commands."""
TRAIN = "python train.py "
LONGEST_LESSON = 300
NOT_COMPARED = ("run", "name", "checkpoint_dir", "resume", "logger.progress")
"""Options that locate a run but do not change it."""
STATUS = {"running": "running", "completed": "completed", "killed": "failed", "failed": "failed", "empty": "failed"}
KEY_RESULTS = (
    *("last(elo/base_model)", "final(rollout/win_rate)", "final(rollout/recent_return)"),
    *("last(eval/held_out/accuracy)", "final(benchmark/reward_mean)"),
)
"""Result of a run outside sweeps: its first available metric."""


@dataclass(frozen=True)
class RegisterRow:
    """One experiment: a run, a search with all its trials, or a file that has not been run."""

    name: str
    status: str
    """planned, running, completed or failed."""
    changes: str
    """Differences from the run file or the sweep's defaults."""
    command: str
    commit: str = ""
    result: str = ""
    lessons: str = ""
    of: str = ""
    """The sweep file or run file it was made from."""


def rows_of_runs(root: Path, names: Iterable[str] | None = None) -> list[RegisterRow]:
    """Return a row per run folder and search under `root`, restricted to `names` if given.

    Raises `InputError` for a name that is neither.
    """
    records = {record.id: record for record in RunFolders(root).runs()}
    sweeps = [sweep_folder.SweepFolder(path) for path in sorted(root.glob(f"*{sweep_folder.SUFFIX}")) if path.is_dir()]
    owner = {run: sweep for sweep in sweeps for run in sweep.runs()}
    recorded = {*records, *(sweep.name for sweep in sweeps)}
    chosen = recorded if names is None else set(names)
    if unknown := sorted(chosen - recorded):
        raise InputError(f"{unknown[0]}: is neither a run nor a sweep in {root}; see `sparring runs list`")
    searches = [sweep for sweep in sweeps if "search" in sweep.content()]
    rows = [
        _row_or_damage(record, sweep)
        for name, record in records.items()
        if (sweep := owner.get(name)) not in searches and chosen & {name, sweep.name if sweep else name}
    ]
    rows += [_search_row(sweep, records) for sweep in searches if sweep.name in chosen]
    return sorted(rows, key=lambda row: row.name)


def planned_rows(recorded: Sequence[RegisterRow]) -> list[RegisterRow]:
    """Return a row for every run of a sweep file, every search and every run file without a recorded run.

    If a results page contains the file's command, its row is completed, with the pages as its result.
    """
    planned = []
    for name in sweep_files():
        file = read_sweep_file(name)
        if file.search:
            planned.append((name, _search_space(file), f"+sweep={name}"))
        for letter, run in file.runs.items():
            changes = _plain_overrides(run.changes) or "none"
            planned.append((f"{name}-{letter}", changes, f"+sweep={name} runs={letter}"))
    planned += [(name, "none", f"+run={name}") for name in runs()]
    done, pages = {row.of for row in recorded}, _result_pages()
    rows = []
    for name, changes, words in planned:
        if name not in done:
            status, result = ("completed", pages[name]) if name in pages else ("planned", "")
            rows.append(RegisterRow(name, status, changes, TRAIN + words, result=result, of=name))
    return rows


def _result_pages() -> dict[str, str]:
    """Return links to the results pages with the command of a run file or a search, by its name."""
    pages: dict[str, str] = {}
    for path in sorted(RESULTS.glob("*.md")):
        for name in set(COMMAND.findall(path.read_text(encoding="utf-8"))):
            pages[name] = f"{pages.get(name, '')} [{path.name}](../results/{path.name})".strip()
    return pages


def read_recorded(path: Path) -> list[RegisterRow]:
    """Read the recorded rows; raises `InputError` naming a line that is not a row."""
    rows = []
    for number, line in enumerate(read_regular_text(path).splitlines() if path.is_file() else (), start=1):
        try:
            rows.append(RegisterRow(**{str(key): str(value) for key, value in json.loads(line).items()}))
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: line {number} is not a row of the register; remove it, then register again"
            ) from error
    return rows


def written(rows: Sequence[RegisterRow]) -> str:
    """Return the rows as JSON lines, sorted by name."""
    return "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in sorted(rows, key=lambda row: row.name))


def _row_or_damage(record: RunRecord, sweep: sweep_folder.SweepFolder | None) -> RegisterRow:
    """Return the row of a run, or a row with the error, so an unreadable folder does not stop the others."""
    try:
        return _row(record, sweep)
    except Exception as error:
        why = one_line(f"cannot be read ({type(error).__name__}: {error})")
        return RegisterRow(record.id, STATUS[record.status], "unknown", "", result=why)


def _row(record: RunRecord, sweep: sweep_folder.SweepFolder | None) -> RegisterRow:
    folder = Path(record.path)
    origin = read_origin(folder)
    file = _file(sweep)
    letter = _letter(record.id, sweep, file)
    changes, command = _changes(record.config)
    if file and sweep and letter:
        seed = record.config.get("seed", "")
        changes = " ".join(filter(None, [_plain_overrides(file.runs[letter].changes), f"seed={seed}"]))
        name = "" if sweep.name in sweep_files() else f" name={sweep.name}"
        command = f"{TRAIN}+sweep={_file_name(sweep)} runs={letter} seed={seed}{name}"
    return RegisterRow(
        name=record.id,
        status=STATUS[record.status],
        changes=changes,
        command=command,
        commit=origin.get("commit", ""),
        result=_result(record, folder, file),
        lessons=_lessons(folder),
        of=f"{_file_name(sweep)}-{letter}" if sweep and letter else str(record.config.get("run", "")),
    )


def _search_row(sweep: sweep_folder.SweepFolder, records: Mapping[str, RunRecord]) -> RegisterRow:
    trials, file = sweep_folder.ranked_trials(sweep), _file(sweep)
    assert file is not None
    running = any(trial["run"] in records and records[trial["run"]].status == "running" for trial in trials)
    finished = all(trial["outcome"] in sweep_folder.FINISHED for trial in trials)
    status = "running" if running else "completed" if finished else "failed"
    folder = sweep.run_folder(trials[0]["run"]) if trials else sweep.path
    command = f"{TRAIN}+sweep={_file_name(sweep)}"
    command += "" if sweep.name in sweep_files() else f" name={sweep.name}"
    return RegisterRow(
        name=sweep.name,
        status=status,
        changes=_search_space(file),
        command=command,
        commit=read_origin(folder).get("commit", ""),
        result="; ".join(sweep_folder.search_summary(sweep)),
        lessons=_lessons(sweep.path),
        of=_file_name(sweep),
    )


def _changes(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the options that differ from the run file, and an equivalent training command."""
    try:
        stored = options(from_stored(dict(config)))
        base = options(load([f"+run={config.get('run')}"]))
    except (ConfigError, InputError) as error:
        return f"unknown: {error}", ""
    changed = {key: value for key, value in stored.items() if key not in NOT_COMPARED and base.get(key, value) != value}
    text = " ".join(overrides(changed))
    return text or "none", f"{TRAIN}+run={config.get('run')} {text}".rstrip()


def _result(record: RunRecord, folder: Path, file: SweepFile | None) -> str:
    rows = sweep_folder.read_rows(folder)
    measures = [file.primary.measure] if file else [read_measure(text) for text in KEY_RESULTS]
    results = ((measure, sweep_folder.measured(rows, measure)) for measure in measures)
    measured = next((f"{measure} = {value:.4g}" for measure, value in results if value == value), "")
    stopped = record.status in ("killed", "failed", "empty")
    return ", ".join(filter(None, [measured, f"{record.status} after {len(rows)} updates" if stopped else ""]))


def _lessons(folder: Path) -> str:
    path = folder / NOTES
    paragraphs = read_regular_text(path).split("\n\n") if path.is_file() else []
    first = next((text for text in paragraphs if text.strip() and not text.startswith("#")), "")
    text = " ".join(first.split())
    return text if len(text) <= LONGEST_LESSON else f"{text[:LONGEST_LESSON]}..."


def _file(sweep: sweep_folder.SweepFolder | None) -> SweepFile | None:
    content = sweep.content() if sweep else {}
    return parse_sweep(sweep.name, content, sweep.path) if sweep and content else None


def _file_name(sweep: sweep_folder.SweepFolder) -> str:
    """Return the sweep file with this content, else the sweep's own name."""
    if sweep.name in sweep_files():
        return sweep.name
    content = sweep.content()
    return next((name for name in sweep_files() if read_sweep_file(name).plain == content), sweep.name)


def _letter(run: str, sweep: sweep_folder.SweepFolder | None, file: SweepFile | None) -> str:
    letter = run.removeprefix(f"{sweep.name}-").rpartition("-seed")[0] if sweep else ""
    return letter if file and letter in file.runs else ""


def _search_space(file: SweepFile) -> str:
    assert file.search is not None
    return f"{file.search.trials} trials of {', '.join(file.search.space)}"


def _plain_overrides(changes: Mapping[str, Any]) -> str:
    return " ".join(overrides(changes)).replace("'", "")


FOLDER = PACKAGE / "docs" / "experiments"
PAGE, RECORDED, REFERENCE = FOLDER / "README.md", FOLDER / "runs.jsonl", FOLDER / "reference.yaml"
REFERENCE_KEYS = ("name", "source", "changes", "status", "result", "lessons", "ours")
HEAD = """\
# Experiments

Generated by `python eval/runs.py register` ([how](../sweeps.md#register)); do not edit. A run is one row, a search with
all its trials is one row. Run files and sweep files without a recorded run are listed as `python train.py` takes them.
They count as measured if a page of [results](../results/README.md) has their command, else as planned.
"""
REFERENCE_NOTE = """\
Figures reported in the logs of the original projects. Their systems differ from this one, and none was measured here.
The last column names the file that repeats the experiment. Experiments without a reported figure are in
[reference.yaml](reference.yaml) only, as are the logs' names.
"""


def register(names: Sequence[str] | None, root: Path, *, all_runs: bool) -> dict[str, int]:
    """Record runs under `root` (all, or those named), write the page, and return the number of rows by status.

    Raises `InputError` for unknown names, or if the package was installed without its docs.
    """
    if not REFERENCE.is_file():
        raise InputError(f"{REFERENCE}: not found; the register is part of the repository, so run this in a checkout")
    rows = rows_of_runs(root, None if all_runs else names or [])
    new = {row.name for row in rows}
    recorded = [*(row for row in read_recorded(RECORDED) if row.name not in new), *rows]
    write(RECORDED, partial(write_atomically, data=written(recorded)))
    page = register_page(recorded)
    write(PAGE, partial(write_atomically, data=page))
    files = ("measured in results" if row.result else row.status for row in planned_rows(recorded))
    return dict(Counter([*(row.status for row in recorded), *files]))


def register_page(recorded: Sequence[RegisterRow]) -> str:
    """Return the page of the recorded rows, the planned ones and the reference rows."""
    rows = planned_rows(recorded)
    sections = {
        "Runs": _rows(sorted(recorded, key=lambda row: row.name)) if recorded else "",
        "Measured": _files("results", [(row.command, row.result) for row in rows if row.result]),
        "Planned": _planned([row for row in rows if not row.result]),
        "Reference": f"{REFERENCE_NOTE}\n{_reference()}",
    }
    return "\n".join([HEAD, *(f"## {title}\n\n{text}\n" for title, text in sections.items() if text)])


def read_reference(path: Path) -> list[dict[str, str]]:
    """Read the reference rows; raises `ConfigError` naming the row and key of the first fault."""
    content = read_yaml(read_regular_text(path))
    if not isinstance(content, list):
        raise InputError(f"{path}: must be a list of rows with the keys {', '.join(REFERENCE_KEYS)}")
    rows = []
    for index, row in enumerate(content):
        entry = mapping(f"{path}: {index}", row, REFERENCE_KEYS, ("name", "source", "status", "result"))
        rows.append({key: text(f"{index}.{key}", entry[key]) if key in entry else "" for key in REFERENCE_KEYS})
    return rows


def _rows(rows: Sequence[RegisterRow]) -> str:
    headings = ["status", "key result", "lessons", "commit", "command"]
    cells = [
        [row.status, result, lessons, _code(row.commit[:10]), _code(row.command.removeprefix(TRAIN))]
        for row in rows
        for result, lessons in [[text.replace("<", "&lt;") for text in (row.result, row.lessons)]]
    ]
    return table(headings, cells)


def _files(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    return table(["command", heading], [[_code(command.removeprefix(TRAIN)), words] for command, words in rows])


def _planned(rows: Sequence[RegisterRow]) -> str:
    """Return the sweeps' runs with their changes, then the run files that change nothing, as one list."""
    plain = "".join(f"- {_code(row.command.removeprefix(TRAIN))}\n" for row in rows if row.changes == "none")
    changed = [(row.command, _code(row.changes)) for row in rows if row.changes != "none"]
    return f"{_files('changes', changed)}\nWithout changes:\n\n{plain}"


def _reference() -> str:
    rows = [row | {"ours": _code(row["ours"])} for row in read_reference(REFERENCE) if row["result"] != "none reported"]
    keys = [key for key in REFERENCE_KEYS if key != "source"]
    return table(keys, [[row[key] for key in keys] for row in rows])


def _code(words: str) -> str:
    inner = words.replace("`", "'")
    return f"`{inner}`" if words and words != "none" else words
