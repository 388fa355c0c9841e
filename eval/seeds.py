"""Several seeds of one configuration as one result: `python eval/seeds.py RUN RUN RUN [--against RUN RUN]`.

Reads the eval.json that `eval/run.py` wrote for each run. A score is one run's win rate against one opponent under one
physics, or its mean return in a Gymnasium environment. The runs are summarized by the interquartile mean (IQM), the
mean of the middle half of all scores. A single lucky or failed seed hardly changes it. Its 95 % interval is a
stratified percentile bootstrap: within each opponent and physics, runs are resampled with replacement. With `--against`
the probability of improvement is P(X > Y) + P(X = Y) / 2 for a random run X of the first group and Y of the second,
averaged over opponents. Source: R. Agarwal et al., "Deep reinforcement learning at the edge of the statistical
precipice", NeurIPS 2021.

With fewer than four scores, the IQM is the mean. A bootstrap interval of three to five runs is too narrow: it does not
cover failed seeds unless the sample contains one. The same files and options produce identical output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/seeds.py")

from typing import NotRequired

import numpy as np
from typing_extensions import TypedDict

from sparring.agents.opponents import players
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import holds, read_json
from sparring.configs.core.typed import Count, Flag, Number, Positive, Text, read, require
from sparring.configs.games import DOGFIGHT_V0, current_id
from sparring.configs.serialization import check_option
from sparring.envs.game import Game, game_of, games, load
from sparring.eval.command import CommandReport, make_folders, publish_report, run_command, several_names, written
from sparring.eval.options import SEED, CommandOptions, CommandText, argument, from_keywords, parse
from sparring.eval.stats.tables import SCHEMA_VERSION, decisions, held_out_names, interval_text, percent, table

if TYPE_CHECKING:
    from sparring.eval.stats.aggregate import Estimate, Spread

RESULTS = "eval.json"
COMMON = ("env", "games", "seed")
"""Conditions that must agree for win rates to be comparable, in every game; a game's own are in its descriptor."""
IMPORTED = "imported"
EPISODES = "episodes"
RETURN = "return"
"""Stands for the opponent in an environment without opponents."""

Task = tuple[str, str]
"""Physics and opponent."""


class StoredRecord(TypedDict):
    """Games against one opponent (under one physics, if the game has several), as in eval.json."""

    regime: NotRequired[Text]
    player: NotRequired[Text]
    opponent: Text
    wins: Count
    draws: Count
    games: Positive


class StoredEvaluation(TypedDict):
    """The parts of an eval.json that are read: the conditions of every game and the records."""

    env: NotRequired[Text]
    deterministic: NotRequired[Flag]
    games: Positive
    seed: Count
    records: list[StoredRecord]


class StoredReturn(TypedDict):
    """Returns of episodes."""

    mean: Number


StoredEpisodes = TypedDict(
    "StoredEpisodes", {"env": Text, "episodes": Positive, "seed": Count, "deterministic": Flag, "return": StoredReturn}
)
"""The same for an evaluation in a Gymnasium environment."""


class ResultsError(InputError):
    """Raised for results that cannot be read or compared; the message is one line with the file and the difference."""


