"""The `search` section of a sweep file: a sampler, its trials, when it gives one up, and the values to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparring.configs.core.errors import ConfigError
from sparring.configs.sweeps.sections import mapping, number, one_of, whole

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
        space={key: _values(f"search.space.{key}", one) for key, one in space.items()},
    )


def _pruning(value: Any) -> Pruning:
    content = mapping("search.prune", value, ("warmup_rows", "startup_trials"))
    rows = whole("search.prune.warmup_rows", content.get("warmup_rows", 0), 0, MOST_ROWS)
    return Pruning(rows, whole("search.prune.startup_trials", content.get("startup_trials", 4), 1, MOST_TRIALS))


def _values(key: str, value: Any) -> Interval | ChoiceSpace:
    content = mapping(key, value, ("low", "high", "log", "choices"))
    if "choices" in content:
        given = content["choices"]
        if len(content) > 1 or not isinstance(given, list) or not given:
            raise ConfigError(f"{key}.choices={given}: must be a list of values, and stand alone")
        if not all(isinstance(one, bool | int | float | str) for one in given):
            raise ConfigError(f"{key}.choices={given}: must hold numbers, texts and truth values only")
        return ChoiceSpace(tuple(given))
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
