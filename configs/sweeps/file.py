"""A sweep file: a question, the runs that answer it, what is measured, and what is expected.

`configs/sweep/NAME.yaml` holds the hypothesis, the run file that all runs share, their `defaults`, the runs A, B, ...
with their own changes (or a `search` of values), the primary measure and its goal, secondary measures, the expected
ranking and the success criteria. docs/sweeps.md has the whole form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.core.regular_file import read_regular_text
from sparring.configs.kinds import bare
from sparring.configs.load import CONFIG_DIR, PURPOSE, runs
from sparring.configs.serialization import read_options
from sparring.configs.sweeps.criteria import Criterion, Measure, read_criterion, read_measure
from sparring.configs.sweeps.plan import launchers
from sparring.configs.sweeps.search_space import Search, read_search
from sparring.configs.sweeps.sections import mapping, one_of, text, texts, whole

FOLDER = CONFIG_DIR / "sweep"
KEYS = (
    "hypothesis", "run", "seeds", "defaults", "runs", "search", "primary", "secondary", "expected", "criteria",
)  # fmt: skip
GOALS = ("lower", "higher")
LETTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,15}")
MOST_SEED = 2**31 - 1
PLACES = re.compile(r"^(defaults|runs\.\w+\.changes|search\.space)\.|\.choices$")
"""What stands around the key of an option in a sweep file."""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep, before its seeds: nested options in `changes`."""

    description: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class PrimaryMeasure:
    """The measure that ranks the runs."""

    measure: Measure
    goal: str
    """lower or higher: which values are better."""


@dataclass(frozen=True)
class SweepFile:
    """Content of a sweep file; either `runs` or `search` is given."""

    name: str
    hypothesis: str
    run: str
    seeds: tuple[int, ...]
    defaults: dict[str, Any]
    runs: dict[str, SweepRun]
    search: Search | None
    primary: PrimaryMeasure
    secondary: tuple[Measure, ...]
    expected: tuple[str, ...]
    """Letters of the runs, best first; empty if no ranking is expected."""
    criteria: tuple[Criterion, ...]
    plain: dict[str, Any]
    """The file's own content."""


def sweep_files() -> dict[str, str]:
    """Return the sweep files by name, each with its purpose."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        match = PURPOSE.search(path.read_text(encoding="utf-8"))
        found[path.stem] = match.group(1).strip() if match else ""
    return found


def read_sweep_file(name: str) -> SweepFile:
    """Read `configs/sweep/NAME.yaml`; raises `InputError` in one line for an unknown name and any fault in it."""
    if name in launchers():
        raise ConfigError(f"+sweep={name}: is a launcher, not a sweep; write launcher={name}")
    path = FOLDER / f"{choose('sweep', name, sweep_files())}.yaml"
    return parse_sweep(name, read_options(read_regular_text(path), option_of), path)


def option_of(place: str) -> str:
    """Return the bare key of an option from its place in a sweep file, such as runs.A.changes.seed."""
    return bare(PLACES.sub("", place))


def parse_sweep(name: str, plain: Any, place: Path | str) -> SweepFile:
    """Build the sweep that a file's content describes; `place` names the file in errors."""
    try:
        return _parsed(name, plain)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _parsed(name: str, plain: Any) -> SweepFile:
    content = mapping("sweep", plain, KEYS, ("hypothesis", "run", "primary"))
    if ("runs" in content) == ("search" in content):
        raise ConfigError("runs, search: give exactly one; runs names runs A, B, ..., search draws values")
    found = {letter: _run(letter, one) for letter, one in mapping("runs", content.get("runs", {})).items()}
    if "runs" in content and not found:
        raise ConfigError("runs={}: must name at least one run, such as A: {description: baseline}")
    return SweepFile(
        name=name,
        hypothesis=text("hypothesis", content["hypothesis"]),
        run=choose("run", text("run", content["run"]), runs()),
        seeds=_seeds(content.get("seeds", [0])),
        defaults=mapping("defaults", content.get("defaults", {})),
        runs=found,
        search=read_search(content["search"]) if "search" in content else None,
        primary=_primary(content["primary"]),
        secondary=tuple(_each("secondary", content, read_measure)),
        expected=_expected(texts("expected", content.get("expected", [])), found),
        criteria=_criteria(content, found),
        plain=content,
    )


def _run(letter: str, value: Any) -> SweepRun:
    if not LETTER.fullmatch(letter):
        raise ConfigError(f"runs.{letter}: a run's name is 1 to 16 letters, digits or '_'; rename it, as in A")
    content = mapping(f"runs.{letter}", value, ("description", "changes"), ("description",))
    changes = mapping(f"runs.{letter}.changes", content.get("changes", {}))
    return SweepRun(text(f"runs.{letter}.description", content["description"]), changes)


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"seeds={value}: must be a list of whole numbers, such as [0, 1, 2]")
    seeds = [whole(f"seeds.{index}", seed, 0, MOST_SEED) for index, seed in enumerate(value)]
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds={seeds}: a seed is given twice; leave one out")
    return tuple(seeds)


def _primary(value: Any) -> PrimaryMeasure:
    content = mapping("primary", value, ("measure", "goal"), ("measure", "goal"))
    measure = _read("primary.measure", text("primary.measure", content["measure"]), read_measure)
    return PrimaryMeasure(measure, one_of("primary.goal", content["goal"], GOALS))


def _expected(letters: list[str], found: dict[str, SweepRun]) -> tuple[str, ...]:
    for letter in letters:
        one_of("expected", letter, found)
    if len(set(letters)) < len(letters):
        raise ConfigError(f"expected={letters}: a run is given twice; leave one out")
    return tuple(letters)


def _criteria(content: dict[str, Any], found: dict[str, SweepRun]) -> tuple[Criterion, ...]:
    criteria = _each("criteria", content, read_criterion)
    for index, criterion in enumerate(criteria):
        others, base = criterion.minus or ((), "")
        for letter in (*others, base) if others else ():
            one_of(f"criteria.{index}", letter, found)
        if base in others:
            raise ConfigError(f"criteria.{index}={criterion}: {base} minus itself is 0; name another run")
    return tuple(criteria)


def _each(key: str, content: dict[str, Any], reader: Callable[[str], Any]) -> list[Any]:
    return [_read(f"{key}.{index}", one, reader) for index, one in enumerate(texts(key, content.get(key, [])))]


def _read(key: str, value: str, reader: Callable[[str], Any]) -> Any:
    try:
        return reader(value)
    except ConfigError as error:
        raise ConfigError(f"{key}={error}") from error
