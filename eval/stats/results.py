"""Evaluations of several runs, read from their eval.json; rejected unless their conditions agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sparring.agents.opponents import players
from sparring.agents.opponents.players import trained_in
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import holds, read_regular_text
from sparring.configs.core.typed import Count, Flag, Positive, Text, read, require
from sparring.configs.games import DOGFIGHT_V0
from sparring.configs.serialization import check_option
from sparring.envs.diplomacy.config import DIPLOMACY
from sparring.envs.dogfight.config import DogfightEnvConfig
from sparring.eval.stats.tables import SCHEMA_VERSION

RESULTS = "eval.json"
CONDITIONS = ("env", "rules", "bot_rate", "action_repeat", "deterministic", "games", "seed")
"""Conditions that must agree for win rates to be comparable."""

_OTHER_GAME = (
    "is of Diplomacy, and only evaluations of the dogfight are summed up here; read what eval/run.py --env diplomacy"
    " --ckpt writes for each run, or draw their metrics with eval/curves.py"
)
_OTHER_PACKAGE = (
    "is of a game of PettingZoo or OpenSpiel, and only evaluations of the dogfight are summed up here; draw the "
    "metrics of such runs with eval/curves.py"
)

Task = tuple[str, str]
"""Physics and opponent."""


class StoredRecord(TypedDict):
    """Games against one opponent under one physics, as in eval.json."""

    regime: Text
    opponent: Text
    wins: Count
    games: Positive


class StoredEvaluation(TypedDict):
    """What is read of an eval.json: the conditions and the records."""

    env: Text
    rules: Text
    bot_rate: Text
    action_repeat: Positive
    deterministic: Flag
    games: Positive
    seed: Count
    records: list[StoredRecord]


class ResultsError(InputError):
    """Raised for results that cannot be read or compared; the message is one line with the file and the difference."""


@dataclass(frozen=True)
class EvaluationResults:
    """Evaluation of one run: its conditions, and the win rate in [0, 1] of every task."""

    name: str
    path: Path
    conditions: dict[str, Any]
    win_rates: dict[Task, float]


@dataclass(frozen=True)
class RunGroup:
    """R runs evaluated under the same conditions."""

    runs: tuple[EvaluationResults, ...]

    @property
    def names(self) -> list[str]:
        """Names of the runs as given."""
        return [run.name for run in self.runs]

    @property
    def tasks(self) -> list[Task]:
        """Every physics and opponent, in the order of the first run's file."""
        return list(self.runs[0].win_rates)

    @property
    def regimes(self) -> list[str]:
        """Every physics, once."""
        return list(dict.fromkeys(regime for regime, _ in self.tasks))

    @property
    def conditions(self) -> str:
        """Conditions in words."""
        conditions = self.runs[0].conditions
        policy = "deterministic" if conditions["deterministic"] else "stochastic"
        games = f"{conditions['games']} games per opponent in seat-swapped pairs, seed {conditions['seed']}"
        return f"{conditions['rules']} rules, bot_rate={conditions['bot_rate']}, {policy}; {games}"

    def scores(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the win rates [T, R] of `tasks`."""
        return np.array([[run.win_rates[task] for run in self.runs] for task in tasks])


def read_groups(ours: Sequence[str], theirs: Sequence[str]) -> tuple[RunGroup, RunGroup | None]:
    """Read the runs of one group, and of a second unless `theirs` is empty.

    Raises `ResultsError` for a file that is missing, not an evaluation, named twice, or different from the first in
    conditions, physics or opponents.
    """
    runs = [read_results(text) for text in (*ours, *theirs)]
    paths = [run.path for run in runs]
    for run in runs:
        if paths.count(run.path) > 1:
            raise ResultsError(f"{run.name}: is named twice; every run counts once, leave one out")
        _check_alike(runs[0], run)
    return RunGroup(tuple(runs[: len(ours)])), RunGroup(tuple(runs[len(ours) :])) if theirs else None


def read_results(text: str) -> EvaluationResults:
    """Read the evaluation of a run given by its name, its folder or its eval.json. Raises `ResultsError`."""
    path = _find(text)
    try:
        content = json.loads(read_regular_text(path, follow=True))
        kind, version = content["kind"], content["schema_version"]
        if kind == "diplomacy":
            raise ResultsError(f"{path}: {_OTHER_GAME}")
        if kind == "imported":
            raise ResultsError(f"{path}: {_OTHER_PACKAGE}")
        if kind != "evaluation" or type(version) is not int or version != SCHEMA_VERSION:
            expected = f"evaluation of version {SCHEMA_VERSION}"
            raise ResultsError(f"{path}: is a {kind} of version {version}, not an {expected}; run eval/run.py --ckpt")
        stored = read(StoredEvaluation, {"env": DOGFIGHT_V0} | content)  # Default for files older than this entry.
        conditions = {name: stored[name] for name in CONDITIONS}  # type: ignore[literal-required]
        for name in ("rules", "bot_rate"):
            check_option(DogfightEnvConfig, name, conditions[name])
        for number, record in enumerate(stored["records"]):
            wins, games = record["wins"], record["games"]
            require(wins <= games, f"records.{number}.wins={wins}: must be at most the {games} games")
        win_rates = {(r["regime"], r["opponent"]): r["wins"] / r["games"] for r in stored["records"]}
    except ResultsError:
        raise
    except InputError as error:
        raise ResultsError(f"{path}: {error}; run eval/run.py again") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultsError(
            f"{path}: is not the {RESULTS} of an evaluation ({error!r}); run eval/run.py again"
        ) from error
    if not win_rates:
        raise ResultsError(f"{path}: holds no games; run eval/run.py again")
    return EvaluationResults(text, path, conditions, win_rates)


def _find(text: str) -> Path:
    places = [place / text for place in (Path(), players.CHECKPOINTS)]
    for path in [*places, *(place / RESULTS for place in places)]:
        if holds(path.is_file):
            return path.resolve()
    if (run := players.find_folder(text)) and trained_in(run / "config.yaml") == DIPLOMACY:
        raise ResultsError(f"{text}: {_OTHER_GAME}")
    raise ResultsError(f"{text}: no {RESULTS} there or in checkpoints/{text}; make one: eval/run.py --ckpt {text}")


def _check_alike(first: EvaluationResults, other: EvaluationResults) -> None:
    for name in CONDITIONS:
        base, value = first.conditions[name], other.conditions[name]
        if base != value:
            raise ResultsError(f"{other.name}: {name}={value}, but {first.name} has {base}; evaluate them alike")
    for index, what in enumerate(("regimes", "opponents")):
        base, value = ({task[index] for task in run.win_rates} for run in (first, other))
        if base != value:
            missing, extra = (", ".join(sorted(names)) or "none" for names in (base - value, value - base))
            differ = f"{what} differ from {first.name}'s (missing {missing}; extra {extra})"
            raise ResultsError(f"{other.name}: {differ}; evaluate them alike")
    if first.win_rates.keys() != other.win_rates.keys():
        raise ResultsError(f"{other.name}: other opponents in some regimes than {first.name}'s; evaluate them alike")
