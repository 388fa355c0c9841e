"""One phase of a game as a JSON value, in the usual notation: reader and writer.

Errors name the path of the wrong field (`typed.py`), and every position read has passed `check_position`. Every
order written is read back first. The readers of single fields also serve the format of `package_game.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.typed import Field
from sparring.envs.diplomacy.batch import STATE
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, find_location, location_name, standard_board
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR, Position, check_numbers, check_winner
from sparring.envs.diplomacy.orders import notation
from sparring.envs.diplomacy.records.history import RESULTS, PhaseRecord
from sparring.envs.diplomacy.records.history_consistency import check_origins, check_retreating, check_victor
from sparring.envs.diplomacy.records.timeline import UNKNOWN

ORIGIN_WORDS = {codes.CAME_BY_CONVOY: "convoy", codes.CONTESTED: "contested"}
DISLODGED_WORD = "dislodged"
_RESULT_WORDS = (*RESULTS, DISLODGED_WORD)
STARRED = 128
"""Added to the code of a unit that begins with a star; codes are smaller."""
_LONGEST_LIST = 2000
"""Maximum characters of a power's texts in the parse cache."""
_NUMBERS = {power: number for number, power in enumerate(POWERS)}
T = TypeVar("T")


def read_phase_name(field: Field) -> tuple[int, int]:
    """Return (year, phase) of a name such as S1901M."""
    return field.read(_phase_name, field.of(str))


@lru_cache(2**12)
def _phase_name(text: str) -> tuple[int, int]:
    letters = {f"{season}{kind}": number for number, (season, kind) in enumerate(codes.PHASE_LETTERS)}
    match = re.fullmatch(r"([SFW])([0-9]{4,5})([MRA])", text)
    if not match or match[1] + match[3] not in letters:
        raise InputError(f"{text!r} is not a phase; write S1901M, S1901R, F1901M, F1901R or W1901A")
    if not FIRST_YEAR <= int(match[2]) <= LAST_YEAR:
        raise InputError(f"{text!r}: the year must be in [{FIRST_YEAR}, {LAST_YEAR}]")
    return int(match[2]), letters[match[1] + match[3]]


def read_phase(field: Field) -> PhaseRecord:
    """Return the record in a JSON value; raises `InputError` with the path of the wrong field."""
    field.keys(("name", "state", "done", "winner", "orders", "results"))
    year, phase = read_phase_name(field["name"])
    state = read_state(field["state"], year, phase)
    if done := field.get("done"):
        state["done"][0] = done.of(bool)
    if winner := field.get("winner"):
        state["winner"][0] = read_power(winner, winner.of(str))
        field.read(check_winner, state)
    field["state"]["centres"].read(check_victor, state)
    field["name"].read(check_retreating, state)
    if origin := field["state"].get("origin"):
        origin.read(check_origins, state)
    orders = read_orders(ordered, state) if (ordered := field.get("orders")) else None
    return PhaseRecord(state, orders, _results(ended, state, orders) if (ended := field.get("results")) else None)


def read_state(field: Field, year: int, phase: int) -> dict[str, torch.Tensor]:
    """Return the position [1, ...] of a `state` field."""
    field.keys(("units", "dislodged", "origin", "centres"))
    units, dislodged = (np.zeros(codes.NUM_PROVINCES, dtype=np.uint8) for _ in range(2))
    read_units(field["units"], units)
    if away := field.get("dislodged"):
        read_units(away, dislodged)
    origin = _origin(field.get("origin"))
    return read_position(field, units, dislodged, origin, read_centres(field["centres"]), year=year, phase=phase)


