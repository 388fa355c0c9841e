"""Results of Diplomacy games for each side: one player has one power and another player the other six.

In game i of a cell the single player has seat i % 7, so a multiple of seven games plays every power equally often. The
unit of the statistics is the game. Counts (solos, draws, losses, survival of a single power) have Wilson's interval,
the rest Student's t over games. Figures of the six are means per power; a solo is theirs if any of them wins alone,
and a draw if any of them survives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sparring.agents.language.endpoint.price import spent
from sparring.agents.language.endpoint.retry import answers_by_kind, fallbacks_of, orders_by_kind
from sparring.agents.language.grpo.matchmaking import reference_table
from sparring.curriculum.score import GameCounts, wilson
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.reference import PairedRow, paired_rows, paired_table
from sparring.envs.diplomacy.rewards.sample_rewards import ranks
from sparring.envs.diplomacy.rewards.scoring import count_centres, draw_size, solos, sum_of_squares
from sparring.envs.diplomacy.rollouts.games import one_of_seven
from sparring.eval.options import WIDTH
from sparring.eval.stats.aggregate import Estimate, bounded_estimate
from sparring.eval.stats.payoff import MEANING, rated_tables
from sparring.eval.stats.tables import Report, conditions, percent, table

if TYPE_CHECKING:
    from sparring.curriculum.league.league import League

SCHEMA_VERSION = 2
RESULTS = {
    "solo %": "solos",
    "draw %": "draws",
    "loss %": "losses",
    "decided %": "decided",
    "survival %": "survival",
}
SHARES = {
    "score % (squares)": "squares",
    "searchbot % (solo 1 or 0)": "searchbot",
    "draw size %": "draw_size",
    "centres": "centres",
    "rank": "rank",
}
_DIGITS = {"centres": 2, "rank": 2}
INTERVALS = (
    "Each figure is followed by its 95 % interval: Wilson's for counts (solos, draws, losses, the one's survival), "
    "Student's t over games for the rest. The latter has no width, and says nothing, if all games ended alike. A draw "
    "is a game without a winner in which one has a centre left; rank is the place by centres, 1 to 7. The score is the "
    "plain share of squares: a power's centres squared over the sum of all squares, in a solo as well. Searchbot's "
    "score (its game_scoring) is 1 for a solo, 0 for a game that another power won alone, else the same share. With "
    "seven players a draw is not half a win. Decided games are won by one power alone."
)
_PAIRED = fill(
    "Both have the same power, start and draws of the six in game i. The interval by power is from the variance within "
    "powers. The corrected share leaves out the luck of the reference, whose mean is 1/7 by symmetry "
    "(docs/results/diplomacy_benchmark.md).",
    WIDTH,
)
EACH_OF_SIX = "Any of the six can win a solo, and a draw counts for them if any of them is left; the rest is per power."


@dataclass(frozen=True)
class Side:
    """Results of one side, means over games."""

    solos: Estimate
    """Share of games won alone by the one, or by one of the six."""
    draws: Estimate
    """Share of the games without a winner in which the side has a centre left."""
    losses: Estimate
    """The rest."""
    decided: Estimate
    """Share of the games that any power won alone."""
    draw_size: Estimate
    squares: Estimate
    """Plain share of squares."""
    searchbot: Estimate
    """Share of squares, 1 for a solo and 0 for a game that another power won alone."""
    centres: Estimate
    survival: Estimate
    """Share of the side's powers with a centre at the end."""
    rank: Estimate
    """Rank among the powers by centres, 1 to 7; equal powers share the better rank."""
    leads: Estimate
    """Share of games in which no power has more centres than the one, or than one of the six."""


@dataclass(frozen=True)
class PowerRecord:
    """Results of one player against six of another, or of itself."""

    one: str
    six: str
    games: int
    alone: Side
    together: Side
    """Of the six."""
    year: float
    """Mean year in which a game ended."""
    alone_by_power: tuple[Side, ...] = ()
    """Results of the one by its power; empty unless requested."""
    together_by_power: tuple[Side, ...] = ()
    """Results of each power among the six."""
    ends: tuple[str, ...] = ()
    """Of each game its last year and the centres of the seven powers: "1910 3 0 18 4 0 5 4"; `pool.py` reads them."""

    @property
    def player(self) -> str:
        """Player of the one."""
        return self.one

    @property
    def opponent(self) -> str:
        """Player of the six."""
        return self.six

    @property
    def win_rate(self) -> float:
        """Share of games that the one won alone."""
        return self.alone.solos.value

    @property
    def score(self) -> float:
        """Mean share of squares of the one."""
        return self.alone.squares.value

    @property
    def decided(self) -> float:
        """Share of games that any power won alone."""
        return self.alone.decided.value


