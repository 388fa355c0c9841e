"""Match records, their statistics, and their output as markdown and JSON.

Score, win rate and their intervals are those of `curriculum/score.py`; the unit is a seat-swapped pair of games.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sparring.configs.core.errors import printable
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import GameCounts, Scored, count_pairs
from sparring.curriculum.score import wilson as wilson  # an import path of the release before
from sparring.envs.dogfight.rules import CHALLENGE_GRAVITY, ENV_ID, HELD_OUT
from sparring.eval.stats.ratings import VIRTUAL_POINTS, Anchor, Rating, rate

if TYPE_CHECKING:
    from sparring.agents.play.duel_matches import MatchResults

SCHEMA_VERSION = 1

Pairs = tuple[int, int, int, int, int]

COUNTED = ("n", "W", "D", "L", "score %", "95 % interval", "decided %", "win %", "95 % interval")
"""Headings of `counted`."""
_HEADINGS = ("opponent", *COUNTED, "length (s)", "hp left, own / theirs")


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
        none, half, one, more, both = self.pairs
        pairs = (both, more, one, half, none)
        return MatchRecord(*names, by_seat, self.length, own_hp=self.their_hp, their_hp=self.own_hp, pairs=pairs)


def record_of(player: str, opponent: str, regime: str, results: MatchResults, ticks_per_second: float) -> MatchRecord:
    """Return the record of the games of a pair, `player` being the left one."""

    def counts(seat: int) -> Result:
        outcome = results.outcome[results.left_seat == seat]
        return int((outcome > 0).sum()), int((outcome == 0).sum()), int((outcome < 0).sum())

    none, half, one, more, both = count_pairs(results.outcome).tolist()
    return MatchRecord(
        player,
        opponent,
        regime,
        by_seat=(counts(0), counts(1)),
        length=float(results.length.mean()) / ticks_per_second,
        own_hp=float(results.left_hp.mean()),
        their_hp=float(results.right_hp.mean()),
        pairs=(none, half, one, more, both),
    )


@dataclass(frozen=True)
class Summary:
    """Mean and lowest value of a figure over opponents."""

    mean: float
    worst: float
    worst_opponent: str


@dataclass(frozen=True)
class Report:
    """Records, and all data needed to reproduce the games. `player` is None for a ladder."""

    player: str | None
    records: Sequence[MatchRecord]
    games: int
    seed: int
    rules: str
    bot_rate: str
    action_repeat: int
    deterministic: bool
    device: str
    command: str
    checkpoint: str | None = None
    run: str | None = None
    training: dict[str, Any] = field(default_factory=dict)
    anchor: Anchor | None = None
    """Player with a fixed rating; None for an evaluation, which has no ratings."""
    notes: Sequence[str] = ()
    """Notes on single players."""

    @property
    def regimes(self) -> list[str]:
        """Regimes played, in order, without duplicates."""
        return list(dict.fromkeys(record.regime for record in self.records))

    def under(self, regime: str) -> list[MatchRecord]:
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
    held_out = [record for record in records if record.opponent in HELD_OUT]
    return [record for record in records if record.opponent not in HELD_OUT] or held_out, held_out


def summary_markdown(records: Sequence[OpponentRecord]) -> str:
    """Return mean and worst of score and win rate, and the mean decided share, as a line below a table."""
    parts = []
    for name, figure in (("score", "score"), ("wins", "win_rate")):
        one = summarize(records, figure)
        parts.append(f"{name}: mean {percent(one.mean)} %, worst {percent(one.worst)} % ({one.worst_opponent})")
    return "; ".join([*parts, f"decided: mean {percent(summarize(records, 'decided').mean)} %"])


def summary_figures(records: Sequence[OpponentRecord]) -> dict[str, Any]:
    """Return the same for JSON: mean and worst of the win rate, beside them those of the score."""
    score, decided = summarize(records, "score"), summarize(records, "decided")
    return {**asdict(summarize(records)), "score": asdict(score), "decided": decided.mean}


def markdown(report: Report) -> str:
    """Return the evaluation as markdown: a table per regime, and for several regimes the win rates over all."""
    parts = [f"# {report.player}: {title(report)}\n\n{conditions(report)}"]
    for regime in report.regimes:
        records = report.under(regime)
        others, held_out = groups(records)
        last = summary_markdown(others)
        if held_out:
            last = f"held out: {last}" if held_out == others else f"{last}  \nheld out: {summary_markdown(held_out)}"
        parts.append(f"## Physics: {regime}\n\n{table(_HEADINGS, map(_row, records))}\n\n{last}")
    if len(report.regimes) > 1:
        parts += [_overview(report, *figure) for figure in (("Score", "score"), ("Win", "win_rate"))]
    return "\n\n".join([*parts, origin(report)]) + "\n"


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
            f"  \n\\* Took every point, or none, on the way to {anchor.player}, so no rating is the likeliest: "
            f"{2 * VIRTUAL_POINTS:g} of a virtual draw against {anchor.player} was added, and the far end of "
            "the interval is its work."
        )
    return f"{table(['rating', 'Elo', '95 % interval', 'games'], rows)}\n\n{note}"


def to_json(report: Report) -> str:
    """Return the report as JSON; equal reports give equal bytes. Raises `ValueError` for non-finite numbers."""
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "evaluation" if report.player else "ladder"}
    names = ("player", "checkpoint", "run", "rules", "bot_rate", "action_repeat", "deterministic", "games", "seed")
    content |= {name: getattr(report, name) for name in (*names, "device", "command")}
    content["records"] = [_plain(record) for record in report.records]
    if report.player:
        by_regime = {regime: groups(report.under(regime)) for regime in report.regimes}
        content["summary"] = {regime: summary_figures(others) for regime, (others, _) in by_regime.items()}
        content["held_out"] = {regime: summary_figures(held) for regime, (_, held) in by_regime.items() if held}
    if report.anchor:
        content["anchor"] = asdict(report.anchor)
        content["ratings"] = {regime: [asdict(r) for r in report.ratings(regime)] for regime in report.regimes}
    content |= {"env": ENV_ID, "notes": list(report.notes), "training": report.training}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(record: MatchRecord) -> dict[str, Any]:
    return asdict(record) | record.figures()


def common_record(player: str, opponent: str, wins: int, draws: int, losses: int) -> dict[str, Any]:
    """Return what the records of all games share: both players, counts of games, and `Scored.figures`."""
    return {"player": player, "opponent": opponent, **GameCounts((wins, draws, losses)).figures()}


def title(report: Report) -> str:
    """Return the text after a heading's colon: rules, physics, decisions of bots and policies."""
    regimes = report.regimes
    physics = f"physics {regimes[0]}" if len(regimes) == 1 else f"{len(regimes)} regimes of physics"
    policy = "deterministic" if report.deterministic else "stochastic"
    return f"{report.rules} rules, {physics}, bot_rate={report.bot_rate}, {policy}"


