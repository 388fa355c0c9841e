"""Deterministic text of a game: the phase, the powers' centres and units, and the legal orders."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, centre_names, location_name
from sparring.envs.diplomacy.board.tensors import due
from sparring.envs.diplomacy.orders.notation import write_order, write_unit

SHOWN = 6
"""Number of legal alternatives named for an illegal order."""


def board_report(row: Mapping[str, np.ndarray]) -> str:
    """Return the position of a game, from its rows: a line for the phase, then each power's centres and units."""
    year, phase = int(row["year"]), int(row["phase"])
    lines = [f"{codes.phase_name(year, phase)}: {codes.PHASES[phase]} {year}"]
    if row["done"]:
        winner = int(row["winner"])
        lines = [f"{year} is over: {f'{POWERS[winner]} has won' if winner >= 0 else 'a draw'}"]
    lines += [_holdings(row, power) for power in range(codes.NUM_POWERS)]
    if neutral := centre_names(row["owner"], NOTHING):
        lines.append(f"Nobody: centres {' '.join(neutral)}")
    lost = np.flatnonzero(row["dislodged"]).tolist()
    lines += [f"Dislodged: {_dislodged(row, province)}" for province in lost]
    if contested := [location_name(province) for province, mark in enumerate(row["origin"]) if mark == codes.CONTESTED]:
        lines += [f"Nobody may retreat to: {' '.join(contested)}"] if lost else []
    if phase == codes.WINTER and not row["done"]:
        units, owner = (torch.as_tensor(row[name]).unsqueeze(0) for name in ("units", "owner"))
        lines += [_due(power, number) for power, number in enumerate(due(units, owner)[0].tolist()) if number]
    return "\n".join(lines)


def order_report(row: Mapping[str, np.ndarray], listed: Mapping[int, np.ndarray]) -> str:
    """Return legal orders as text, a line for every province in `listed`, in the sequence of the lists."""
    units = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    lines = []
    for province, orders in sorted(listed.items()):
        words = [order_words(order, province, int(units[province])) for order in orders.tolist()]
        lines.append(f"{location_name(province)}: {', '.join(words)}")
    return "\n".join(["Legal orders:", *lines]) if lines else "Legal orders: none"


def order_words(order: int, province: int, unit: int) -> str:
    """Return an order of the unit with code `unit` (0: none) in a province as text; no order is a waive or keeps it."""
    if order == codes.NO_ORDER:
        return f"keep {write_unit(unit, province)}" if unit else "WAIVE"
    return write_order(order, province, unit)


def legal_alike(order: int, province: int, unit: int, listed: np.ndarray) -> str:
    """Return alternatives to an illegal order as text: those of its kind in `listed`, else of any kind."""
    kinds = listed & codes.KIND_MASK
    alike = listed[kinds == (order & codes.KIND_MASK)]
    some = (alike if len(alike) else listed)[:SHOWN].tolist()
    rest = max(len(alike) or len(listed), SHOWN) - SHOWN
    words = ", ".join(order_words(other, province, unit) for other in some)
    return f"{words} and {rest} more" if rest else words


def _holdings(row: Mapping[str, np.ndarray], power: int) -> str:
    centres = centre_names(row["owner"], power)
    powers = codes.power_of(row["units"])
    units = [write_unit(int(row["units"][province]), province) for province in np.flatnonzero(powers == power).tolist()]
    if not centres and not units:
        return f"{POWERS[power]}: nothing"
    centres_text, units_text = f"{len(centres)} centres {' '.join(centres)}", f"{len(units)} units {', '.join(units)}"
    return f"{POWERS[power]}: {centres_text}; {units_text}".rstrip()


def _dislodged(row: Mapping[str, np.ndarray], province: int) -> str:
    unit, origin = int(row["dislodged"][province]), int(row["origin"][province])
    attacker = POWERS[int(codes.power_of(row["units"][[province]])[0])]
    came = f" from {location_name(origin)}" if origin < codes.NUM_PROVINCES else ""
    return f"{POWERS[(unit - 1) % codes.NUM_POWERS]} {write_unit(unit, province)}, by {attacker}{came}"


def _due(power: int, number: int) -> str:
    return f"Due: {POWERS[power]} {'may build' if number > 0 else 'has to disband'} {abs(number)}"
