"""Match records, their statistics, and their output as markdown and JSON.

Win rates have a Wilson score interval, because 50 wins in 50 independent games only show a rate above 92.9 %. The two
games of a seat-swapped pair have the same start and are not independent, so n is the number of pairs and a success the
share of a pair that is won: a share in [0, 1] with mean p has a variance of at most p (1 - p), whatever the games of a
pair have in common. For n independent trials:
centre = (p + z^2 / 2n) / (1 + z^2 / n), half width = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / 4n^2).
Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import printable
from sparring.curriculum.sprt import count_pairs
from sparring.envs.dogfight.rules import CHALLENGE_GRAVITY, ENV_ID, HELD_OUT
from sparring.eval.stats.ratings import VIRTUAL_POINTS, Z_95, Anchor, Rating, rate

if TYPE_CHECKING:
    from sparring.agents.play.dogfight_matches import MatchResults

SCHEMA_VERSION = 1

Counts = tuple[int, int, int]
Pairs = tuple[int, int, int, int, int]

COUNTED = ("n", "W", "D", "L", "win %", "95 % interval")
"""Headings of `counted`."""
_HEADINGS = ("opponent", *COUNTED, "length (s)", "hp left, own / theirs")


@dataclass(frozen=True)
class MatchRecord:
    """Results of one player against one opponent under one regime; a draw is not a win."""

    player: str
    opponent: str
    regime: str
    by_seat: tuple[Counts, Counts]
    """(wins, draws, losses) of the player in seat 0 and in seat 1; half of the games each."""
    length: float
    """Mean length of a game in seconds."""
    own_hp: float
    """Mean remaining hp of the player."""
    their_hp: float
    pairs: Pairs
    """Number of seat-swapped pairs of games by the player's points in them: 0, 1/2, 1, 3/2, 2."""

    @property
    def wins(self) -> int:
        """Games the player won."""
        return self.by_seat[0][0] + self.by_seat[1][0]

    @property
    def draws(self) -> int:
        """Games without a winner."""
        return self.by_seat[0][1] + self.by_seat[1][1]

    @property
    def losses(self) -> int:
        """Games the player lost."""
        return self.by_seat[0][2] + self.by_seat[1][2]

    @property
    def games(self) -> int:
        """Number of games."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Fraction of games the player won. Raises `ValueError` without games."""
        if not self.games:
            raise ValueError(f"{self.player} has played no game against {self.opponent}, so there is no win rate")
        return self.wins / self.games

    @property
    def points(self) -> float:
        """Fraction of points the player took; a draw is half a point for each."""
        return (self.wins + 0.5 * self.draws) / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the win rate; the unit is a pair of games."""
        return wilson_of_pairs(self.wins, self.games)

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

    def counts(seat: int) -> Counts:
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
    """Mean and lowest win rate over the opponents of one regime."""

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


def wilson_of_pairs(wins: int, games: int) -> tuple[float, float]:
    """Return the interval of the win rate in games that were played as seat-swapped pairs: see the module docstring."""
    return wilson(wins / 2, games // 2)


def wilson(successes: float, n: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion; (0, 1) for n = 0. Source: see the module docstring."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes={successes} of n={n}: must be between 0 and n")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    scale = 1.0 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1.0 - p) / n + z * z / (4 * n * n))
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def summarize(records: Sequence[MatchRecord]) -> Summary:
    """Return the mean over the records and the lowest record, the last one for ties."""
    worst = min(reversed(records), key=lambda record: record.win_rate)
    mean = math.fsum(record.win_rate for record in records) / len(records)
    return Summary(mean, worst.win_rate, worst.opponent)


def summaries(records: Sequence[MatchRecord]) -> tuple[Summary, Summary | None]:
    """Return the summary over all opponents but the held-out ones, and that over these, None if there are none.

    If all opponents are held out, the first is theirs as well.
    """
    held_out = [record for record in records if record.opponent in HELD_OUT]
    others = [record for record in records if record.opponent not in HELD_OUT]
    return summarize(others or held_out), summarize(held_out) if held_out else None


def markdown(report: Report) -> str:
    """Return the evaluation as markdown: a table per regime, and for several regimes the win rates over all."""
    parts = [f"# {report.player}: {title(report)}\n\n{conditions(report)}"]
    for regime in report.regimes:
        records = report.under(regime)
        summary, held_out = summaries(records)
        last = _summary_markdown(summary)
        if held_out is not None:
            last = (
                f"held out: {_summary_markdown(held_out)}"
                if held_out == summary
                else f"{last}  \nheld out: {_summary_markdown(held_out)}"
            )
        parts.append(f"## Physics: {regime}\n\n{table(_HEADINGS, map(_row, records))}\n\n{last}")
    if len(report.regimes) > 1:
        parts.append(_overview(report))
    return "\n\n".join([*parts, origin(report)]) + "\n"


def ladder_markdown(report: Report) -> str:
    """Return the round robin: win % of row against column with 95 % interval, best mean first, and ratings."""
    note = "Win % of the row against the column, with its 95 % interval."
    parts = [f"# Ladder: {title(report)}\n\n{conditions(report)}\n\n{note}"]
    for regime in report.regimes:
        parts += [f"## Physics: {regime}\n\n{_payoffs(report.under(regime))}", ratings_markdown(report, regime)]
    return "\n\n".join([*parts, origin(report)]) + "\n"


def ratings_markdown(report: Report, regime: str) -> str:
    """Return the ratings under one regime, their basis, and virtual draws; the report must have an anchor."""
    assert report.anchor is not None
    ratings = report.ratings(regime)
    rows = [
        [r.player, f"{r.elo:+.0f}{'*' if r.virtual else ''}", _elo_interval(r, report.anchor), str(r.games)]
        for r in ratings
    ]
    note = (
        f"Bradley-Terry by maximum likelihood, {report.anchor.player} fixed at {report.anchor.elo:g}; a draw is half a "
        "win for each, the intervals take seat-swapped pairs of games as independent."
    )
    if any(r.virtual for r in ratings):
        note += (
            f"  \n\\* Took every point, or none, on the way to {report.anchor.player}, so no rating is the likeliest: "
            f"{2 * VIRTUAL_POINTS:g} of a virtual draw against {report.anchor.player} was added, and the far end of "
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
        by_regime = {regime: summaries(report.under(regime)) for regime in report.regimes}
        content["summary"] = {regime: asdict(summary) for regime, (summary, _) in by_regime.items()}
        content["held_out"] = {regime: asdict(held_out) for regime, (_, held_out) in by_regime.items() if held_out}
    if report.anchor:
        content["anchor"] = asdict(report.anchor)
        content["ratings"] = {regime: [asdict(r) for r in report.ratings(regime)] for regime in report.regimes}
    content |= {"env": ENV_ID, "notes": list(report.notes), "training": report.training}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(record: MatchRecord) -> dict[str, Any]:
    names = ("games", "wins", "draws", "losses", "win_rate", "interval")
    return asdict(record) | {name: getattr(record, name) for name in names}


def common_record(player: str, opponent: str, wins: int, draws: int, losses: int) -> dict[str, Any]:
    """Return what the records of all games share: both players, counts of games, and the win rate with its interval."""
    games = wins + draws + losses
    counts = {"games": games, "wins": wins, "draws": draws, "losses": losses}
    return {"player": player, "opponent": opponent, **counts, "win_rate": wins / games, "interval": wilson(wins, games)}


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


def counted(record: MatchRecord) -> list[str]:
    """Return the cells n, W, D, L, win % and its interval."""
    counts = (record.games, record.wins, record.draws, record.losses)
    return [*map(str, counts), percent(record.win_rate), interval_text(record.interval)]


def length_and_hp(record: MatchRecord) -> list[str]:
    """Return the cells of a game's length in seconds, and of the hp left on both sides."""
    return [f"{record.length:.1f}", f"{record.own_hp:.2f} / {record.their_hp:.2f}"]