def conditions(report: Report) -> str:
    """Return the number of games, the seed and the bots' decision rate, then a line per note."""
    bots = "every tick" if report.bot_rate == "tick" else f"every {report.action_repeat} ticks, as policies do"
    gravity = f"; gravity is always {CHALLENGE_GRAVITY:g} m/s^2" if report.rules == "challenge" else ""
    games = f"{report.games} games each in seat-swapped pairs, the unit of the intervals, seed {report.seed}"
    return f"{games}; bots decide {bots}{gravity}{notes_markdown(report.notes)}"


def notes_markdown(notes: Sequence[str]) -> str:
    """Return the notes as a paragraph to append, one per line; empty without notes."""
    return "\n\n" + "  \n".join(f"Note: {note}." for note in notes) if notes else ""


def origin(report: Report) -> str:
    """Return the checkpoint, if any, and the command."""
    checkpoint = f"Checkpoint: `{report.checkpoint}`  \n" if report.checkpoint else ""
    return f"{checkpoint}Command: `{report.command}`"


def _row(record: MatchRecord) -> list[str]:
    return [record.opponent, *counted(record), *length_and_hp(record)]


def counted(record: Scored) -> list[str]:
    """Return the cells of `COUNTED`: n, W, D, L, score % and its interval, decided %, win % and its interval."""
    counts = map(str, (record.games, *record.counts))
    score = [percent(record.score), interval_text(record.score_interval), percent(record.decided)]
    return [*counts, *score, percent(record.win_rate), interval_text(record.interval)]


def length_and_hp(record: MatchRecord) -> list[str]:
    """Return the cells of a game's length in seconds, and of the hp left on both sides."""
    return [f"{record.length:.1f}", f"{record.own_hp:.2f} / {record.their_hp:.2f}"]


def _overview(report: Report, name: str, figure: str) -> str:
    headings = ["physics", *(record.opponent for record in report.under(report.regimes[0])), "mean", "worst"]
    rows = []
    for regime in report.regimes:
        records = report.under(regime)
        parts = [summarize(part, figure) for part in groups(records) if part]
        shares = [getattr(record, figure) for record in records]
        rows.append([regime, *map(percent, [*shares, *(end for part in parts for end in (part.mean, part.worst))])])
    headings += ["held out: mean", "worst"] if len(rows[0]) > len(headings) else []
    worst = min(report.records, key=attrgetter(figure))
    last = f"worst of all {percent(getattr(worst, figure))} % ({worst.opponent}, {worst.regime})"
    return f"## {name} % by physics\n\n{table(headings, rows)}\n\n{last}"


def _elo_interval(rating: Rating, anchor: Anchor) -> str:
    low, high = rating.interval
    return "fixed" if rating.player == anchor.player else f"{low:+.0f} to {high:+.0f}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table with aligned columns: the first to the left, the others to the right."""
    cells = [[printable(cell).replace("|", r"\|") for cell in row] for row in [headings, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    aligned = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in [aligned[0], rule, *aligned[1:]])


def percent(share: float) -> str:
    """Format a fraction as a percentage with one decimal."""
    return f"{100.0 * share:.1f}"


def interval_text(interval: tuple[float, float]) -> str:
    """Format the ends of an interval of fractions as percentages."""
    return " to ".join(map(percent, interval))


def share_text(share: float, interval: tuple[float, float]) -> str:
    """Format a fraction and its interval as percentages."""
    return f"{percent(share)} ({interval_text(interval)})"