def read_position(
    field: Field,
    units: np.ndarray,
    dislodged: np.ndarray,
    origin: np.ndarray,
    owner: np.ndarray,
    *,
    year: int,
    phase: int,
) -> dict[str, torch.Tensor]:
    """Return the position [1, ...] of these rows; raises `InputError` under `field` for an impossible one."""
    fields = (units, dislodged, origin.astype(np.uint8), owner.astype(np.int8))
    state = {name: torch.from_numpy(row[None]) for name, row in zip(STATE, fields, strict=False)}
    for name, kind, value in (("year", "h", year), ("phase", "b", phase), ("winner", "b", NOTHING), ("done", "B", 0)):
        state[name] = torch.from_numpy(np.array([value], dtype=kind))  # faster than torch.tensor
    # `read_units` refuses units where none can stand: only their number can be wrong, and those that were dislodged.
    if any(away := dislodged.tolist()) or np.count_nonzero(units) > codes.MAX_UNITS:
        field.read(check_numbers, units.tolist(), away, phase)
    return state


def read_power(field: Field, name: str) -> int:
    """Return the number of a power."""
    number = _NUMBERS.get(name)
    return POWERS.index(field.read(choose, "power", name, POWERS)) if number is None else number


def holdings(
    field: Field, reader: Callable[[str, int], T], *, alike: bool = False
) -> Iterator[tuple[int, Field, Sequence[T]]]:
    """Yield (power, its list, what `reader` makes of each text and the power) for all powers except those with null.

    `alike` says that a power's list is often the same as in the phase before.
    """
    for name, entry in field.items():
        power = read_power(field, name)
        if entry.value is not None:
            yield power, entry, _read_list(entry, reader, power, alike=alike)


def _read_list(entry: Field, reader: Callable[[str, int], T], power: int, *, alike: bool) -> Sequence[T]:
    texts = entry.of(list)
    try:
        if alike and len("".join(texts)) <= _LONGEST_LIST:
            return _meanings(reader, tuple(texts), power)
        return [reader(text, power) for text in texts]
    except (InputError, TypeError):  # Find its place.
        for number, text in entry.texts():
            entry.item(number).read(reader, text, power)
        raise


@lru_cache(2**14)
def _meanings(reader: Callable[[str, int], Any], texts: tuple[str, ...], power: int) -> tuple[Any, ...]:
    """Return the results of `reader` for a power's texts."""
    return tuple([reader(text, power) for text in texts])


def read_units(field: Field, units: np.ndarray, starred: np.ndarray | None = None) -> None:
    """Write the units of all powers into `units` [75], and those that begin with a star into `starred` [75]."""
    standing = [0] * codes.NUM_PROVINCES
    away = standing if starred is None else [0] * codes.NUM_PROVINCES
    for _, entry, meanings in holdings(field, notation.read_unit if starred is None else _read_starred, alike=True):
        for number, (province, code) in enumerate(meanings):
            row = away if code >= STARRED else standing
            if row[province]:
                entry.item(number).fail(f"there is a unit in {location_name(province)} already")
            row[province] = code % STARRED
    units[:] = standing
    if starred is not None:
        starred[:] = away


def _read_starred(text: str, power: int) -> tuple[int, int]:
    """Return (province, code) of a unit, `STARRED` added to the code if it begins with a star."""
    if not text.startswith("*"):
        return notation.read_unit(text, power)
    province, code = notation.read_unit(text[1:], power)
    return province, code + STARRED


def read_province(text: str, _power: int = NOTHING) -> int:
    """Return the number of a province; raises `InputError` for a coast."""
    location = find_location(text)
    if location >= codes.NUM_PROVINCES:
        raise InputError(f"{text!r}: write the province without a coast")
    return location


def read_centres(field: Field) -> np.ndarray:
    """Return the owners of the centres, int64 [34]."""
    centre_of, owner = _centre_numbers(), [NOTHING] * codes.NUM_CENTRES
    for _, entry in field.items():
        if entry.value is None:
            entry.fail("is null; write [] for a power without centres")
    for power, entry, provinces in holdings(field, read_province, alike=True):
        for number, province in enumerate(provinces):
            centre = centre_of[province]
            if centre < 0:
                entry.item(number).fail(f"{location_name(province)} is not a supply centre")
            if owner[centre] >= 0:
                entry.item(number).fail(f"{location_name(province)} already has an owner, {POWERS[owner[centre]]}")
            owner[centre] = power
    return np.array(owner)


@cache
def _centre_numbers() -> list[int]:
    """Return the number of the centre in each province, [75], or `NOTHING`."""
    return standard_board().centre_of.tolist()