def record(lone: str, six: str, owner: Tensor, year: Tensor, *, by_power: bool = False) -> PowerRecord:
    """Return the record of a cell's finished games, `lone` in seat i % 7 of game i.

    `owner` [G, 34] holds the owners of the centres and `year` [G] the games' last years.
    """
    owner, games = owner.cpu(), len(owner)
    single = one_of_seven(games)
    sides: dict[str, tuple[Side, ...]] = {}
    if by_power:
        for name, seats in (("alone_by_power", single), ("together_by_power", ~single)):
            sides[name] = tuple(_of_power(owner, seats, power) for power in range(NUM_POWERS))
    counts = count_centres(owner).tolist()
    ends = [" ".join(map(str, (last, *centres))) for last, centres in zip(year.tolist(), counts, strict=True)]
    alone, together, mean_year = side(owner, single), side(owner, ~single), float(year.float().mean())
    return PowerRecord(lone, six, games, alone, together, mean_year, **sides, ends=tuple(ends))


def side(owner: Tensor, seats: Tensor) -> Side:
    """Return results of the powers `seats` bool [G, 7], equally many per game, for final `owner` [G, 34]."""
    games = len(owner)

    def pick(scores: Tensor) -> Tensor:
        return scores[seats].view(games, -1)

    centres = count_centres(owner)
    won, alive = pick(solos(owner) > 0).any(dim=1), pick(centres > 0)
    drawn = (solos(owner) == 0).all(dim=1) & alive.any(dim=1)
    return Side(
        solos=_share(won),
        draws=_share(drawn),
        losses=_share(~(won | drawn)),
        decided=_share((solos(owner) > 0).any(dim=1)),
        draw_size=_mean(pick(draw_size(owner))),
        squares=_mean(pick(sum_of_squares(owner))),
        searchbot=_mean(pick(sum_of_squares(owner, solo_takes_all=True))),
        centres=_mean(pick(centres.double()), most=NUM_CENTRES),
        survival=_share(alive[:, 0]) if alive.shape[1] == 1 else _mean(alive.double()),
        rank=_mean(pick(ranks(owner).double()), least=1.0, most=NUM_POWERS),
        leads=_share((pick(ranks(owner).double()) == 1).any(dim=1)),
    )


def lone_shares(owner: Tensor) -> Tensor:
    """Return the share of squares [G] of the power i % 7 of game i, for final `owner` [G, 34]."""
    return sum_of_squares(owner.cpu())[one_of_seven(len(owner))]


def _of_power(owner: Tensor, seats: Tensor, power: int) -> Side:
    """Return results of that power in the games where it is one of `seats`."""
    games = seats[:, power]
    only = torch.zeros_like(seats)
    only[:, power] = True
    return side(owner[games], only[games])


def _share(happened: Tensor) -> Estimate:
    """Return the share of True in bool [G], with its interval."""
    return Estimate(float(happened.double().mean()), wilson(int(happened.sum()), len(happened)))


def _mean(scores: Tensor, *, least: float = 0.0, most: float = 1.0) -> Estimate:
    """Return the mean of [G, n] and its interval over games."""
    return bounded_estimate(scores.mean(dim=1).numpy(), least, most)


