"""Match records, their statistics, and their output as markdown and JSON.

Score, win rate and their intervals are those of `curriculum/score.py`; the unit is a seat-swapped pair of games.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np

from sparring.configs.core.errors import printable
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored, count_pairs
from sparring.curriculum.score import wilson as wilson  # an import path of the release before
from sparring.envs.game import games
from sparring.eval.stats.ratings import VIRTUAL_POINTS, Anchor, Rating, rate

SCHEMA_VERSION = 1

Pairs = tuple[int, int, int, int, int]

COUNTED = ("n", "W", "D", "L", "score %", "95 % interval", "decided %", "win %", "95 % interval")
"""Headings of `counted`."""
LENGTH_AND_HP = ("length (s)", "hp left, own / theirs")
"""Headings of `length_and_hp`."""
PAIRED = "games each in seat-swapped pairs, the unit of the intervals"


class OpponentRecord(Protocol):
    """Results against one opponent."""

    @property
    def opponent(self) -> str:
        """Name of the opponent."""


Met = TypeVar("Met", bound=OpponentRecord)


@dataclass(frozen=True)
class MatchRecord(Scored):
    """Results of one player against one opponent under one regime; a draw is not a win."""

    player: str
    opponent: str
    regime: str
    by_seat: tuple[Result, Result]
    """(wins, draws, losses) of the player in seat 0 and in seat 1; half of the games each."""
    length: float
    """Mean length of a game in seconds."""
    own_hp: float
    """Mean remaining hp of the player."""
    their_hp: float
    pairs: Pairs
    """Number of seat-swapped pairs of games by the player's points in them: 0, 1/2, 1, 3/2, 2."""

    @property
    def counts(self) -> Result:
        """Wins, draws and losses."""
        (wins_0, draws_0, losses_0), (wins_1, draws_1, losses_1) = self.by_seat
        return wins_0 + wins_1, draws_0 + draws_1, losses_0 + losses_1

    @property
    def units(self) -> Pairs:
        """Pairs of games by the player's points in them."""
        return self.pairs

    def mirrored(self) -> MatchRecord:
        """Return the record of the same games from the opponent's side."""
        (wins_0, draws_0, losses_0), (wins_1, draws_1, losses_1) = self.by_seat
        by_seat = ((losses_1, draws_1, wins_1), (losses_0, draws_0, wins_0))
        names = (self.opponent, self.player, self.regime)
        lost, behind, level, ahead, won = self.pairs
        pairs = (won, ahead, level, behind, lost)
        return MatchRecord(*names, by_seat, self.length, own_hp=self.their_hp, their_hp=self.own_hp, pairs=pairs)

    def other_side(self) -> tuple[MatchRecord, ...]:
        """Return the record from the opponent's side, which the results of a ladder have, too."""
        return (self.mirrored(),)

    def plain(self) -> dict[str, Any]:
        """Return the record as data, for a JSON file."""
        return asdict(self) | self.figures()


class PairResults(Protocol):
    """Results of N games from the left player's perspective; every array is [N]."""

    @property
    def outcome(self) -> np.ndarray:
        """+1 a win, 0 a draw, -1 a loss; games j and j + N/2 are a pair."""

    @property
    def length(self) -> np.ndarray:
        """Ticks."""

    @property
    def left_hp(self) -> np.ndarray:
        """Remaining hp of the left player."""

    @property
    def right_hp(self) -> np.ndarray:
        """Remaining hp of the right player."""

    @property
    def left_seat(self) -> np.ndarray:
        """Seat of the left player, 0 or 1."""


def record_of(player: str, opponent: str, regime: str, results: PairResults, ticks_per_second: float) -> MatchRecord:
    """Return the record of the games of a pair, `player` being the left one."""

    def counts(seat: int) -> Result:
        outcome = results.outcome[results.left_seat == seat]
        return int((outcome > 0).sum()), int((outcome == 0).sum()), int((outcome < 0).sum())

    lost, behind, level, ahead, won = count_pairs(results.outcome).tolist()
    return MatchRecord(
        player,
        opponent,
        regime,
        by_seat=(counts(0), counts(1)),
        length=float(results.length.mean()) / ticks_per_second,
        own_hp=float(results.left_hp.mean()),
        their_hp=float(results.right_hp.mean()),
        pairs=(lost, behind, level, ahead, won),
    )


@dataclass(frozen=True)
class Summary:
    """Mean and lowest value of a figure over opponents."""

    mean: float
    worst: float
    worst_opponent: str


@dataclass(frozen=True)
class PairConditions:
    """Conditions of a game's matches, in words and as data, and the columns that its table has beside `COUNTED`."""

    kind: str
    """Kind of the JSON file of an evaluation."""
    payoff_kind: str
    """Kind of the JSON file of a payoff matrix."""
    env: str
    words: str
    """Words of the title, such as the rules."""
    fields: Mapping[str, Any]
    """Entries of the JSON file."""
    columns: tuple[str, ...]
    cells: Callable[[Any], list[str]]
    """Cells of a record in these columns."""
    varied: str = ""
    """What regimes vary, such as physics, if each has a table of its own."""
    counted: str = PAIRED
    """What is counted, in words after the number of games."""
    details: str = ""
    """More about the matches, behind the seed."""