def _summary_markdown(summary: Summary) -> str:
    return f"mean {percent(summary.mean)} %, worst {percent(summary.worst)} % ({summary.worst_opponent})"


def _overview(report: Report) -> str:
    headings = ["physics", *(record.opponent for record in report.under(report.regimes[0])), "mean", "worst"]
    rows = []
    for regime in report.regimes:
        records = report.under(regime)
        summary, held_out = summaries(records)
        rates = [record.win_rate for record in records] + [summary.mean, summary.worst]
        rates += [held_out.mean, held_out.worst] if held_out else []
        rows.append([regime, *map(percent, rates)])
    headings += ["held out: mean", "worst"] if len(rows[0]) > len(headings) else []
    worst = min(report.records, key=lambda record: record.win_rate)
    last = f"worst of all {percent(worst.win_rate)} % ({worst.opponent}, {worst.regime})"
    return f"## Win % by physics\n\n{table(headings, rows)}\n\n{last}"


def _payoffs(records: Sequence[MatchRecord]) -> str:
    means = {name: summarize([r for r in records if r.player == name]).mean for name in {r.player for r in records}}
    names = sorted(means, key=lambda name: (-means[name], name))
    cells = {(record.player, record.opponent): share_text(record.win_rate, record.interval) for record in records}
    rows = [[name, *(cells.get((name, other), "") for other in names), percent(means[name])] for name in names]
    return table(["", *names, "mean"], rows)


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
