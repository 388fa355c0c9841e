"""Compare two recordings: `python -m tests.golden.compare FOLDER FOLDER`.

Every file of every part is compared leaf by leaf, exactly. What a clock, a path or a declared rename makes differ is
left out (`IGNORED_FILES`, `IGNORED_KEYS`, `renames.json`), and nothing else. Runs that were cut and resumed are also
compared with the uncut ones of the same recording.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.golden.leaves import Leaves, both, read_leaves, same, short
from tests.golden.parts import PARTS
from tests.golden.record import FILE
from tests.golden.renames import Renames

SHOWN = 8
"""So many differing files of a part are named."""
IGNORED_FILES = {
    "*.log": "what commands print is for people",
    "*.md": "tables made of the .json beside them",
    "*events.out.tfevents*": "the numbers of metrics.jsonl again, with times",
    "*lock": "names the process that held it",
}
"""Patterns of files that are not compared, and why."""
IGNORED_KEYS = (
    ("*metrics.jsonl", re.compile(r"/time/|_(time|overlap|total|reload)_s$"), "seconds"),
    ("*state.pt", re.compile(r"^logger/bytes/|^seconds$"), "lengths of logs that hold seconds; seconds"),
    ("*", re.compile(r"(^|/)(config_|summary_)?sha256$|/(logs_sha256|policies)/"),
     "of files that hold paths or seconds; contents are compared"),
    ("*manifest.json", re.compile(r"(^|\.pt/)bytes$"), "the length of a file that holds paths and options"),
    ("*.json", re.compile(r"^command$"), "how the evaluation was called"),
)  # fmt: skip
"""Files, keys in them that are not compared, and why."""
TWINS = ("metrics.jsonl", "final.pt", "best.pt", "state/*/state.pt", "final/*.safetensors", "league.json", "pool/*")
"""Files of a resumed run that are the same as those of the uncut one, where both have them."""
NEEDED = ("metrics.jsonl", "state/*/state.pt")
"""Those of which both have at least one."""
MESSAGES = "events.jsonl"
NOTHING = "(nothing)"


@dataclass(frozen=True)
class Difference:
    """The first leaf in which a file differs, and how many others do; `key` is empty where the file is missing."""

    file: str
    key: str
    first: str
    second: str
    others: int = 0

    def __str__(self) -> str:
        more = f" (and {self.others} more)" if self.others else ""
        return f"{self.file}{f': {self.key}' if self.key else ''}: {self.first} | {self.second}{more}"


class Recording:
    """What `record.py` left in `folder`; raises `FileNotFoundError` where there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about = json.loads((folder / FILE).read_text(encoding="utf-8"))
        self.source: str = about["source"]
        self.machine: dict[str, Any] = about["machine"]
        self.parts: dict[str, dict[str, Any]] = about["parts"]
        self._places: dict[str, str] = about["places"]

    def files(self, part: str) -> list[str]:
        """Names of a part's files that count, those first that say most about a difference."""
        root = self.folder / part
        names = [file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()]
        counted = [name for name in names if not any(fnmatch(name, pattern) for pattern in IGNORED_FILES)]
        return sorted(counted, key=_importance)

    def leaves(self, part: str, file: str, renames: Renames) -> Leaves:
        """Read what counts of a file."""
        leaves = read_leaves(self.folder / part / file, self._places)
        kept = {key: leaf for key, leaf in leaves.items() if not _ignored(file, key)}
        return renames.leaves(Path(file).name, kept)


def compare_part(first: Recording, second: Recording, part: str, renames: Renames, messages: bool) -> list[Difference]:
    """Find every file of a part that differs between two recordings; `messages` says whether their wording counts."""
    found = []
    ours, theirs = first.files(part), second.files(part)
    for file in [*ours, *(name for name in theirs if name not in ours)]:
        if file not in ours or file not in theirs:
            sides = ["there" if file in names else "missing" for names in (ours, theirs)]
            found.append(Difference(file, "", sides[0], sides[1]))
            continue
        leaves = [recording.leaves(part, file, renames) for recording in (first, second)]
        leaves[0] = renames.without_dropped(Path(file).name, *leaves)
        if Path(file).name == MESSAGES and not messages:
            leaves = [{key: leaf for key, leaf in one.items() if not key.endswith("/event")} for one in leaves]
        difference = first_difference(file, *leaves)
        found += [difference] if difference else []
    return found


