"""Results of recorded phases beside what the adjudicator makes of the same orders.

Files may lack results, some or all. Absent is not success: the adjudicator processes the orders of every phase, and
its results take the place of the missing ones where its next position is that of the file. Where it is another one,
they stay `UNKNOWN`. Every difference is a note of its phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, location_name, standard_board
from sparring.envs.diplomacy.board.positions import LAST_YEAR, Position
from sparring.envs.diplomacy.orders.notation import has_words, write_order, write_unit
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.phase_writing import result_words
from sparring.envs.diplomacy.records.timeline import UNKNOWN

Row = Mapping[str, np.ndarray]


def absent_results(position: Position, orders: np.ndarray) -> np.ndarray:
    """Return results uint8 [75] of which none is known: `UNKNOWN` for each order, and each unit in movement."""
    moving = int(position["phase"]) in (codes.SPRING, codes.FALL)
    standing = position["units"][0].cpu().numpy() > 0
    return np.where((orders != 0) | (standing & moving), UNKNOWN, codes.UNORDERED).astype(np.uint8)


def complete_results(game: Sequence[PhaseRecord]) -> list[PhaseRecord]:
    """Return the game with its missing results and with notes; phases without orders stay as they are."""
    played = [number for number, record in enumerate(game) if record.orders is not None]
    if not played:
        return list(game)
    results, after = _adjudicated([game[number] for number in played])
    found = list(game)
    for number, ours, row in zip(played, results, after, strict=True):
        following = game[number + 1].position if number + 1 < len(game) else None
        found[number] = _completed(game[number], ours, row, following)
    return found


def summary(game: Sequence[PhaseRecord], *, most: int = 5) -> list[str]:
    """Return the notes of a game, `most` of them, and the number of the others; empty without any."""
    lines = [f"phases[{number}]: {note}" for number, record in enumerate(game) for note in record.notes]
    more = [f"... and {len(lines) - most} more, in the `notes` of the phases"] if len(lines) > most else []
    return lines[:most] + more


def _adjudicated(records: Sequence[PhaseRecord]) -> tuple[np.ndarray, list[Row]]:
    """Return the results uint8 [T, 75] of T phases, and the position after each."""
    batch = DiplomacyBatch(len(records), last_year=LAST_YEAR, threads=1)
    batch.load({name: torch.cat([record.position[name] for record in records]) for name in STATE})
    batch.orders.copy_(torch.from_numpy(np.stack([record.orders for record in records if record.orders is not None])))
    batch.process()
    state = {name: values.numpy() for name, values in batch.snapshot().items()}
    results = batch.results.numpy().copy()
    batch.close()
    return results, [{name: values[number] for name, values in state.items()} for number in range(len(records))]


def _completed(record: PhaseRecord, ours: np.ndarray, after: Row, following: Position | None) -> PhaseRecord:
    orders = record.orders
    if orders is None or int(record.position["done"]) or (following is None and record.results is None):
        return record
    results = absent_results(record.position, orders) if record.results is None else record.results
    elsewhere = list(_differences(after, following)) if following else []
    if not elsewhere:
        results = np.where(results == UNKNOWN, ours, results)
    notes = [f"{place}: {words}" for place, words in elsewhere]
    notes += _other_results(record, results, ours)
    return replace(record, results=results, notes=tuple(notes))


def _differences(ours: Row, following: Position) -> Iterator[tuple[str, str]]:
    """Yield (place, what differs) of the units and owners after a phase."""
    theirs = {name: following[name][0].cpu().numpy() for name in ("units", "owner")}
    for province in np.flatnonzero(ours["units"] != theirs["units"]).tolist():
        here, there = (_unit(int(row["units"][province]), province) for row in (theirs, ours))
        yield location_name(province), f"the file has {here} there afterwards, the adjudicator {there}"
    for centre in np.flatnonzero(ours["owner"] != theirs["owner"]).tolist():
        here, there = (_power(int(row["owner"][centre])) for row in (theirs, ours))
        place = location_name(int(standard_board().centres[centre]))
        yield place, f"the file has {here} as its owner afterwards, the adjudicator {there}"


def _other_results(record: PhaseRecord, results: np.ndarray, ours: np.ndarray) -> list[str]:
    units = record.position["dislodged" if int(record.position["phase"]) in codes.RETREATS else "units"][0].tolist()
    orders = np.zeros_like(ours) if record.orders is None else record.orders
    return [
        f"{_order(int(orders[place]), place, units[place])}: {_said(int(results[place]))}; "
        f"the adjudicator says {', '.join(result_words(int(ours[place])))}"
        for place in np.flatnonzero(results != ours).tolist()
    ]


def _said(result: int) -> str:
    return "the file gives no result" if result == UNKNOWN else f"the file says {', '.join(result_words(result))}"


def _order(order: int, province: int, unit: int) -> str:
    if order and has_words(order) and (unit or order & codes.KIND_MASK == codes.BUILD):
        return write_order(order, province, unit)
    return _unit(unit, province) if unit else location_name(province)


def _unit(unit: int, province: int) -> str:
    return f"{_power((unit - 1) % codes.NUM_POWERS)} {write_unit(unit, province)}" if unit else "nothing"


def _power(power: int) -> str:
    return POWERS[power] if power != NOTHING else "no power"
