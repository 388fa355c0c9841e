"""Results of Diplomacy evaluations as markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Any

from sparring.agents.llm.endpoint.retry import fallbacks_of
from sparring.curriculum.league.metrics import reference_table
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.eval.diplomacy.options import DiplomacyOptions
from sparring.eval.parser import WIDTH
from sparring.eval.stats.tables import common_record, percent, table

if TYPE_CHECKING:
    from sparring.curriculum.league.league import League
    from sparring.eval.diplomacy.single_power import PowerRecord, Side

SCHEMA_VERSION = 2
_RESULTS = {"solo %": "solos", "draw %": "draws", "loss %": "losses", "survival %": "survival"}
_SHARES = {"draw size %": "draw_size", "squares %": "squares", "centres": "centres", "rank": "rank"}
_DIGITS = {"centres": 2, "rank": 2}
_INTERVALS = (
    "Each figure is followed by its 95 % interval: Wilson's for counts (solos, draws, losses, the one's survival), "
    "Student's t over games for the rest, which has no width, and says nothing, where all games ended alike. A draw is "
    "a game without a winner in which one has a centre left; rank is the place by centres, 1 to 7."
)
_SIX = "Solos are those of any of the six, and a draw is theirs if any of them is left; the rest is per power."


def to_markdown(options: DiplomacyOptions, records: Sequence[PowerRecord], about: Mapping[str, Any]) -> str:
    """Return both sides of every cell, and a policy's results by power."""
    by_six = sorted(records, key=lambda record: options.opponents.index(record.six) if not about else 0)
    one = [(record.one, record.six, record.alone) for record in records]
    six = [(record.six, record.one, record.together) for record in by_six]
    games = games_of(options, records)
    played = (
        f"{games} games each to the end of {options.last_year}, every power played equally often, seed "
        f"{options.seed}. An equal share is {percent(1 / NUM_POWERS)} %. {_INTERVALS}"
    )
    parts = ["# Diplomacy: one power against six"]
    parts += [] if games == options.games else [f"Partial: stopped after {games} of {options.games} games each."]
    parts += [fill(played, WIDTH), *_about(about)]
    parts += ["## One against six", *_sides(one), f"## Six against one\n\n{_SIX}", *_sides(six)]
    parts += [part for record in records for part in _by_power(options, record)]
    return "\n\n".join([*parts, f"Command: `{options.command}`"]) + "\n"


def to_json(options: DiplomacyOptions, records: Sequence[PowerRecord], about: Mapping[str, Any]) -> str:
    """Return records and conditions; equal input gives equal bytes."""
    names = ("games", "last_year", "seed", "device", "command")
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "diplomacy"}
    content |= {name: getattr(options, name) for name in names}
    games = games_of(options, records)
    content |= {"partial": {"games": games, "of": options.games}} if games != options.games else {}
    content |= {"language_model": dict(about)} if about else {}
    content["records"] = [_plain(record) for record in records]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def games_of(options: DiplomacyOptions, records: Sequence[PowerRecord]) -> int:
    """Return the games played per pair, fewer than requested if they were cut off."""
    return records[0].games if records else options.games


def references_markdown(name: str, league: League) -> str:
    """Return a league's fixed references, and the gap from the base model to the best checkpoint."""
    rows = [
        [row.figure, f"{row.elo:+.0f}" if row.change is None else f"{row.elo:.0f}", _change(row.change), str(row.games)]
        for row in reference_table(league)
    ]
    return f"# {name}: fixed references\n\n{table(['', 'Elo', 'since the beginning', 'games'], rows)}\n"


def references_json(name: str, league: League) -> str:
    """Return the same as JSON."""
    content = {"schema_version": SCHEMA_VERSION, "kind": "fixed_references", "run": name}
    rows = [asdict(row) for row in reference_table(league)]
    return json.dumps(content | {"rows": rows}, indent=1, allow_nan=False) + "\n"


def _change(change: float | None) -> str:
    return "" if change is None else f"{change:+.0f}"


def _plain(record: PowerRecord) -> dict[str, Any]:
    """Return a record as a dict, with any sides by power keyed by power; wins are the solos of the one."""
    one = record.alone
    wins, draws, losses = (round(share.value * record.games) for share in (one.solos, one.draws, one.losses))
    plain = common_record(record.one, record.six, wins, draws, losses) | asdict(record)
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
    trained = about.get("training", {})
    steps = f", trained for {trained['step']} steps" if "step" in trained else ""
    return [f"Language model: {about['model']}{steps}; {how}.{_served(about.get('endpoint', {}))}"]


def _served(metrics: Mapping[str, float]) -> str:
    """Return how often the fallback replaced a server."""
    if not metrics:
        return ""
    return f" {fallbacks_of(metrics)}."


def _sides(rows: Sequence[tuple[str, str, Side]]) -> list[str]:
    return [
        table(
            ("", "against", *(heading for name in columns for heading in (name, "95 %"))),
            [[one, six, *_cells(side, columns)] for one, six, side in rows],
        )
        for columns in (_RESULTS, _SHARES)
    ]


def _by_power(options: DiplomacyOptions, record: PowerRecord) -> list[str]:
    """Return a policy's results by power, alone or as six."""
    alone = record.one == options.ckpt
    sides = record.alone_by_power if alone else record.together_by_power
    if not sides:
        return []
    title = f"{record.one} against six {record.six}" if alone else f"Six {record.six} against {record.one}"
    columns = _RESULTS | _SHARES
    rows = [[power.title(), *_values(side, columns)] for power, side in zip(POWERS, sides, strict=True)]
    return [f"## {title}, power by power", table(("", *columns), rows)]


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
