"""Saved games in the export format of the Python package `diplomacy`: phases with states, orders and results.

A phase has `name` (S1901M, ..., COMPLETED at the end), `state`, `orders` (null if a power gave none) and `results`
(words by unit). The state has `units` (a dislodged one begins with a star), `centers` and in retreats `retreats`
(destinations of each dislodged unit). The origin of an attacker is not stored; it follows from the missing retreats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.typed import Field
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, find_location, standard_board
from sparring.envs.diplomacy.board.positions import Position
from sparring.envs.diplomacy.board.tensors import due
from sparring.envs.diplomacy.orders.notation import LETTERS, LONGEST, Order, reached_from, read_unit
from sparring.envs.diplomacy.records import phase_format
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.history_consistency import check_origins, check_retreating, check_victor

END = "COMPLETED"
RESULTS = {
    "": codes.DONE,
    "bounce": codes.BOUNCED,
    "void": codes.VOID,
    "cut": codes.CUT,
    "disrupted": codes.DISRUPTED,
    "no convoy": codes.DISRUPTED,
    "disband": codes.FAILED,
    "maybe": codes.UNORDERED,
    "dislodged": codes.DISLODGED_FLAG,
}
_OTHERWISE = {
    (codes.SUPPORT, codes.VOID): codes.FAILED,
    (codes.SUPPORT_MOVE, codes.VOID): codes.FAILED,
    (codes.SUPPORT_MOVE, codes.DISRUPTED): codes.FAILED,
    (codes.CONVOY, codes.VOID): codes.FAILED,
    (codes.RETREAT, codes.BOUNCED): codes.FAILED,
    (codes.DISBAND, codes.FAILED): codes.DONE,
}
"""Meaning of a result for a kind of order: an ineffective support is "void" too, an ordered disband "disband"."""
Reported = dict[tuple[str, int], tuple[str, list[int]]]
"""Letter and province of a unit: its name in the file, and the codes of its words."""
_WITHOUT_ORDER = {codes.VOID, codes.FAILED}
"""Results without an order: "void" for an order the package rejected, "disband" for a unit without a retreat; in
adjustments also "", for a unit that civil disorder disbands."""


def read_package_game(root: Field) -> list[PhaseRecord]:
    """Return the game in a value of this format; raises `InputError` with the path of the wrong field.

    Orders of the last phase without results are left out.
    """
    if (board := root.get("map")) is not None and board.value != "standard":
        board.fail(f"must be 'standard', not {board.value!r}")
    game: list[PhaseRecord] = []
    phases = list(root["phases"])
    for phase in phases:
        if phase["name"].value == END:
            game.append(_ended(phase, game))
        else:
            carried_out = phase is not phases[-1] or _holds(phase.get("results"))
            game.append(_phase(phase, _attackers(game[-1]) if game else {}, carried_out=carried_out))
    return game


def _holds(field: Field | None) -> bool:
    return field is not None and bool(field.of(dict))


def _attackers(record: PhaseRecord) -> dict[int, int]:
    """Return where units came from that moved without VIA in a phase, by their new provinces."""
    orders, results = record.orders, record.results
    if orders is None or results is None or int(record.position["phase"]) not in (codes.SPRING, codes.FALL):
        return {}
    moved = np.flatnonzero((orders & codes.KIND_MASK == codes.MOVE) & (results == codes.DONE)).tolist()
    moves = ((province, codes.unpack(int(orders[province]))) for province in moved)
    return {int(standard_board().province_of[target]): province for province, (_, target, _, via) in moves if not via}


def _phase(field: Field, attackers: dict[int, int], *, carried_out: bool) -> PhaseRecord:
    year, phase = phase_format.read_phase_name(field["name"])
    position = _position(field["state"], year, phase, attackers=attackers)
    field["state"]["centers"].read(check_victor, position)
    field["name"].read(check_retreating, position)
    if not carried_out:
        return PhaseRecord(position)
    orders, results = field.get("orders"), field.get("results") or Field({})
    reported = _reported(results)
    written = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    if orders:
        moves = phase in (codes.SPRING, codes.FALL)
        numbers = cache(lambda: due(position["units"], position["owner"])[0].tolist())  # Few files need it.
        left_out = None if moves else partial(_is_left_out, position, reported, numbers)
        written = phase_format.read_orders(orders, position, left_out=left_out)
    return PhaseRecord(position, written, _results(results, reported, position, written))


def _ended(field: Field, game: list[PhaseRecord]) -> PhaseRecord:
    """Return the final position; its clock is the last phase's."""
    if not game:
        field.fail(f"{END} needs a phase before it")
    before = game[-1].position
    position = _position(field["state"], int(before["year"]), int(before["phase"]), attackers={}, over=True)
    centres = [int((position["owner"] == power).sum()) for power in range(codes.NUM_POWERS)]
    position["done"][0] = 1
    position["winner"][0] = int(np.argmax(centres)) if max(centres) >= codes.SOLO else NOTHING
    return PhaseRecord(position)