@dataclass(frozen=True)
class Report:
    """Records, and all data needed to reproduce the games. `player` is None for a ladder."""

    player: str | None
    records: Sequence[Any]
    """Results of pairs of players, such as `MatchRecord`."""
    conditions: PairConditions
    games: int
    seed: int
    deterministic: bool
    device: str
    command: str
    checkpoint: str | None = None
    run: str | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    anchor: Anchor | None = None
    """Player with a fixed rating; None for an evaluation, which has no ratings."""
    notes: Sequence[str] = ()
    """Notes on single players."""
    tables: Sequence[str] = ()
    """More tables and lines of the game, below the others."""
    entries: Mapping[str, Any] = field(default_factory=dict)
    """More entries of the game's JSON file."""

    @property
    def regimes(self) -> list[str]:
        """Regimes played, in order, without duplicates."""
        return list(dict.fromkeys(record.regime for record in self.records))

    def under(self, regime: str) -> list[Any]:
        """Return the records of one regime."""
        return [record for record in self.records if record.regime == regime]

    def ratings(self, regime: str) -> list[Rating]:
        """Return all ratings under one regime, best first; empty without an anchor. Raises like `rate`."""
        return rate(self.under(regime), self.anchor) if self.anchor else []


def summarize(records: Sequence[OpponentRecord], figure: str = "win_rate") -> Summary:
    """Return the mean of a figure of `Scored` over the records and the lowest record, the last one for ties."""
    worst = min(reversed(records), key=attrgetter(figure))
    mean = math.fsum(map(attrgetter(figure), records)) / len(records)
    return Summary(mean, getattr(worst, figure), worst.opponent)


def groups(records: Sequence[Met]) -> tuple[list[Met], list[Met]]:
    """Return the records against all opponents but the held-out ones, and those against these.

    If all opponents are held out, the first are theirs as well.
    """
    members = held_out_names()
    held_out = [record for record in records if record.opponent in members]
    return [record for record in records if record.opponent not in members] or held_out, held_out


@cache
def held_out_names() -> frozenset[str]:
    """Return the names of the opponents that are summed up apart, in all games."""
    return frozenset(name for game in games() for name in game.held_out_set)


def summary_markdown(records: Sequence[OpponentRecord]) -> str:
    """Return mean and worst of score and win rate, and the mean decided share, as a line below a table."""
    parts = []
    for name, figure in (("score", "score"), ("wins", "win_rate")):
        stats = summarize(records, figure)
        parts.append(f"{name}: mean {percent(stats.mean)} %, worst {percent(stats.worst)} % ({stats.worst_opponent})")
    return "; ".join([*parts, f"decided: mean {percent(summarize(records, 'decided').mean)} %"])


def summary_figures(records: Sequence[OpponentRecord]) -> dict[str, Any]:
    """Return the same for JSON: mean and worst of the win rate, beside them those of the score."""
    score, decided = summarize(records, "score"), summarize(records, "decided")
    return {**asdict(summarize(records)), "score": asdict(score), "decided": decided.mean}


def markdown(report: Report) -> str:
    """Return the evaluation as markdown: a table per regime, and for several regimes the shares over all."""
    parts = [f"# {report.player}: {title(report)}\n\n{conditions(report)}"]
    headings = ("opponent", *COUNTED, *report.conditions.columns)
    for regime in report.regimes:
        records = report.under(regime)
        regular, held_out = groups(records)
        last = summary_markdown(regular)
        if held_out:
            last = f"held out: {last}" if held_out == regular else f"{last}  \nheld out: {summary_markdown(held_out)}"
        rows = [[record.opponent, *counted(record), *report.conditions.cells(record)] for record in records]
        parts += [*heading(report, regime), table(headings, rows), last]
    if len(report.regimes) > 1:
        parts += [_overview(report, *figure) for figure in (("Score", "score"), ("Win", "win_rate"))]
    return "\n\n".join([*parts, *report.tables, origin(report)]) + "\n"


def heading(report: Report, regime: str) -> list[str]:
    """Return the heading of the tables of a regime; none where the matches are of one kind."""
    return [f"## {varied.capitalize()}: {regime}"] if (varied := report.conditions.varied) else []


def ratings_markdown(ratings: Sequence[Rating], anchor: Anchor) -> str:
    """Return the table of ratings, their basis, and virtual draws."""
    rows = [
        [r.player, f"{r.elo:+.0f}{'*' if r.virtual else ''}", _elo_interval(r, anchor), str(r.games)] for r in ratings
    ]
    note = (
        f"Bradley-Terry by maximum likelihood, {anchor.player} fixed at {anchor.elo:g}; a draw is half a "
        "win for each, the intervals take seat-swapped pairs of games as independent."
    )
    if any(r.virtual for r in ratings):
        note += (
            f"  \n\\* Won or lost every point that links it to {anchor.player}, so a likeliest rating does not exist. "
            f"{2 * VIRTUAL_POINTS:g} of a virtual draw against {anchor.player} was added, which sets the far end of "
            "the interval."
        )
    return f"{table(['rating', 'Elo', '95 % interval', 'games'], rows)}\n\n{note}"