def read_orders(
    field: Field, state: Position, *, left_out: Callable[[int, notation.Order, list[int]], bool] | None = None
) -> np.ndarray:
    """Return the orders int32 [75] of all powers in a position.

    `left_out` says of (power, order, orders so far) whether an order is not one of the game.
    """
    orders, ordered = [0] * codes.NUM_PROVINCES, units_ordered(state)
    home = standard_board().home.tolist() if int(state["phase"]) == codes.WINTER else None
    for power, entry, meanings in holdings(field, _read_order):
        for number, order in enumerate(meanings):
            if order is None or (left_out and left_out(power, order, orders)):
                continue
            province, unit = order.province, ordered[order.province]
            if not (unit and (unit - 1) % codes.NUM_POWERS == power) and (home is None or home[province] != power):
                where = location_name(province)
                entry.item(number).fail(f"{POWERS[power]} has nothing in {where} that could be ordered in this phase")
            if orders[province]:
                entry.item(number).fail(f"there is an order for {location_name(province)} already")
            plain = order.order if order.plain else notation.without_army_coasts(order.order, province, ordered)
            orders[province] = plain
    return np.array(orders, dtype=np.int32)


def _read_order(text: str, _power: int) -> notation.Order | None:
    return notation.read_order(text)


def _origin(field: Field | None) -> np.ndarray:
    origin = np.full(codes.NUM_PROVINCES, codes.NOTHING)
    marks = {word: mark for mark, word in ORIGIN_WORDS.items()}
    for name, mark in field.items() if field else ():
        word = mark.of(str)
        province = mark.read(read_province, name)
        origin[province] = marks[word] if word in marks else mark.read(read_province, word)
    return origin


def check_result(field: Field, province: int, result: int, order: int, *, phase: int, ordered: Sequence[int]) -> None:
    """Reject a result without an order, and a dislodgement outside of movement phases.

    `ordered` [75] are the units that have orders in this phase: dislodged ones in retreats.
    """
    if not order:
        where = location_name(province)
        if not ordered[province]:
            field.fail(f"nothing in {where} could be ordered in this phase, and no order was given there")
        if result % codes.DISLODGED_FLAG not in (codes.UNORDERED, UNKNOWN):
            field.fail(f"missing order for {where}; a unit without one is {codes.RESULTS[codes.UNORDERED]!r}")
    if result >= codes.DISLODGED_FLAG and phase not in (codes.SPRING, codes.FALL):
        field.fail(f"no unit is {DISLODGED_WORD} in {codes.PHASES[phase]}")


def units_ordered(state: Position) -> list[int]:
    """Return the units [75] that have orders in a position: the dislodged ones in retreats."""
    return state["dislodged" if int(state["phase"]) in codes.RETREATS else "units"][0].tolist()


def absent_results(position: Position, orders: np.ndarray) -> np.ndarray:
    """Return results uint8 [75] that are all missing: `UNKNOWN` for each order, and each unit in movement."""
    moving = int(position["phase"]) in (codes.SPRING, codes.FALL)
    standing = position["units"][0].cpu().numpy() > 0
    return np.where((orders != 0) | (standing & moving), UNKNOWN, codes.UNORDERED).astype(np.uint8)


def _results(field: Field, state: Position, orders: np.ndarray | None) -> np.ndarray:
    """Return the results uint8 [75] of these orders in a position."""
    results = np.zeros(codes.NUM_PROVINCES, dtype=np.uint8) if orders is None else absent_results(state, orders)
    order_of = [0] * codes.NUM_PROVINCES if orders is None else orders.tolist()
    phase = int(state["phase"])
    ordered = units_ordered(state)
    for name, words in field.items():
        province = words.read(read_province, name)
        texts = [text for _, text in words.texts()]
        for number, text in enumerate(texts):
            if text not in _RESULT_WORDS:
                words.item(number).read(choose, "result", text, _RESULT_WORDS)
        if not texts or texts[0] == DISLODGED_WORD or texts[1:] not in ([], [DISLODGED_WORD]):
            words.fail(f"must be one result, and {DISLODGED_WORD!r} after it where that is so")
        results[province] = RESULTS.index(texts[0]) + codes.DISLODGED_FLAG * (len(texts) - 1)
        check_result(words, province, int(results[province]), order_of[province], phase=phase, ordered=ordered)
    if orders is not None and (results[orders != 0] != UNKNOWN).all():
        results[results == UNKNOWN] = codes.UNORDERED  # Units left out were neither ordered nor dislodged.
    return results