def _position(
    field: Field, year: int, phase: int, *, attackers: dict[int, int], over: bool = False
) -> dict[str, torch.Tensor]:
    units, dislodged = (np.zeros(codes.NUM_PROVINCES, dtype=np.uint8) for _ in range(2))
    origin = np.full(codes.NUM_PROVINCES, codes.NOTHING)
    phase_format.read_units(field["units"], units, dislodged)
    if over:
        dislodged[:] = 0
    if dislodged.any():
        _mark_origins(field["retreats"], units, dislodged, origin, attackers)
    owner = phase_format.read_centres(field["centers"])
    position = phase_format.read_position(field, units, dislodged, origin, owner, year=year, phase=phase)
    if dislodged.any():
        field["retreats"].read(check_origins, position)
    return position


def _mark_origins(
    field: Field, units: np.ndarray, dislodged: np.ndarray, origin: np.ndarray, attackers: dict[int, int]
) -> None:
    """Write into `origin` [75] marks that leave each dislodged unit the retreats listed for it.

    A closed place is the origin of the attacker if the previous moves say so. Without such moves, it is a province
    closed to only some of the adjacent dislodged units. Other empty places count as contested. For a unit dislodged by
    a convoyed army, the package lists every adjacent place; such a list is not evidence.
    """
    listed = _retreats(field, {at: _next_to(at, dislodged) for at in np.flatnonzero(dislodged).tolist()})
    telling = {province: goals for province, goals in listed.items() if not any(units[goal] for goal in goals)}
    origin[list(listed.keys() - telling.keys())] = codes.CAME_BY_CONVOY
    for province, goals in telling.items():
        for goal in sorted(_next_to(province, dislodged) - goals):
            shared = any(goal in retreats for retreats in telling.values()) and origin[province] == codes.NOTHING
            if goal == attackers[province] if province in attackers else shared:
                origin[province] = goal
            elif not units[goal]:
                origin[goal] = codes.CONTESTED


def _retreats(field: Field, near: dict[int, set[int]]) -> dict[int, set[int]]:
    """Return the listed retreats of each dislodged unit, sets of provinces by its own province."""
    retreats: dict[int, set[int]] = {province: set() for province in near}
    for name, units in field.items():
        power = phase_format.read_power(field, name)
        for text, goals in units.items() if units.value is not None else ():
            province, _ = goals.read(read_unit, text.lstrip("*"), power)
            if province not in near:
                goals.fail(f"no unit of {name} was dislodged there")
            for goal in goals:
                goal_province = int(standard_board().province_of[goal.read(find_location, goal.of(str))])
                if goal_province not in near[province]:
                    goal.fail(f"{text} cannot go there")
                retreats[province].add(goal_province)
    return retreats


