"""The board in few words, for compact prompts: a line for each power, for unowned centres and for dislodged units.

FRANCE 4 BRE MAR PAR SPA : F BRE A MAR A PAR F SPA/SC
nobody 2 BEL DEN
dislodged ITALY F TYS from LYO
contested NAP TUN
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import write_unit

Codes = tuple[int, ...]


def board_lines(row: Mapping[str, np.ndarray]) -> list[str]:
    """A game's rows as lines; powers that have neither centre nor unit are left out."""
    return list(_board_lines(*(tuple(row[name].tolist()) for name in ("units", "owner", "dislodged", "origin"))))


def holdings(row: Mapping[str, np.ndarray], power: int) -> str:
    """A power's centres, counted, and after a colon its units; nothing for a power that has neither."""
    return _holdings(row["units"].tolist(), row["owner"].tolist(), power)


@lru_cache(maxsize=4096)
def _board_lines(units: Codes, owner: Codes, dislodged: Codes, origin: Codes) -> tuple[str, ...]:
    """The lines, which all seven powers of a position ask for."""
    lines = [line for power in range(codes.NUM_POWERS) if (line := _holdings(units, owner, power))]
    if neutral := _centres(owner, NOTHING):
        lines.append(f"nobody {len(neutral)} {' '.join(neutral)}")
    lost = [place for place, unit in enumerate(dislodged) if unit]
    lines += [_dislodged(dislodged[place], place, origin[place]) for place in lost]
    contested = [location_name(place) for place, came in enumerate(origin) if came == codes.CONTESTED]
    return (*lines, f"contested {' '.join(contested)}") if lost and contested else tuple(lines)


def _holdings(units: Sequence[int], owner: Sequence[int], power: int) -> str:
    centres = _centres(owner, power)
    own = [(unit, place) for place, unit in enumerate(units) if unit and (unit - 1) % codes.NUM_POWERS == power]
    if not centres and not own:
        return ""
    return " ".join([POWERS[power], str(len(centres)), *centres, ":", *(write_unit(*one) for one in own)])


def _centres(owner: Sequence[int], power: int) -> list[str]:
    centres = standard_board().centres
    return [location_name(int(centres[centre])) for centre, whose in enumerate(owner) if whose == power]


def _dislodged(unit: int, place: int, origin: int) -> str:
    came = f" from {location_name(origin)}" if origin < codes.NUM_PROVINCES else ""
    return f"dislodged {POWERS[(unit - 1) % codes.NUM_POWERS]} {write_unit(unit, place)}{came}"
