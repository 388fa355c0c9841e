"""Writer of one phase of a game as a JSON value, with powers, provinces, units and orders in the usual notation.

`phase_reading.py` is the inverse; every order written is read back first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.configs.core.json_fields import Field
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import has_words, read_order, write_order, write_unit
from sparring.envs.diplomacy.records.history import RESULTS, PhaseRecord

ORIGIN_WORDS = {codes.CAME_BY_CONVOY: "convoy", codes.CONTESTED: "contested"}
DISLODGED_WORD = "dislodged"


def write_phase(record: PhaseRecord, path: str) -> dict[str, Any]:
    """Return the JSON value of a record; raises `InputError` under `path` for an order that cannot be written."""
    row = {name: values[0].cpu().numpy() for name, values in record.position.items()}
    phase: dict[str, Any] = {"name": codes.phase_name(int(row["year"]), int(row["phase"])), "state": _state(row)}
    if row["done"]:
        phase["done"] = True
    if row["winner"] >= 0:
        phase["winner"] = POWERS[int(row["winner"])]
    if record.orders is not None:
        phase["orders"] = Field(None, f"{path}.orders").read(_orders, record.orders, row)
    if record.results is not None:
        ended = enumerate(record.results.tolist())
        phase["results"] = {location_name(place): result_words(result) for place, result in ended if result}
    return phase


def _orders(orders: np.ndarray, row: dict[str, np.ndarray]) -> dict[str, list[str]]:
    """Return the orders as text by power, each checked by reading it back."""
    written: dict[str, list[str]] = {}
    givers = order_givers(row)
    standing = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    for province in np.flatnonzero(orders).tolist():
        order, unit = int(orders[province]), int(standing[province])
        power = _giver(order, givers[province].tolist())
        if power == NOTHING:
            raise InputError(f"order {order} in {location_name(province)}: no power can have given it")
        read = read_order(text) if (text := _words_for(order, province, unit)) else None
        if read is None or (read.province, read.order) != (province, order):
            raise InputError(f"order {order} in {location_name(province)}: there are no words for it")
        written.setdefault(POWERS[power], []).append(text)
    return written


def _giver(order: int, powers: list[int]) -> int:
    """Return the power that gave an order: the owner of the home centre for a build, else the unit's power."""
    unit, home = powers
    builds = order & codes.KIND_MASK == codes.BUILD
    return home if builds and home != NOTHING else unit


def _words_for(order: int, province: int, unit: int) -> str:
    """Return an order as text, empty for an integer that is no order."""
    return write_order(order, province, unit) if has_words(order) else ""


def _state(row: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the `state` value of one game."""
    board = standard_board()
    state: dict[str, Any] = {"units": _units(row["units"])}
    if row["dislodged"].any():
        state["dislodged"] = _units(row["dislodged"])
    marks = {
        location_name(place): ORIGIN_WORDS.get(int(mark)) or location_name(int(mark))
        for place, mark in enumerate(row["origin"])
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
        power: [write_unit(int(units[place]), place) for place in np.flatnonzero(powers == number).tolist()]
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