def _next_to(province: int, dislodged: np.ndarray) -> set[int]:
    """Return the provinces adjacent to a dislodged unit, occupied or not."""
    return set(standard_board().province_of[reached_from(int(dislodged[province]), province)].tolist())


def _reported(field: Field) -> Reported:
    """Return the contents of a `results` field by unit."""
    reported: Reported = {}
    for unit, words in field.of(dict).items():
        if unit == "WAIVE":
            continue
        try:
            province = _place_of(unit[2:])
        except InputError as error:
            Field(words, str(unit), above=field).fail(str(error))
        # Most units have an empty list.
        reported[unit[:1], province] = unit, [] if words == [] else _codes(Field(words, str(unit), above=field))
    return reported


def _codes(words: Field) -> list[int]:
    return [RESULTS[text] if text in RESULTS else _unknown(words.item(at), text) for at, text in words.texts()]


def _place_of(text: str) -> int:
    """Return the province of a location."""
    return _short_place(text) if len(text) <= LONGEST else int(standard_board().province_of[find_location(text)])


@lru_cache(2**12)
def _short_place(text: str) -> int:
    return int(standard_board().province_of[find_location(text)])


def _unknown(field: Field, text: str) -> int:
    """Refuse a word."""
    return RESULTS[field.read(choose, "result", text, RESULTS)]


def _is_left_out(
    position: Position,
    reported: Reported,
    numbers: Callable[[], list[int]],
    power: int,
    order: Order,
    orders: list[int],
) -> bool:
    """Return whether a retreat or adjustment order is void: marked so in the file, or without a result.

    Of those without a result the first for a unit count, in adjustments until all that are due are made.
    """
    phase, kind = int(position["phase"]), order.order & codes.KIND_MASK
    _, results = reported.get((order.letter, order.province), ("", []))
    if orders[order.province]:
        return True
    if results or phase != codes.WINTER:
        return codes.VOID in results and codes.DONE not in results
    powers = codes.power_of(position["units"][0].numpy())
    ordered = np.flatnonzero(np.array(orders) & codes.KIND_MASK == kind)
    owners = standard_board().home if kind == codes.BUILD else powers
    number = numbers()[power] * (1 if kind == codes.BUILD else -1)
    return int((owners[ordered] == power).sum()) >= number


def _results(field: Field, reported: Reported, position: Position, orders: np.ndarray) -> np.ndarray:
    """Return results uint8 [75] from words by unit: no word is success, no entry is `UNKNOWN`."""
    results = phase_format.absent_results(position, orders).tolist()
    phase, ordered, ordered_at = int(position["phase"]), phase_format.units_ordered(position), orders.tolist()
    silent = _WITHOUT_ORDER | {codes.DONE} if phase == codes.WINTER else _WITHOUT_ORDER
    for (letter, province), (unit, reports) in reported.items():
        kind = ordered_at[province] & codes.KIND_MASK
        another = kind == codes.BUILD and LETTERS[codes.unpack(ordered_at[province])[2]] != letter
        if reports and (another or not kind) and set(reports) <= silent:
            continue
        result = codes.DONE if kind else codes.UNORDERED
        results[province] = result = _result(reports, kind, result) if reports else result
        if not kind or result >= codes.DISLODGED_FLAG:
            words = Field(field.value[unit], unit, above=field)
            phase_format.check_result(words, province, result, ordered_at[province], phase=phase, ordered=ordered)
    return np.array(results, dtype=np.uint8)


def _result(reports: list[int], kind: int, silent: int) -> int:
    """Return the result code of several words for a kind of order; `silent` is the code without a word."""
    if codes.DONE in reports:  # Beside it, "void" is for another order of the unit.
        return codes.DONE
    ended = next((code for code in reports if code not in (codes.DONE, codes.DISLODGED_FLAG)), silent)
    return _OTHERWISE.get((kind, ended), ended) + codes.DISLODGED_FLAG * (codes.DISLODGED_FLAG in reports)
