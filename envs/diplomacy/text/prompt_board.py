"""Short text of the board for compact prompts: a line for each power, unowned centres and each dislodged unit.

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
    """Return a game's rows as lines; powers with neither centre nor unit are left out."""
    return list(_board_lines(*(tuple(row[name].tolist()) for name in ("units", "owner", "dislodged", "origin"))))


def holdings(row: Mapping[str, np.ndarray], power: int) -> str:
    """Return a power's centres with their count and, after a colon, its units; empty for a power with neither."""
    return _holdings(row["units"].tolist(), row["owner"].tolist(), power)


@lru_cache(maxsize=4096)
def _board_lines(units: Codes, owner: Codes, dislodged: Codes, origin: Codes) -> tuple[str, ...]:
    """Return the lines, cached because all seven powers of a position need them."""
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
