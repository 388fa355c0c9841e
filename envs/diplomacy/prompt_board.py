"""The board in few words, for compact prompts: a line for each power, for nobody's centres and for dislodged units.

FRANCE 4 BRE MAR PAR SPA : F BRE A MAR A PAR F SPA/SC
nobody 2 BEL DEN
dislodged ITALY F TYS from LYO
contested NAP TUN
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from envs.diplomacy import codes
from envs.diplomacy.board import NOTHING, POWERS, location_name, standard_board
from envs.diplomacy.notation import write_unit


def board_lines(row: Mapping[str, np.ndarray]) -> list[str]:
    """A game's rows as lines; powers that have neither centre nor unit are left out."""
    lines = [line for power in range(codes.NUM_POWERS) if (line := holdings(row, power))]
    if neutral := _centres(row, NOTHING):
        lines.append(f"nobody {len(neutral)} {' '.join(neutral)}")
    lost = np.flatnonzero(row["dislodged"]).tolist()
    lines += [_dislodged(row, place) for place in lost]
    contested = [location_name(place) for place in np.flatnonzero(row["origin"] == codes.CONTESTED).tolist()]
    return [*lines, f"contested {' '.join(contested)}"] if lost and contested else lines


def holdings(row: Mapping[str, np.ndarray], power: int) -> str:
    """A power's centres, counted, and after a colon its units; nothing for a power that has neither."""
    centres = _centres(row, power)
    places = np.flatnonzero(codes.power_of(row["units"]) == power).tolist()
    units = [write_unit(int(row["units"][place]), place) for place in places]
    if not centres and not units:
        return ""
    return " ".join([POWERS[power], str(len(centres)), *centres, ":", *units])


def _centres(row: Mapping[str, np.ndarray], power: int) -> list[str]:
    board = standard_board()
    return [location_name(int(board.centres[centre])) for centre in np.flatnonzero(row["owner"] == power)]


def _dislodged(row: Mapping[str, np.ndarray], place: int) -> str:
    unit, origin = int(row["dislodged"][place]), int(row["origin"][place])
    came = f" from {location_name(origin)}" if origin < codes.NUM_PROVINCES else ""
    return f"dislodged {POWERS[(unit - 1) % codes.NUM_POWERS]} {write_unit(unit, place)}{came}"