def to_markdown(
    options: DiplomacyOptions, records: Sequence[PowerRecord], about: Mapping[str, Any], rated: Report | None = None
) -> str:
    """Return both sides of every cell, a policy's results by power, and the pairs of games of a ladder, `rated`."""
    by_six = sorted(records, key=lambda record: options.opponents.index(record.six) if not about else 0)
    lone = [(record.one, record.six, record.alone) for record in records]
    six = [(record.six, record.one, record.together) for record in by_six]
    games = games_of(options, records)
    played = (
        f"{games} games each {options.begin or ''}to the end of {options.last_year}, every power played equally often, "
        f"seed {options.seed}. {'Policies draw their orders. ' * options.stochastic}An equal share is "
        f"{percent(1 / NUM_POWERS)} %. {INTERVALS}"
    )
    parts = ["# Diplomacy: one power against six"]
    parts += [] if games == options.games else [f"Partial: stopped after {games} of {options.games} games each."]
    parts += [fill(played, WIDTH), *_about(about)]
    parts += ["## One against six", *_sides(lone), f"## Six against one\n\n{EACH_OF_SIX}", *_sides(six)]
    for rows in paired_with(options, records):
        parts.append(f"## Compared with {options.reference} in the same games\n\n{_PAIRED}\n\n{paired_table(rows)}")
    parts += [part for record in records for part in _by_power(options, record)]
    if rated:
        counted = f"{conditions(rated)}. These are games of the tables above. {MEANING}."
        parts += [f"## Pairs of games and ratings\n\n{fill(counted, WIDTH)}", *rated_tables(rated)]
    return "\n\n".join([*parts, f"Command: `{options.command}`"]) + "\n"


def to_json(
    options: DiplomacyOptions, records: Sequence[PowerRecord], about: Mapping[str, Any], rated: Report | None = None
) -> str:
    """Return records and conditions; equal input gives equal bytes."""
    names = ("games", "last_year", "seed", "device", "command")
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "diplomacy"}
    content |= {name: getattr(options, name) for name in names} | {"deterministic": not options.stochastic}
    games = games_of(options, records)
    content |= {"partial": {"games": games, "of": options.games}} if games != options.games else {}
    content |= {"start": options.begin.plain()} if options.begin else {}
    content |= {"language_model": dict(about)} if about else {}
    content["records"] = [plain_record(record) for record in records]
    if compared := paired_with(options, records):
        content |= {"reference": options.reference, "paired": [[asdict(row) for row in rows] for rows in compared]}
    if rated and rated.anchor:
        content["pairs"] = [pair.plain() for pair in rated.records]
        content |= {"anchor": asdict(rated.anchor), "ratings": [asdict(rating) for rating in rated.ratings("")]}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def games_of(options: DiplomacyOptions, records: Sequence[PowerRecord]) -> int:
    """Return the games played per pair, fewer than requested if interrupted."""
    return records[0].games if records else options.games


def references_markdown(name: str, league: League) -> str:
    """Return a league's fixed references, and the gap from the base model to the best checkpoint."""
    rows = [
        [row.figure, f"{row.elo:+.0f}", "", str(row.games)]
        if row.change is None
        else [row.figure, f"{row.elo:.0f}", f"{row.change:+.0f}", str(row.games)]
        for row in reference_table(league)
    ]
    return f"# {name}: fixed references\n\n{table(['', 'Elo', 'since the beginning', 'games'], rows)}\n"


def references_json(name: str, league: League) -> str:
    """Return the same as JSON."""
    content = {"schema_version": SCHEMA_VERSION, "kind": "fixed_references", "run": name}
    rows = [asdict(row) for row in reference_table(league)]
    return json.dumps(content | {"rows": rows}, indent=1, allow_nan=False) + "\n"


def paired_with(options: DiplomacyOptions, records: Sequence[PowerRecord]) -> list[list[PairedRow]]:
    """Return the rows of the player and --reference for each opponent; none without a reference or enough games."""
    of_reference = {record.six: record for record in records if record.one == options.reference}
    compared = []
    for record in records:
        if record.one == options.name and record.six in of_reference:
            shares, theirs = (lone_shares(owners_of(each)) for each in (record, of_reference[record.six]))
            games = min(len(shares), len(theirs))  # fewer if the player was interrupted
            names = record.one, options.reference, record.six
            compared.append(paired_rows(*names, shares[:games].numpy(), theirs[:games].numpy()))
    return [rows for rows in compared if rows]


