"""Records of the original system's bots (see docs/original_bots.md), loaded for tests."""

import json
import lzma
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch

from sparring.envs.diplomacy.batch import STATE
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.records.saved_game import read_game


@dataclass(frozen=True)
class Unit:
    """A unit, or in winter a place: its province and the keys of its recorded orders."""

    province: int
    keys: list[int]

    @cached_property
    def listed(self):
        """Return the orders as a set."""
        return set(self.keys)


@dataclass(frozen=True)
class Row:
    """A power in one position."""

    game: int
    power: int
    units: list[Unit]
    facts: dict

    def chosen(self, unit, bits):
        """Return the sorted keys of a recorded order set of one unit."""
        chosen = int(bits, 16)
        return sorted(order for number, order in enumerate(self.units[unit].keys) if chosen >> number & 1)


@cache
def facts():
    """Return the recorded file."""
    return json.loads(lzma.decompress(Path(__file__).with_name("seed_bots.json.xz").read_bytes()))


def rows(kind):
    """Return a snapshot [G, ...] of the positions of a phase type (M, R or A), and the rows of all powers."""
    positions = [place for place in facts()["positions"] if place["name"][-1] == kind]
    games = [read_game({"phases": [{"name": one["name"], "state": one["state"]}]})[-1].position for one in positions]
    state = {name: torch.cat([game[name] for game in games]) for name in STATE}
    return state, [
        Row(game, POWERS.index(power), [unit(name, orders) for name, orders in found["orders"].items()], found)
        for game, position in enumerate(positions)
        for power, found in position["powers"].items()
    ]


def unit(name, orders):
    """Read a unit and its orders."""
    province = int(standard_board().province_of[find_location(name.split()[-1])])
    return Unit(province, [key_of_text(order) for order in orders.split("|")])


@cache
def key_of_text(text):
    """Return the key of an order in the package's notation; 0 for none."""
    read = read_order(text)
    return int(key(np.array([read.order]))[0]) if read else 0


def key(orders):
    """Return orders int [n] without coasts of supported units, which the package and the listing write differently."""
    province_of = np.append(standard_board().province_of, np.zeros(128 - codes.NUM_LOCATIONS, dtype=int))
    kind, target = orders & codes.KIND_MASK, orders >> codes.TARGET_SHIFT & codes.LOCATION_MASK
    other, via = orders >> codes.OTHER_SHIFT & codes.LOCATION_MASK, orders >> codes.VIA_SHIFT & 1
    target = np.where(kind == codes.SUPPORT, province_of[target], target)
    other = np.where(kind == codes.SUPPORT_MOVE, province_of[other], other)
    return kind | target << codes.TARGET_SHIFT | other << codes.OTHER_SHIFT | via << codes.VIA_SHIFT