def write_phase(record: PhaseRecord, path: str) -> dict[str, Any]:
    """Return the JSON value of a record; raises `InputError` under `path` for an order that cannot be written."""
    row = {name: values[0].cpu().numpy() for name, values in record.position.items()}
    phase: dict[str, Any] = {"name": codes.phase_name(int(row["year"]), int(row["phase"])), "state": _state(row)}
    if row["done"]:
        phase["done"] = True
    if row["winner"] >= 0:
        phase["winner"] = POWERS[int(row["winner"])]
    if record.orders is not None:
        phase["orders"] = Field(None, f"{path}.orders").read(orders_by_power, record.orders, row)
    if record.results is not None:
        ended = enumerate(record.results.tolist())
        phase["results"] = {location_name(province): result_words(result) for province, result in ended if result}
    return phase


def orders_by_power(orders: np.ndarray, row: dict[str, np.ndarray]) -> dict[str, list[str]]:
    """Return the orders as text by power, each checked by reading it back."""
    written: dict[str, list[str]] = {}
    givers = order_givers(row)
    standing = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    for province in np.flatnonzero(orders).tolist():
        order, unit = int(orders[province]), int(standing[province])
        power = _giver(order, givers[province].tolist())
        if power == NOTHING:
            raise InputError(f"order {order} in {location_name(province)}: it belongs to no power")
        text = notation.write_order(order, province, unit) if notation.has_words(order) else ""
        read = notation.read_order(text) if text else None
        if read is None or (read.province, read.order) != (province, order):
            raise InputError(f"order {order} in {location_name(province)}: this order cannot be written")
        written.setdefault(POWERS[power], []).append(text)
    return written


def _giver(order: int, powers: list[int]) -> int:
    """Return the power that gave an order: the owner of the home centre for a build, else the unit's power."""
    unit, home = powers
    builds = order & codes.KIND_MASK == codes.BUILD
    return home if builds and home != NOTHING else unit


def _state(row: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the `state` value of one game."""
    board = standard_board()
    state: dict[str, Any] = {"units": _units(row["units"])}
    if row["dislodged"].any():
        state["dislodged"] = _units(row["dislodged"])
    marks = {
        location_name(province): ORIGIN_WORDS.get(int(mark)) or location_name(int(mark))
        for province, mark in enumerate(row["origin"])
        if mark != codes.NOTHING
    }
    if marks:
        state["origin"] = marks
    state["centres"] = {
        power: [location_name(int(board.centres[centre])) for centre in np.flatnonzero(row["owner"] == number)]
        for number, power in enumerate(POWERS)
    }
    return state


def _units(units: np.ndarray) -> dict[str, list[str]]:
    powers = codes.power_of(units)
    return {
        power: [notation.write_unit(int(units[at]), at) for at in np.flatnonzero(powers == number).tolist()]
        for number, power in enumerate(POWERS)
        if (powers == number).any()
    }


def result_words(result: int) -> list[str]:
    """Return the words of a result: the order's result, then "dislodged" if its unit was."""
    words = [RESULTS[result % codes.DISLODGED_FLAG]]
    return [*words, DISLODGED_WORD] if result >= codes.DISLODGED_FLAG else words


def order_givers(row: dict[str, np.ndarray]) -> np.ndarray:
    """Return the powers that may order in a province, int [75, 2]: of its unit, in winter of its home; else -1."""
    phase = int(row["phase"])
    units = codes.power_of(row["dislodged" if phase in codes.RETREATS else "units"])
    home = standard_board().home if phase == codes.WINTER else np.full(codes.NUM_PROVINCES, NOTHING)
    return np.stack([units, home], axis=1)
