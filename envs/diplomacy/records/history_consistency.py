"""Consistency of recorded games: positions that can arise in play, with phases in their order.

`positions.py` rejects positions that the kernels cannot process. This module rejects positions that the kernels could
process but a game cannot reach. Examples are a power with 18 centres in a running game, retreat phases without a
dislodged unit, an attacker from an impossible origin, and phases out of order. It validates saved games, of this
project and of the package `diplomacy`, and start positions of games.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from sparring.configs.core.errors import InputError
from sparring.configs.core.typed import Field
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import COAST, POWERS, location_name, standard_board
from sparring.envs.diplomacy.board.positions import Position, check_position
from sparring.envs.diplomacy.orders.notation import unit_location, write_unit

if TYPE_CHECKING:
    from sparring.envs.diplomacy.records.history import PhaseRecord

NEXT = {
    codes.SPRING: ((0, codes.SPRING_RETREATS), (0, codes.FALL)),
    codes.SPRING_RETREATS: ((0, codes.FALL),),
    codes.FALL: ((0, codes.FALL_RETREATS), (0, codes.WINTER), (1, codes.SPRING)),
    codes.FALL_RETREATS: ((0, codes.WINTER), (1, codes.SPRING)),
    codes.WINTER: ((1, codes.SPRING),),
}
"""Possible next phases, by phase: (years later, phase); phases without possible orders are skipped."""


def check_course(game: Sequence[PhaseRecord], phases: Field) -> None:
    """Reject a game with a phase after its end or one that cannot follow its predecessor; `phases` is for errors."""
    members = list(phases)
    for number, (before, after) in enumerate(pairwise(record.position for record in game)):
        if int(before["done"]):
            members[number + 1].fail(f"follows phases[{number}], with which the game was over")
        if not _follows(before, after):
            members[number + 1]["name"].fail(f"{_name(after)} cannot follow {_name(before)}")


def _follows(before: Position, after: Position) -> bool:
    """Return whether `after` can follow; a finished game has the clock of its last phase or of the next spring."""
    phase, step = int(before["phase"]), (int(after["year"]) - int(before["year"]), int(after["phase"]))
    if int(after["done"]):
        return step == (0, phase) or (step == (0, codes.SPRING) and phase >= codes.FALL)
    return step in NEXT[phase]


def _name(position: Position) -> str:
    return codes.phase_name(int(position["year"]), int(position["phase"])) + " (over)" * int(position["done"])


def check_start(position: Position, *, most: int, last_year: int) -> None:
    """Raise `InputError` for a start position of a finished game, with more than `most` units a power, or too late."""
    check_position(position)
    root = Field(position, "position")
    if bool(position["done"].any()):
        root.fail("the game is over; give an unfinished one")
    for check in (check_retreating, check_victor, check_origins):
        root.read(check, position)
    if int(position["year"]) > last_year:
        root.fail(f"year={int(position['year'])} is after last_year={last_year}")
    for name in ("units", "dislodged"):
        powers = codes.power_of(position[name].cpu().numpy())
        for power, code in enumerate(POWERS):
            if (count := int((powers == power).sum())) > most:
                root.fail(f"{name} of {code}: {count}; a power has at most {most}")


def check_victor(position: Position) -> None:
    """Reject a power with 18 centres that is not the winner."""
    owner = position["owner"][0].tolist()
    for power, code in enumerate(POWERS):
        if (centres := owner.count(power)) >= codes.SOLO and int(position["winner"]) != power:
            raise InputError(f"{code} has {centres} centres and has won, but done and winner are not set so")


def check_retreating(position: Position) -> None:
    """Reject a retreat phase without dislodged units unless the game ended in it, and dislodged units after the end."""
    phase, over, lost = int(position["phase"]), bool(position["done"]), any(position["dislodged"][0].tolist())
    if over and lost:
        raise InputError("the game is over, so no unit retreats; leave out the dislodged units")
    if phase in codes.RETREATS and not over and not lost:
        raise InputError(f"{codes.PHASES[phase]}, and no unit has to retreat")


def check_origins(position: Position) -> None:
    """Reject impossible `origin` marks: attackers from provinces out of reach, standoffs in occupied provinces.

    In spring the marks are from the movement before winter: units may have been disbanded or built since.
    """
    units, spring = position["units"][0].tolist(), int(position["phase"]) == codes.SPRING
    for province, mark in enumerate(position["origin"][0].tolist()):
        unit, name = units[province], location_name(province)
        if mark == codes.CONTESTED and unit and not spring:
            raise InputError(f"{name}: contested, and {write_unit(unit, province)} stands there")
        if mark < codes.CONTESTED and not unit and not spring:
            raise InputError(f"{name}: no unit stands there that could have come from anywhere")
        if mark < codes.CONTESTED and not _can_have_come(unit, province, mark):
            came = "by convoy" if mark == codes.CAME_BY_CONVOY else f"from {location_name(mark)}"
            who = write_unit(unit, province) if unit else "a unit"
            raise InputError(f"{name}: {who} cannot have come {came}")


def _can_have_come(unit: int, province: int, mark: int) -> bool:
    """Return whether a unit (0: of any kind) can have moved to `province` from `mark`, a province or a convoy."""
    board, form = standard_board(), (unit - 1) // codes.NUM_POWERS
    marches, sails = (not unit or form == codes.ARMY_FORM), (not unit or form != codes.ARMY_FORM)
    if mark == codes.CAME_BY_CONVOY:
        return bool(marches and board.terrain[province] == COAST)
    places = [unit_location(unit, province)] if unit else [province, *board.coasts_of[province]]
    by_sea = board.province_of[board.fleet_next[places].any(axis=0)]
    return bool((marches and board.army_next[mark, province]) or (sails and mark in by_sea))
