"""Re-adjudicate recorded games: fill in missing results, and find phases that differ.

`differences` returns the first difference of every differing phase, with many phases per call of the adjudicator.
`complete_results` fills in missing results and adds a note for every difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from sparring.envs.diplomacy.batch import SEA, STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, location_name, standard_board
from sparring.envs.diplomacy.board.positions import LAST_YEAR
from sparring.envs.diplomacy.orders.notation import has_words, write_order, write_unit
from sparring.envs.diplomacy.records.history import RESULTS, PhaseRecord
from sparring.envs.diplomacy.records.phase_format import absent_results, result_words, units_ordered
from sparring.envs.diplomacy.records.timeline import UNKNOWN

CHUNK = 4096
"""Number of phases adjudicated per call."""
Row = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Difference:
    """The first difference between a phase and its file."""

    game: int
    """Number of the game, from 0."""
    number: int
    """Number of the phase in its game."""
    phase: str
    """Its name, such as F1902M."""
    place: str
    """A unit's order, the province of a unit afterwards, or a centre."""
    expected: str
    """Value in the file."""
    ours: str
    """Value of the adjudicator."""
    in_position: bool
    """Whether the next position differs, not only results."""

    def __str__(self) -> str:
        return f"phases[{self.number}] ({self.phase}): {self.place}: the file has {self.expected}, we have {self.ours}"


def differences(games: Iterable[Sequence[PhaseRecord]], *, via: str = SEA) -> Iterator[Difference]:
    """Yield a `Difference` for each phase of `games` that differs from its record, in order.

    Compared are, in this order, units, those that have to retreat, owners, the next phase, and the results that are
    recorded. `via` is the reading of moves VIA (`DiplomacyBatch`).
    """
    waiting: list[_Step] = []
    for index, game in enumerate(games):
        for number, record in enumerate(game[:-1]):
            if record.orders is not None and not int(record.position["done"]):
                waiting.append(_Step(index, number, record, game[number + 1], _after_idle_retreats(game, number + 1)))
        if len(waiting) >= CHUNK:
            yield from _differing(waiting, via)
            waiting = []
    if waiting:
        yield from _differing(waiting, via)


@dataclass(frozen=True)
class _Step:
    """A phase with the next one, and where that one is of retreats in which nothing moves, the one after it."""

    game: int
    number: int
    record: PhaseRecord
    after: PhaseRecord
    later: PhaseRecord | None


def _after_idle_retreats(game: Sequence[PhaseRecord], number: int) -> PhaseRecord | None:
    """Return the phase after retreats in which no unit retreats, None for other phases.

    Some sites have a phase of retreats for units without one; here they are disbanded at once, and it is skipped.
    """
    if number + 1 >= len(game) or int(game[number].position["phase"]) not in codes.RETREATS:
        return None
    units, later = (game[n].position["units"] for n in (number, number + 1))
    return game[number + 1] if torch.equal(units, later) else None


def _without_retreat(record: PhaseRecord) -> np.ndarray:
    """Return the provinces, bool [75], whose dislodged unit does not retreat in the phase of `record`."""
    gone = record.position["dislodged"][0].numpy() > 0
    if record.orders is None or record.results is None:
        return np.zeros_like(gone)
    retreats = (record.orders & codes.KIND_MASK == codes.RETREAT) & (record.results == codes.DONE)
    return gone & ~retreats


def _differing(phases: Sequence[_Step], via: str) -> Iterator[Difference]:
    results, after = _adjudicated([step.record for step in phases], via)
    skipped = [step.later is not None and not after["dislodged"][row].any() for row, step in enumerate(phases)]
    nexts = [step.later if skip and step.later else step.after for skip, step in zip(skipped, phases, strict=True)]
    following = {name: torch.cat([record.position[name] for record in nexts]).numpy() for name in STATE}
    lingering = np.stack([_without_retreat(record) for record in nexts])
    following["dislodged"] = np.where(lingering & (after["dislodged"] == 0), 0, following["dislodged"])
    in_file = [step.record.results for step in phases]
    recorded = np.stack([ours if stored is None else stored for ours, stored in zip(results, in_file, strict=True)])
    wrong = ((recorded != results) & (recorded != UNKNOWN)).any(axis=1)
    for name in ("units", "dislodged", "owner"):
        wrong |= (after[name] != following[name]).any(axis=1)
    clock = np.stack([after[name] != following[name] for name in ("year", "phase", "done")])
    # Players may agree on a draw in any phase; the clock of the file then stops.
    wrong |= clock.any(axis=0) & (following["done"] == 0)
    for row in np.flatnonzero(wrong).tolist():
        step, record = phases[row], phases[row].record
        ours, stored = ({name: rows[name][row] for name in STATE} for rows in (after, following))
        name = codes.phase_name(int(record.position["year"]), int(record.position["phase"]))
        moved = next(_position_differences(ours, stored), None)
        known = np.where(recorded[row] == UNKNOWN, results[row], recorded[row])
        place, expected, adjudicated = moved or next(_all_results(record, known, results[row]))
        yield Difference(step.game, step.number, name, place, expected, adjudicated, moved is not None)