def to_json(report: Report) -> str:
    """Return the report as JSON; equal reports give equal bytes. Raises `ValueError` for non-finite numbers."""
    kind = report.conditions.kind if report.player else "ladder"
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": kind}
    content |= {"player": report.player, "checkpoint": report.checkpoint, "run": report.run}
    content |= {"env": report.conditions.env, **report.conditions.fields}
    content |= {name: getattr(report, name) for name in ("deterministic", "games", "seed", "device", "command")}
    content["records"] = [record.plain() for record in report.records]
    if report.player:
        by_regime = {regime: groups(report.under(regime)) for regime in report.regimes}
        content["summary"] = {regime: summary_figures(regular) for regime, (regular, _) in by_regime.items()}
        content["held_out"] = {regime: summary_figures(last) for regime, (_, last) in by_regime.items() if last}
    if report.anchor:
        content["anchor"] = asdict(report.anchor)
        content["ratings"] = {regime: [asdict(r) for r in report.ratings(regime)] for regime in report.regimes}
    content |= {**report.entries, "notes": list(report.notes), "training": dict(report.training)}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def title(report: Report) -> str:
    """Return the text after a heading's colon: the conditions of the matches, and how policies decide."""
    return f"{report.conditions.words}, {decisions(deterministic=report.deterministic)}"


def decisions(*, deterministic: bool) -> str:
    """Return how policies decide, in words."""
    return "deterministic" if deterministic else "sampled actions"


def conditions(report: Report) -> str:
    """Return the number of games, the seed and more about the matches, then a line per note."""
    about = report.conditions
    return f"{report.games} {about.counted}, seed {report.seed}{about.details}{notes_markdown(report.notes)}"


def notes_markdown(notes: Sequence[str]) -> str:
    """Return the notes as a paragraph to append, one per line; empty without notes."""
    return "\n\n" + "  \n".join(f"Note: {note}." for note in notes) if notes else ""


def origin(report: Report) -> str:
    """Return the checkpoint, if any, and the command."""
    checkpoint = f"Checkpoint: `{report.checkpoint}`  \n" if report.checkpoint else ""
    return f"{checkpoint}Command: `{report.command}`"


def counted(record: Scored) -> list[str]:
    """Return the cells of `COUNTED`: n, W, D, L, score % and its interval, decided %, win % and its interval."""
    counts = map(str, (record.games, *record.counts))
    score = [percent(record.score), interval_text(record.score_interval), percent(record.decided)]
    return [*counts, *score, percent(record.win_rate), interval_text(record.interval)]


def length_and_hp(record: MatchRecord) -> list[str]:
    """Return the cells of a game's length in seconds, and of the hp left on both sides."""
    return [f"{record.length:.1f}", f"{record.own_hp:.2f} / {record.their_hp:.2f}"]


def _overview(report: Report, name: str, figure: str) -> str:
    varied = report.conditions.varied
    headings = [varied, *(record.opponent for record in report.under(report.regimes[0])), "mean", "worst"]
    rows = []
    for regime in report.regimes:
        records = report.under(regime)
        parts = [summarize(part, figure) for part in groups(records) if part]
        shares = [getattr(record, figure) for record in records]
        rows.append([regime, *map(percent, [*shares, *(end for part in parts for end in (part.mean, part.worst))])])
    headings += ["held out: mean", "worst"] if len(rows[0]) > len(headings) else []
    worst = min(report.records, key=attrgetter(figure))
    last = f"worst of all {percent(getattr(worst, figure))} % ({worst.opponent}, {worst.regime})"
    return f"## {name} % by {varied}\n\n{table(headings, rows)}\n\n{last}"


def _elo_interval(rating: Rating, anchor: Anchor) -> str:
    low, high = rating.interval
    return "fixed" if rating.player == anchor.player else f"{low:+.0f} to {high:+.0f}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table with aligned columns: the first to the left, the others to the right."""
    cells = [[*map(table_cell, row)] for row in [headings, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    aligned = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in [aligned[0], rule, *aligned[1:]])


def table_cell(text: str) -> str:
    """Return a cell of a markdown table: control characters, "|" and tags of HTML are escaped, code is not."""
    return re.sub(r"<(?=[!/?A-Za-z])", "&lt;", printable(text)).replace("|", r"\|")


def percent(share: float) -> str:
    """Format a fraction as a percentage with one decimal."""
    return f"{100.0 * share:.1f}"


def interval_text(interval: tuple[float, float]) -> str:
    """Format the ends of an interval of fractions as percentages."""
    return " to ".join(map(percent, interval))


def share_text(share: float, interval: tuple[float, float]) -> str:
    """Format a fraction and its interval as percentages."""
    return f"{percent(share)} ({interval_text(interval)})"