def plain_record(record: PowerRecord) -> dict[str, Any]:
    """Return a record as a dict, with any sides by power keyed by power; wins are the solos of the one."""
    alone = record.alone
    wins, draws, losses = (round(share.value * record.games) for share in (alone.solos, alone.draws, alone.losses))
    counts = GameCounts((wins, draws, losses)).figures()
    plain = {"player": record.one, "opponent": record.six, **counts} | asdict(record)
    plain |= {"score": alone.squares.value, "score_interval": alone.squares.interval, "decided": alone.decided.value}
    for name in ("alone_by_power", "together_by_power"):
        sides = plain.pop(name)
        if sides:
            plain[name] = dict(zip(POWERS, sides, strict=True))
    return plain


def _about(about: Mapping[str, Any]) -> list[str]:
    """Return a line on the language model and its decoding."""
    if not about:
        return []
    how = f"at temperature {about['temperature']:g}" if about["temperature"] else "the likeliest token each time"
    if about["temperature"] is None:
        how = "at the server's own temperature"
    trained = about.get("training", {})
    steps = f", trained for {trained['step']} steps" if "step" in trained else ""
    notes = "".join(f" The server: {note}." for note in about.get("endpoint_notes", ()))
    return [f"Language model: {about['model']}{steps}; {how}.{notes}", *served_parts(about.get("endpoint", {}))]


def served_parts(metrics: Mapping[str, float]) -> list[str]:
    """Return the fallback rate of a server, its answers by kind, its orders, and its cost."""
    if not metrics:
        return []
    kinds, decisions = answers_by_kind(metrics), int(metrics["endpoint/decisions"])
    rows = [[kind, f"{count:,}", percent(count / max(decisions, 1))] for kind, count in kinds.items()]
    parts = [f"{fallbacks_of(metrics)}.", table(("answers", "number", "%"), rows), orders_by_kind(metrics)]
    return [*filter(None, parts), spent(metrics)]


def _sides(rows: Sequence[tuple[str, str, Side]]) -> list[str]:
    return [side_table(rows, columns) for columns in (RESULTS, SHARES)]


def side_table(rows: Sequence[tuple[str, str, Side]], columns: Mapping[str, str]) -> str:
    """Return figures of sides with their intervals: `columns` are fields of `Side` by heading."""
    headings = ("", "against", *(heading for name in columns for heading in (name, "95 %")))
    return table(headings, [[lone, six, *_cells(side, columns)] for lone, six, side in rows])


def _by_power(options: DiplomacyOptions, record: PowerRecord) -> list[str]:
    """Return a policy's results by power, alone or as six."""
    if options.ckpt not in (record.one, record.six):
        return []
    alone = record.one == options.ckpt
    sides = record.alone_by_power if alone else record.together_by_power
    if not sides:
        return []
    title = f"{record.one} against six {record.six}" if alone else f"Six {record.six} against {record.one}"
    return [f"## {title}, power by power", power_table(sides)]


def power_table(sides: Sequence[Side]) -> str:
    """Return the figures of the seven powers, without intervals."""
    columns = RESULTS | SHARES
    rows = [[power.title(), *_values(side, columns)] for power, side in zip(POWERS, sides, strict=True)]
    return table(("", *columns), rows)


def _values(side: Side, columns: Mapping[str, str]) -> list[str]:
    return [_number(name, getattr(side, name).value) for name in columns.values()]


def _cells(side: Side, columns: Mapping[str, str]) -> list[str]:
    """Return each figure with its interval."""
    cells = []
    for name in columns.values():
        estimate = getattr(side, name)
        low, high = (_number(name, value) for value in estimate.interval)
        cells += [_number(name, estimate.value), f"{low} to {high}"]
    return cells


def _number(name: str, value: float) -> str:
    digits = _DIGITS.get(name)
    return percent(value) if digits is None else f"{value:.{digits}f}"


def owners_of(record: PowerRecord) -> Tensor:
    """Return final owners [G, 34] with the counts of a record's games."""
    return owners_with([[int(count) for count in end.split()[1:]] for end in record.ends])


def owners_with(centres: Sequence[Sequence[int]]) -> Tensor:
    """Return owners [G, 34] with these counts of centres, equivalent to those of the games."""
    owner = torch.full((len(centres), NUM_CENTRES), -1)
    for row, counts in zip(owner, centres, strict=True):
        owners = torch.arange(NUM_POWERS).repeat_interleave(torch.tensor(counts))
        row[: len(owners)] = owners
    return owner
