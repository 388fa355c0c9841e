"""A sweep file: a question, the runs that answer it, the measures, and the expected results.

`configs/sweep/NAME.yaml` holds the hypothesis, the run file that all runs share and their `defaults`. The runs A, B,
... have their own changes, or there is a `search` of values. Then come the primary measure and its goal, secondary
measures, the expected ranking and the success criteria. docs/sweeps.md has the whole form. Each error is one line with
key, value, allowed values and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import ConfigError, choose, moved, suggestion
from sparring.configs.core.files import read_regular_text
from sparring.configs.core.typed import shown
from sparring.configs.kinds import bare
from sparring.configs.load import CONFIG_DIR, purposes, runs
from sparring.configs.serialization import read_options
from sparring.eval.analysis.sweeps.criteria import Criterion, Measure, read_criterion, read_measure

__getattr__ = moved(__name__, {"overrides": "sparring.configs.overrides:nested_texts"})
FOLDER, LAUNCHERS = CONFIG_DIR / "sweep", CONFIG_DIR / "launcher"
KEYS = (
    "hypothesis", "run", "seeds", "defaults", "runs", "search", "primary", "secondary", "expected", "criteria",
)  # fmt: skip
GOALS = ("lower", "higher")
LETTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,15}")
MOST_SEED = 2**31 - 1
PLACES = re.compile(r"^(defaults|runs\.\w+\.changes|search\.space)\.|\.choices$")
"""What stands around the key of an option in a sweep file."""
SAMPLERS = ("tpe", "random")
MOST_TRIALS = 1000
MOST_ROWS = 10**9


@dataclass(frozen=True)
class Interval:
    """Numbers in [low, high], whole if both ends are; `log` draws uniformly in the logarithm."""

    low: float | int
    high: float | int
    log: bool = False

    @property
    def whole(self) -> bool:
        """True for whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def extremes(self) -> list[Any]:
        """Values to check before the search."""
        return [self.low, self.high]


@dataclass(frozen=True)
class ChoiceSpace:
    """One of several values: numbers, texts or truth values."""

    values: tuple[Any, ...]

    @property
    def extremes(self) -> list[Any]:
        """Values to check before the search."""
        return list(self.values)


@dataclass(frozen=True)
class Pruning:
    """A trial ends early when its measure is worse than the median of earlier trials at the same row.

    Neither in the first `warmup_rows` rows of a trial nor in the first `startup_trials` trials.
    """

    warmup_rows: int
    startup_trials: int


@dataclass(frozen=True)
class Search:
    """A search of `trials` trials over `space`, which maps options to what they may be."""

    sampler: str
    trials: int
    pruning: Pruning | None
    space: dict[str, Interval | ChoiceSpace]


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
    return purposes(FOLDER)


def launchers() -> list[str]:
    """Return the names for `launcher=`."""
    return sorted(path.stem for path in LAUNCHERS.glob("*.yaml"))


def read_sweep_file(name: str) -> SweepFile:
    """Read `configs/sweep/NAME.yaml`; raises `InputError` in one line for an unknown name and any fault in it."""
    if name in launchers():
        raise ConfigError(f"+sweep={name}: is a launcher, not a sweep; write launcher={name}")
    path = FOLDER / f"{choose('sweep', name, sweep_files())}.yaml"
    try:
        content = read_options(read_regular_text(path), option_of)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return parse_sweep(name, content, path)


def option_of(key: str) -> str:
    """Return the bare key of an option from its place in a sweep file, such as runs.A.changes.seed."""
    return bare(PLACES.sub("", key))