def _position_differences(ours: Row, stored: Row) -> Iterator[tuple[str, str, str]]:
    """Yield (place, the file's, ours) of two positions after a phase."""
    yield from _unit_differences(ours, stored, "units")
    yield from _unit_differences(ours, stored, "dislodged")
    yield from _owner_differences(ours, stored)
    if not int(stored["done"]) and any(int(ours[name]) != int(stored[name]) for name in ("year", "phase", "done")):
        yield "the next phase", _clock(stored), _clock(ours)


def _clock(row: Row) -> str:
    return "the end" if int(row["done"]) else codes.phase_name(int(row["year"]), int(row["phase"]))


def complete_results(game: Sequence[PhaseRecord], *, via: str = SEA) -> list[PhaseRecord]:
    """Return the game with its missing results and with notes; phases without orders stay as they are."""
    played = [number for number, record in enumerate(game) if record.orders is not None]
    if not played:
        return list(game)
    results, after = _adjudicated([game[number] for number in played], via)
    completed = list(game)
    for row, number in enumerate(played):
        following = game[number + 1].position if number + 1 < len(game) else None
        stored = {name: following[name][0].cpu().numpy() for name in ("units", "owner")} if following else None
        ours = {name: values[row] for name, values in after.items()}
        completed[number] = _completed(game[number], results[row], ours, stored)
    return completed


def summary(game: Sequence[PhaseRecord], *, most: int = 5) -> list[str]:
    """Return at most `most` notes of a game, and the number of the others; empty without any."""
    lines = [f"phases[{number}]: {note}" for number, record in enumerate(game) for note in record.notes]
    rest = [f"... and {len(lines) - most} more, in the `notes` of the phases"] if len(lines) > most else []
    return lines[:most] + rest


def _adjudicated(records: Sequence[PhaseRecord], via: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the results uint8 [T, 75] of T phases, and the positions [T, ...] after them."""
    batch = DiplomacyBatch(len(records), last_year=LAST_YEAR, threads=1, via=via)
    batch.load({name: torch.cat([record.position[name] for record in records]) for name in STATE})
    batch.orders.copy_(torch.from_numpy(np.stack([record.orders for record in records if record.orders is not None])))
    batch.process()
    state = {name: values.numpy() for name, values in batch.snapshot().items()}
    results = batch.results.numpy().copy()
    batch.close()
    return results, state


def _completed(record: PhaseRecord, adjudicated: np.ndarray, ours: Row, stored: Row | None) -> PhaseRecord:
    orders = record.orders
    if orders is None or int(record.position["done"]) or (stored is None and record.results is None):
        return record
    results = absent_results(record.position, orders) if record.results is None else record.results
    units = list(_unit_differences(ours, stored, "units")) if stored else []
    owners = list(_owner_differences(ours, stored)) if stored else []
    if not units and not owners:
        results = np.where(results == UNKNOWN, adjudicated, results)
    notes = [f"{where}: the file has {in_file} there afterwards, the adjudicator {us}" for where, in_file, us in units]
    notes += [
        f"{where}: the file has {in_file} as its owner afterwards, the adjudicator {us}"
        for where, in_file, us in owners
    ]
    for where, in_file, us in _all_results(record, results, adjudicated):
        claim = "the file gives no result" if in_file == RESULTS[UNKNOWN] else f"the file says {in_file}"
        notes.append(f"{where}: {claim}; the adjudicator says {us}")
    return replace(record, results=results, notes=tuple(notes))


def _unit_differences(ours: Row, stored: Row, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield (province, the file's, ours) where units differ, or with `dislodged` those that have to retreat."""
    retreats = "to retreat: " if name == "dislodged" else ""
    for province in np.flatnonzero(ours[name] != stored[name]).tolist():
        recorded, us = (_unit(int(row[name][province]), province) for row in (stored, ours))
        yield location_name(province), f"{retreats}{recorded}", us


def _owner_differences(ours: Row, stored: Row) -> Iterator[tuple[str, str, str]]:
    for centre in np.flatnonzero(ours["owner"] != stored["owner"]).tolist():
        recorded, us = (_power(int(row["owner"][centre])) for row in (stored, ours))
        yield location_name(int(standard_board().centres[centre])), recorded, us


def _all_results(record: PhaseRecord, results: np.ndarray, adjudicated: np.ndarray) -> Iterator[tuple[str, str, str]]:
    """Yield (order, the file's result, ours) where results [75] differ."""
    units = units_ordered(record.position)
    orders = np.zeros_like(adjudicated) if record.orders is None else record.orders
    for province in np.flatnonzero(results != adjudicated).tolist():
        recorded, us = (", ".join(result_words(int(row[province]))) for row in (results, adjudicated))
        yield _order(int(orders[province]), province, units[province]), recorded, us


def _order(order: int, province: int, unit: int) -> str:
    if order and has_words(order) and (unit or order & codes.KIND_MASK == codes.BUILD):
        return write_order(order, province, unit)
    return _unit(unit, province) if unit else location_name(province)


def _unit(unit: int, province: int) -> str:
    return f"{_power((unit - 1) % codes.NUM_POWERS)} {write_unit(unit, province)}" if unit else "nothing"


def _power(power: int) -> str:
    return POWERS[power] if power != NOTHING else "no power"