@dataclass(frozen=True)
class EvaluationResults:
    """Evaluation of one run: its conditions, and the win rate in [0, 1] of every task."""

    name: str
    path: Path
    conditions: dict[str, Any]
    win_rates: dict[Task, float]
    points: dict[Task, float]
    """Score, (wins + draws / 2) / games."""
    decided: dict[Task, float]
    """Share of games with a winner."""

    @property
    def returns(self) -> bool:
        """True if the scores are mean returns, without points and decided shares."""
        return not self.points


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
        """The distinct physics."""
        return list(dict.fromkeys(regime for regime, _ in self.tasks))

    @property
    def conditions(self) -> str:
        """Conditions in words."""
        conditions = self.runs[0].conditions
        settings = [
            decisions(deterministic=value) if name == "deterministic" else f"{name}={value}"
            for name, value in conditions.items()
            if name not in COMMON
        ]
        unit = "episodes" if self.runs[0].returns else "games per opponent"
        games = f"{conditions['games']} {unit}, seed {conditions['seed']}"
        return "; ".join([", ".join(filter(None, [conditions["env"], *settings])), games])

    def scores(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the win rates [T, R] of `tasks`."""
        return np.array([[run.win_rates[task] for run in self.runs] for task in tasks])

    def means(self, tasks: Sequence[Task]) -> tuple[float | None, float | None]:
        """Return the mean score and decided share over all runs and `tasks`; None for returns."""
        if self.runs[0].returns:
            return None, None
        score, decided = (
            float(np.mean([[figures[task] for task in tasks] for figures in per_run]))
            for per_run in ([run.points for run in self.runs], [run.decided for run in self.runs])
        )
        return score, decided


def read_groups(ours: Sequence[str], against: Sequence[str]) -> tuple[RunGroup, RunGroup | None]:
    """Read the runs of one group, and of a second unless `against` is empty.

    Raises `ResultsError` for a file that is missing, not an evaluation, named twice, or different from the first in
    conditions, physics or opponents.
    """
    runs = [read_results(text) for text in (*ours, *against)]
    paths = [run.path for run in runs]
    for run in runs:
        if paths.count(run.path) > 1:
            raise ResultsError(f"{run.name}: is named twice; remove one")
        _check_alike(runs[0], run)
    return RunGroup(tuple(runs[: len(ours)])), RunGroup(tuple(runs[len(ours) :])) if against else None


def read_results(text: str) -> EvaluationResults:
    """Read the evaluation of a run given by its name, its folder or its eval.json. Raises `ResultsError`."""
    path = _find(text)
    try:
        content = read_json(path, follow=True)
        kind, version = content["kind"], content["schema_version"]
        if kind == EPISODES:
            return _read_episodes(text, path, content)
        game = next((game for game in games() if game.results == (kind, version) and type(version) is int), None)
        if game is None and (kind, version) != (IMPORTED, SCHEMA_VERSION):
            expected = "evaluation in its current form"
            raise ResultsError(f"{path}: {kind} of version {version}, expected an {expected}; run eval/run.py --ckpt")
        of_game = DOGFIGHT_V0 if kind == "evaluation" else game.id if game else ""
        defaults = {"env": of_game, "deterministic": True}  # for files without them
        conditions, records = _read_conditions(game, defaults | content)
        win_rates = {(r.get("regime", ""), r["opponent"]): r["wins"] / r["games"] for r in records}
        require(len(win_rates) == len(records), "records: several players meet an opponent; pass one player's")
    except ResultsError:
        raise
    except InputError as error:
        raise ResultsError(f"{path}: {error}; run eval/run.py again") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultsError(
            f"{path}: is not the {RESULTS} of an evaluation ({error!r}); run eval/run.py again"
        ) from error
    if not win_rates:
        raise ResultsError(f"{path}: contains no games; run eval/run.py again")
    points = {task: (r["wins"] + r["draws"] / 2) / r["games"] for task, r in zip(win_rates, records, strict=True)}
    decided = {task: 1.0 - r["draws"] / r["games"] for task, r in zip(win_rates, records, strict=True)}
    if game and game.seats > 2:  # it has its own score
        points = {task: read_share(r["score"]) for task, r in zip(win_rates, content["records"], strict=True)}
        decided = {task: read_share(r["decided"]) for task, r in zip(win_rates, content["records"], strict=True)}
    return EvaluationResults(text, path, conditions, win_rates, points, decided)


def _read_episodes(name: str, path: Path, content: dict[str, Any]) -> EvaluationResults:
    """Return the mean return of an evaluation without opponents. Raises `InputError` for values of the wrong type."""
    stored = read(StoredEpisodes, content)
    conditions = {key: stored[key] for key in ("env", "deterministic", "seed")} | {"games": stored["episodes"]}
    return EvaluationResults(name, path, conditions, {("", RETURN): stored["return"]["mean"]}, {}, {})


def read_share(value: Any) -> float:
    """Return a share; raises `ResultsError` unless it is a number in [0, 1]."""
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ResultsError(f"records: {value!r} is not a share in [0, 1]; run eval/run.py again")
    return float(value)


def _read_conditions(game: Game | None, content: dict[str, Any]) -> tuple[dict[str, Any], list[StoredRecord]]:
    """Return the conditions and the records of an evaluation. Raises `InputError` for values of the wrong type."""
    stored = read(StoredEvaluation, content)
    config: Any = type(load(game.runs)[0]().env) if game and game.runs else None
    options = [entry.name for entry in fields(config) if entry.name in content] if config else []
    names = dict.fromkeys((*(game.comparable if game else ("kwargs", "deterministic")), *options))
    for name in options:
        check_option(config, name, content[name])
    for number, record in enumerate(stored["records"]):
        wins, draws, played = record["wins"], record["draws"], record["games"]
        require(wins <= played, f"records.{number}.wins={wins}: must be at most the {played} games")
        require(wins + draws <= played, f"records.{number}.draws={draws}: wins and draws exceed the {played} games")
    mixed = len({"regime" in record for record in stored["records"]}) > 1
    require(not mixed, "records: some have a regime and others do not")
    common = {name: stored.get(name) for name in COMMON}
    return {"env": common.pop("env"), **{name: content[name] for name in names}, **common}, stored["records"]


def _find(text: str) -> Path:
    folders = [folder / text for folder in (Path(), players.CHECKPOINTS)]
    names = (RESULTS, *(f"{game.name}.json" for game in games()))
    for path in [*folders, *(folder / name for folder in folders for name in names)]:
        if holds(path.is_file):
            return path.resolve()
    raise ResultsError(f"{text}: no {RESULTS} there or in checkpoints/{text}; create it with eval/run.py --ckpt {text}")


def _check_alike(first: EvaluationResults, other: EvaluationResults) -> None:
    for name in dict.fromkeys([*first.conditions, *other.conditions]):
        base, value = (run.conditions.get(name, "none") for run in (first, other))
        if base != value:
            raise ResultsError(f"{other.name}: {name}={value}, but {first.name} has {base}; make them equal")
    for index, what in enumerate(("regimes", "opponents")):
        base, value = ({task[index] for task in run.win_rates} for run in (first, other))
        if base != value:
            missing, extra = (", ".join(sorted(names)) or "none" for names in (base - value, value - base))
            differ = f"{what} differ from {first.name}'s (missing {missing}; extra {extra})"
            raise ResultsError(f"{other.name}: {differ}; make them equal")
    if first.win_rates.keys() != other.win_rates.keys():
        raise ResultsError(f"{other.name}: some regimes have other opponents than {first.name}'s; make them equal")


OVERALL, HELD_OUT_OVERALL = "overall", "held out"
RESAMPLES = "[100, 1000000]"

_EXAMPLES = """\
examples:
  python eval/seeds.py q1 q2 q3                                three runs' eval.json, by the runs' names
  python eval/seeds.py new1 new2 new3 --against old1 old2 old3 is the new configuration better?
  python eval/seeds.py a/eval.json b/eval.json --out results

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class SeedOptions(CommandOptions):
    """Options of the command; the files have not been located yet."""

    TEXT = CommandText(
        "eval/seeds.py",
        "Summarize the evaluations of several seeds: interquartile mean, bootstrap intervals, mean and worst.",
        _EXAMPLES,
    )
    runs: tuple[str, ...] = argument((), metavar="RUN", positional=True)
    """Runs' names or folders, or eval.json files."""
    against: tuple[str, ...] = argument((), metavar="RUN")
    """The runs of another configuration to compare with."""
    seed: int = argument(0, SEED, metavar="N")
    """Seed of the bootstrap (default: 0)."""
    resamples: int = argument(9999, RESAMPLES, metavar="N")
    """Bootstrap samples per interval."""
    out: Path | None = argument(None, metavar="DIR")
    """Write seeds.json and seeds.md to this folder."""

    def check(self) -> None:
        """Raise `InputError` for a group of a single run."""
        for name, least in {"runs": 2, "against": 0}.items():
            count = len(getattr(self, name))
            if count == 1 or count < least:
                raise InputError(f"{name}: at least 2 runs are required, got {count}: one seed has no spread")


@dataclass(frozen=True)
class SeedRow:
    """Result for one opponent under one physics, or for all: the first group, and the comparison with the second."""

    regime: str
    opponent: str
    scores: Spread
    """Spread of the win rates."""
    mean_score: float | None
    mean_decided: float | None
    against: Spread | None = None
    improvement: Estimate | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/seeds.py", lambda words: publish_report(seeds(parse(SeedOptions, words))), arguments)


def summarize_groups(ours: RunGroup, against: RunGroup | None, *, seed: int, resamples: int) -> list[SeedRow]:
    """For each physics, return a row per opponent, one over all training opponents, and one over the held-out ones.

    With several physics, the last two rows also cover all of them. Every row has its own generator seeded with `seed`,
    so rows do not depend on each other.
    """
    rows = []
    for regime in ours.regimes:
        tasks = [task for task in ours.tasks if task[0] == regime]
        cells = [(opponent, [(regime, opponent)]) for _, opponent in tasks]
        groups = [] if ours.runs[0].returns else _groups(tasks)
        rows += [_row(ours, against, regime, *cell, seed, resamples) for cell in [*cells, *groups]]
    if len(ours.regimes) > 1:
        rows += [_row(ours, against, "all", *group, seed, resamples) for group in _groups(ours.tasks)]
    return rows


def _groups(tasks: Sequence[Task]) -> list[tuple[str, list[Task]]]:
    """Return the tasks against training and held-out opponents by name, without empty groups."""
    members = held_out_names()
    held_out = [task for task in tasks if task[1] in members]
    regular = [task for task in tasks if task not in held_out]
    return [(name, members) for name, members in ((OVERALL, regular), (HELD_OUT_OVERALL, held_out)) if members]


def seeds_markdown(ours: RunGroup, against: RunGroup | None, rows: Sequence[SeedRow], command: str) -> str:
    """Return the markdown report: the runs, a table per physics, and the meaning of the columns."""
    parts = [f"# {len(ours.names)} runs: {', '.join(ours.names)}"]
    if against:
        parts.append(f"against {len(against.names)} runs: {', '.join(against.names)}")
    parts.append(ours.conditions)
    returns = ours.runs[0].returns
    first = ["", "IQM"] if returns else ["opponent", "score %", "decided %", "win %: IQM"]
    headings = [*first, "95 % interval", "mean", "min"]
    headings += ["IQM, other", "95 % interval", "P(better) %", "95 % interval"] if against else []
    game = game_of(current_id(ours.runs[0].conditions["env"]))
    varied = "Physics" if game and game.physics else "Regime"
    for regime in dict.fromkeys(row.regime for row in rows):
        cells = [_cells(row) for row in rows if row.regime == regime]
        parts.append("\n\n".join([*([f"## {varied}: {regime}"] if regime else []), table(headings, cells)]))
    shares = "Score and decided share are means; the other columns are win %.  "
    of, worst = ("mean returns of all runs", "") if returns else (
        "scores of all runs and opponents", " against its worst opponent"
    )  # fmt: skip
    parts.append(
        f"{'' if returns else shares}IQM: mean of the middle half of the {of}; intervals: stratified bootstrap "
        f"over runs; min: the worst run{worst}."
    )
    return "\n\n".join([*parts, f"Command: `{command}`"]) + "\n"


def seeds_json(ours: RunGroup, against: RunGroup | None, rows: Sequence[SeedRow], options: SeedOptions) -> str:
    """Return the report as JSON; win rates in [0, 1]."""
    content = {
        "kind": "seeds",
        "runs": ours.names,
        "against": against.names if against else [],
        "seed": options.seed,
        "resamples": options.resamples,
        "rows": [asdict(row) for row in rows],
        "command": options.command,
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(
    ours: RunGroup,
    against: RunGroup | None,
    regime: str,
    opponent: str,
    tasks: Sequence[tuple[str, str]],
    seed: int,
    resamples: int,
) -> SeedRow:
    from sparring.eval.stats.aggregate import improvement, spread

    scores = ours.scores(tasks)
    if against is None:
        return SeedRow(regime, opponent, spread(scores, seed, resamples), *ours.means(tasks))
    other = against.scores(tasks)
    better = improvement(scores, other, seed, resamples)
    means = ours.means(tasks)
    return SeedRow(regime, opponent, spread(scores, seed, resamples), *means, spread(other, seed, resamples), better)


def _cells(row: SeedRow) -> list[str]:
    scores, means = row.scores, [mean for mean in (row.mean_score, row.mean_decided) if mean is not None]
    text: Callable[[float], str] = percent if means else "{:.2f}".format
    iqm = [
        [text(end) for end in (it.value, *it.interval)] for it in (scores.iqm, row.against and row.against.iqm) if it
    ]
    (first, *ends), *other = [(value, f"{low} to {high}") for value, low, high in iqm]
    better = [percent(row.improvement.value), interval_text(row.improvement.interval)] if row.improvement else []
    figures = [*map(percent, means), first, *ends, text(scores.mean), text(scores.least)]
    return [row.opponent, *figures, *chain(*other), *better]


def seeds(options: SeedOptions) -> CommandReport:
    """Summarize evaluations. Raises `InputError` for bad input."""
    make_folders([options.out])
    ours, against = read_groups(options.runs, options.against)
    rows = summarize_groups(ours, against, seed=options.seed, resamples=options.resamples)
    text, data = seeds_markdown(ours, against, rows, options.command), seeds_json(ours, against, rows, options)
    files = {options.out / "seeds.json": data, options.out / "seeds.md": text} if options.out else {}
    return CommandReport(text, data, files)


def sum_up_seeds(runs: Sequence[str | Path], **options: Any) -> CommandReport:
    """Summarize the evaluations of several seeds, as `python eval/seeds.py RUN RUN ...` does.

    `runs` are runs' names or folders, or eval.json files; `options` are `against`, `seed`, `resamples` and `out`.
    `data["rows"]` has a row per opponent and physics, with interquartile means and intervals.

    Raises `InputError` for bad input, in one line.
    """
    return written(seeds(from_keywords(SeedOptions, {"runs": several_names("runs", runs), **options})))


if __name__ == "__main__":
    sys.exit(main())