def compare_twins(recording: Recording, part: str, uncut: str, resumed: str) -> list[Difference]:
    """Find where a resumed run did not end as the uncut one, in weights, state and metrics."""
    files = recording.files(part)
    ours, theirs = (
        {file.partition("/")[2] for file in files if file.startswith(f"{run}/") and _is_result(file.partition("/")[2])}
        for run in (uncut, resumed)
    )
    found = []
    for file in sorted(ours & theirs, key=_importance):  # of states and snapshots each keeps the last
        pair = [_without_config(recording, part, f"{run}/{file}") for run in (uncut, resumed)]
        difference = first_difference(f"{file} of {uncut} and {resumed}", *pair)
        found += [difference] if difference else []
    for pattern in NEEDED:
        if not any(fnmatch(file, pattern) for file in ours & theirs):
            found.append(Difference(f"{uncut} and {resumed}", pattern, NOTHING, NOTHING))
    return found


def _without_config(recording: Recording, part: str, file: str) -> Leaves:
    """Leaves without the config, whose name differs, and the run's name."""
    leaves = recording.leaves(part, file, Renames())
    return {key: leaf for key, leaf in leaves.items() if not re.search(r"(^|/)config/|(^|/)run$", key)}


def first_difference(file: str, first: Leaves, second: Leaves) -> Difference | None:
    """Find the first leaf that is not the same, or not there, in one of the two."""
    keys = [*first, *(key for key in second if key not in first)]
    wrong = [key for key in keys if key not in first or key not in second or not same(first[key], second[key])]
    if not wrong:
        return None
    key = wrong[0]
    if key in first and key in second:
        texts = both(first[key], second[key])
    else:
        texts = (short(first[key]), NOTHING) if key in first else (NOTHING, short(second[key]))
    return Difference(file, key, *texts, len(wrong) - 1)


def report(
    first: Recording, second: Recording, renames: Renames, messages: bool = True, parts: Sequence[str] = ()
) -> int:
    """Print how `parts` compare, those of both recordings by default; return how many differ or failed."""
    for name in first.machine:
        if first.machine[name] != second.machine.get(name):
            print(f"warning: {name} was {first.machine[name]} and is {second.machine.get(name)}: digits may differ")
    print(f"first: {first.source}\nsecond: {second.source}")
    wrong = 0
    for part in parts or list(dict.fromkeys([*first.parts, *second.parts])):
        lines = _failures(first, second, part) or _differences(first, second, part, renames, messages)
        wrong += bool(lines)
        print(f"  {part:<22} {'DIFFERS' if lines else f'equal, {len(first.files(part))} files'}")
        for line in lines[:SHOWN]:
            print(f"    {line}")
        if len(lines) > SHOWN:
            print(f"    and {len(lines) - SHOWN} more files")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Compare the two recordings named on the command line; 0 if they are equal, 1 if not."""
    first, second = (Recording(Path(folder)) for folder in arguments)
    return min(report(first, second, Renames.read()), 1)


def _failures(first: Recording, second: Recording, part: str) -> list[str]:
    """Say what kept a part from being recorded in either."""
    sides = (("first", first), ("second", second))
    if missing := [side for side, one in sides if part not in one.parts]:
        return [f"is not in the {side} recording" for side in missing]
    failed = [f"{side}: {text}" for side, one in sides if (text := one.parts[part]["failed"])]
    return failed or [f"{side}: nothing was recorded" for side, one in sides if not one.files(part)]


def _differences(first: Recording, second: Recording, part: str, renames: Renames, messages: bool) -> list[str]:
    found = [str(difference) for difference in compare_part(first, second, part, renames, messages)]
    twins = next((known.twins for known in PARTS if known.name == part), ())
    for side, recording in (("first", first), ("second", second)):
        for uncut, resumed in twins:
            found += [f"{side}: {difference}" for difference in compare_twins(recording, part, uncut, resumed)]
    return found


def _importance(file: str) -> tuple[int, str]:
    """Rank a file by how much it tells about what has changed."""
    name = Path(file).name
    order = ("config.yaml", "metrics.jsonl", "state.pt", "*.jsonl", "eval*.json", "*.json", "*")
    return next(place for place, pattern in enumerate(order) if fnmatch(name, pattern)), file


def _is_result(file: str) -> bool:
    return any(fnmatch(file, pattern) for pattern in TWINS)


def _ignored(file: str, key: str) -> bool:
    return any(fnmatch(file, pattern) and expression.search(key) for pattern, expression, _ in IGNORED_KEYS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