def parse_sweep(name: str, plain: Any, source: Path | str) -> SweepFile:
    """Build the sweep that a file's content describes; `source` names the file in errors."""
    try:
        return _parsed(name, plain)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _parsed(name: str, plain: Any) -> SweepFile:
    content = mapping("sweep", plain, KEYS, ("hypothesis", "run", "primary"))
    if ("runs" in content) == ("search" in content):
        raise ConfigError("runs, search: give exactly one; runs names runs A, B, ..., search draws values")
    lettered = {letter: _run(letter, run) for letter, run in mapping("runs", content.get("runs", {})).items()}
    if "runs" in content and not lettered:
        raise ConfigError("runs={}: must name at least one run, such as A: {description: baseline}")
    return SweepFile(
        name=name,
        hypothesis=text("hypothesis", content["hypothesis"]),
        run=choose("run", text("run", content["run"]), runs()),
        seeds=_seeds(content.get("seeds", [0])),
        defaults=mapping("defaults", content.get("defaults", {})),
        runs=lettered,
        search=read_search(content["search"]) if "search" in content else None,
        primary=_primary(content["primary"]),
        secondary=tuple(_each("secondary", content, read_measure)),
        expected=_expected(texts("expected", content.get("expected", [])), lettered),
        criteria=_criteria(content, lettered),
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


def _expected(letters: list[str], runs: dict[str, SweepRun]) -> tuple[str, ...]:
    for letter in letters:
        one_of("expected", letter, runs)
    if len(set(letters)) < len(letters):
        raise ConfigError(f"expected={letters}: a run is given twice; leave one out")
    return tuple(letters)


def _criteria(content: dict[str, Any], runs: dict[str, SweepRun]) -> tuple[Criterion, ...]:
    criteria = _each("criteria", content, read_criterion)
    for index, criterion in enumerate(criteria):
        compared, base = criterion.minus or ((), "")
        for letter in (*compared, base) if compared else ():
            one_of(f"criteria.{index}", letter, runs)
        if base in compared:
            raise ConfigError(f"criteria.{index}={criterion}: {base} minus itself is 0; name another run")
    return tuple(criteria)


def _each(key: str, content: dict[str, Any], reader: Callable[[str], Any]) -> list[Any]:
    return [_read(f"{key}.{index}", item, reader) for index, item in enumerate(texts(key, content.get(key, [])))]


def _read(key: str, value: str, reader: Callable[[str], Any]) -> Any:
    try:
        return reader(value)
    except ConfigError as error:
        raise ConfigError(f"{key}={error}") from error


def read_search(value: Any) -> Search:
    """Read the section; raises `ConfigError` in one line."""
    content = mapping("search", value, ("sampler", "trials", "prune", "space"), ("trials", "space"))
    space = mapping("search.space", content["space"])
    if not space:
        raise ConfigError("search.space={}: must name at least one option, as in ppo.clip: {low: 0.1, high: 0.3}")
    return Search(
        sampler=one_of("search.sampler", content.get("sampler", "tpe"), SAMPLERS),
        trials=whole("search.trials", content["trials"], 1, MOST_TRIALS),
        pruning=_pruning(content["prune"]) if "prune" in content else None,
        space={key: _values(f"search.space.{key}", values) for key, values in space.items()},
    )


def _pruning(value: Any) -> Pruning:
    content = mapping("search.prune", value, ("warmup_rows", "startup_trials"))
    rows = whole("search.prune.warmup_rows", content.get("warmup_rows", 0), 0, MOST_ROWS)
    return Pruning(rows, whole("search.prune.startup_trials", content.get("startup_trials", 4), 1, MOST_TRIALS))


def _values(key: str, value: Any) -> Interval | ChoiceSpace:
    content = mapping(key, value, ("low", "high", "log", "choices"))
    if "choices" in content:
        choices = content["choices"]
        if len(content) > 1 or not isinstance(choices, list) or not choices:
            raise ConfigError(f"{key}.choices={choices}: must be a list of values, and stand alone")
        if not all(isinstance(choice, bool | int | float | str) for choice in choices):
            raise ConfigError(f"{key}.choices={choices}: must hold numbers, texts and truth values only")
        return ChoiceSpace(tuple(choices))
    mapping(key, value, needed=("low", "high"))
    low, high = number(f"{key}.low", content["low"]), number(f"{key}.high", content["high"])
    log = content.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"{key}.log={log}: must be true or false")
    if not low < high:
        raise ConfigError(f"{key}.high={high}: must be above low={low}")
    if log and low <= 0:
        raise ConfigError(f"{key}.low={low}: must be above 0 with log: true")
    return Interval(low, high, log)


def mapping(key: str, value: Any, names: Sequence[str] = (), needed: Sequence[str] = ()) -> dict[str, Any]:
    """Return a mapping with text keys, no keys outside `names` if given, and all of `needed`."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{key}={shown(value)}: must be a mapping of names, such as {{A: ...}}")
    for name in value:
        if names and name not in names:
            raise ConfigError(f"{key}.{name}: unknown key; choose from {', '.join(names)}{suggestion(name, names)}")
    for name in needed:
        if name not in value:
            raise ConfigError(f"{key}.{name} is missing; add it, or see docs/sweeps.md for the whole form")
    return value


def text(key: str, value: Any) -> str:
    """Return a non-empty text on one line."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key}={shown(value)}: must be text; write a sentence, in quotes if it has a colon")
    return " ".join(value.split())


def texts(key: str, value: Any) -> list[str]:
    """Return a list of texts."""
    if not isinstance(value, list):
        raise ConfigError(f"{key}={shown(value)}: must be a list of texts, such as [a, b]")
    return [text(f"{key}.{index}", item) for index, item in enumerate(value)]


def whole(key: str, value: Any, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{key}={shown(value)}: must be a whole number in [{low}, {high}]")
    return value


def number(key: str, value: Any) -> float | int:
    """Return a finite number as it is written."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise ConfigError(f"{key}={shown(value)}: must be a finite number; write 1.0e-4, since YAML reads 1e-4 as text")
    return value


def one_of(key: str, value: Any, accepted: Iterable[str]) -> str:
    """Return one of the `accepted` texts."""
    names = list(accepted)
    if value not in names:
        raise ConfigError(f"{key}={shown(value)}: choose from {', '.join(names)}{suggestion(value, names)}")
    return str(value)
