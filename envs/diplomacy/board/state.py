"""Data of the kernels: the tables of the board, and the arrays of G games, one row per game.

A game takes 75 bytes each for units, dislodged units, origins and results, 34 for centres, 300 for orders, 5 for clock
and end, 32 for players and id. A game holds no references, so copying its rows copies it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import warp as wp

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import COAST, SEA, Board, padded, standard_board

POWERS = wp.constant(codes.NUM_POWERS)
PROVINCES = wp.constant(codes.NUM_PROVINCES)
LOCATIONS = wp.constant(codes.NUM_LOCATIONS)
CENTRES = wp.constant(codes.NUM_CENTRES)
COASTS = wp.constant(42)
SIDES = 11
"""Largest number of neighbours of a location."""


@wp.struct
class Tables:
    """The board. P = 75 provinces, L = 81 locations, 19 seas."""

    province_of: wp.array[int]
    """[L] province of a location."""
    first_coast: wp.array[int]
    """[P] location of a split province's first coast (the second one follows it), else -1."""
    centre_of: wp.array[int]
    """[P] number of the centre, or -1."""
    home: wp.array[int]
    """[P] power, or -1."""
    terrain: wp.array[int]
    """[P] INLAND, COAST or SEA."""
    army_next: wp.array2d[wp.uint8]
    """[P, P] 1 where an army may move."""
    fleet_next: wp.array2d[wp.uint8]
    """[L, L] 1 where a fleet may move."""
    fleet_reach: wp.array2d[wp.uint8]
    """[L, P] 1 where a fleet may move from a location to any coast of a province."""
    landings: wp.array2d[int]
    """[2 L, 12] locations within one move of an army (rows 0 to L - 1) or a fleet (rows L and up); padded with -1."""
    reach: wp.array2d[int]
    """[2 L, 12] `landings` as provinces, each once; padded with -1."""
    sea_of: wp.array[int]
    """[P] number of the sea in 0..18, or -1."""
    sea_next: wp.array[wp.uint32]
    """[19] seas next to a sea, as bits."""
    coasts: wp.array[int]
    """[42] provinces on a coast."""
    shore: wp.array[wp.uint32]
    """[P] seas that touch a coast, as bits; 0 inland and at sea."""
    distance: wp.array3d[wp.uint8]
    """[2, L, 7] moves of an army (which may be ferried) or a fleet to a location from a power's nearest home centre."""


@wp.struct
class Games:
    """G games; codes as in `codes.py`."""

    units: wp.array2d[wp.uint8]
    """[G, P] unit codes, 0 for none."""
    dislodged: wp.array2d[wp.uint8]
    """[G, P] unit codes of units that have to retreat."""
    origin: wp.array2d[wp.uint8]
    """[G, P] province of the attacker of a dislodged unit; CONTESTED where a standoff left a province empty."""
    owner: wp.array2d[wp.int8]
    """[G, 34] power that owns a centre, or -1."""
    year: wp.array[wp.int16]
    phase: wp.array[wp.int8]
    winner: wp.array[wp.int8]
    """Power with 18 centres, -1 for none."""
    done: wp.array[wp.uint8]
    orders: wp.array2d[int]
    """[G, P] packed orders for the next call of `process`."""
    results: wp.array2d[wp.uint8]
    """[G, P] result codes of the last orders."""
    players: wp.array2d[int]
    """[G, 7] bot that plays a power, or -1."""
    game_id: wp.array[int]
    """Identity of a game in the random draws of bots, whatever its index in the batch."""


@cache
def tables(device: str) -> Tables:
    """Return the tables of the standard board on a device, the same struct at every call."""
    board = standard_board()
    arrays = board_tables(board)
    struct = Tables()
    for name, values in arrays.items():
        setattr(struct, name, wp.array(values, device=device))
    return struct


def board_tables(board: Board) -> dict[str, np.ndarray]:
    """Return the fields of `Tables` as arrays."""
    provinces, locations = len(board.provinces), len(board.locations)
    same = np.zeros((locations, provinces), dtype=bool)
    same[np.arange(locations), board.province_of] = True
    reach = (board.fleet_next.astype(int) @ same) > 0
    by_sea = (same.T.astype(int) @ reach) > 0
    marching = np.zeros((locations, locations), dtype=bool)
    marching[:provinces, :provinces] = board.army_next
    seas = np.flatnonzero(board.terrain == SEA)
    sea_of = np.full(provinces, -1, dtype=np.int32)
    sea_of[seas] = np.arange(len(seas))
    touching = (by_sea[:, seas] * (1 << np.arange(len(seas)))).sum(axis=1).astype(np.uint32)
    return {
        "province_of": board.province_of.astype(np.int32),
        "first_coast": np.array([min(coasts, default=-1) for coasts in board.coasts_of], dtype=np.int32),
        "centre_of": board.centre_of.astype(np.int32),
        "home": board.home.astype(np.int32),
        "terrain": board.terrain.astype(np.int32),
        "army_next": board.army_next.astype(np.uint8),
        "fleet_next": board.fleet_next.astype(np.uint8),
        "fleet_reach": reach.astype(np.uint8),
        "landings": padded(np.vstack([marching, board.fleet_next]), SIDES + 1),
        "reach": padded(np.vstack([marching[:, :provinces], reach]), SIDES + 1),
        "sea_of": sea_of,
        "sea_next": touching[seas],
        "coasts": np.flatnonzero(board.terrain == COAST).astype(np.int32),
        "shore": np.where(board.terrain == SEA, 0, touching).astype(np.uint32),
        "distance": distances(board),
    }


def distances(board: Board) -> np.ndarray:
    """Return the moves from the nearest home centre of each power, uint8 [2, L, 7]: armies (by land or sea), fleets."""
    moves, home = moves_between(board), board.home[board.province_of]
    return np.stack([moves[:, home == power].min(axis=1) for power in range(codes.NUM_POWERS)], axis=2)


def moves_between(board: Board) -> np.ndarray:
    """Return the moves from one location to another, uint8 [2, L, L]: armies (by land or sea), fleets; 255: no path."""
    places, provinces = len(board.locations), len(board.provinces)
    same = np.zeros((places, provinces), dtype=bool)
    same[np.arange(places), board.province_of] = True
    by_sea = (same.T.astype(int) @ board.fleet_next @ same) > 0  # without regard to coasts
    anywhere = np.zeros_like(board.fleet_next)
    anywhere[:provinces, :provinces] = board.army_next | by_sea
    return np.stack([_spread(anywhere), _spread(board.fleet_next)])


def _spread(adjacent: np.ndarray) -> np.ndarray:
    """Return breadth-first distances over `adjacent` [L, L], from the row's location; 255: no path."""
    moves = np.full(adjacent.shape, 255, dtype=np.uint8)
    near = np.eye(len(adjacent), dtype=bool)
    for distance in range(len(adjacent)):
        moves[near & (moves == 255)] = distance
        near = near | ((near.astype(int) @ adjacent) > 0)
    return moves


@wp.func
def power_of(unit: wp.uint8) -> int:
    """Return the power of a unit code other than 0."""
    return (int(unit) - 1) % POWERS


@wp.func
def form_of(unit: wp.uint8) -> int:
    """Return the form of a unit code other than 0: 0 an army, 1 a fleet, 2 and 3 a fleet on a named coast."""
    return (int(unit) - 1) // POWERS


@wp.func
def location_of(tables: Tables, unit: wp.uint8, province: int) -> int:
    """Return the location of a unit in a province, the coast of a fleet included."""
    form = form_of(unit)
    if form < 2:
        return province
    return tables.first_coast[province] + form - 2


@wp.func
def unit_at(tables: Tables, unit: wp.uint8, location: int) -> wp.uint8:
    """Return the code of the same unit at another location, which must suit it."""
    form = int(0)
    if form_of(unit) > 0:
        form = 1
        if location >= PROVINCES:
            form = 2 + location - tables.first_coast[tables.province_of[location]]
    return wp.uint8(1 + power_of(unit) + POWERS * form)


@wp.func
def landing(tables: Tables, unit: wp.uint8, location: int, target: int) -> int:
    """Return the location a unit at `location` reaches by moving to `target` without a convoy, or -1 if it cannot.

    For armies a coast is ignored. A fleet ordered to a split province without a coast takes the only one in reach
    (DATC 4.B.2); with two in reach the move is illegal (4.B.1).
    """
    if form_of(unit) == 0:
        province = tables.province_of[target]
        if tables.army_next[location, province] != wp.uint8(0):
            return province
        return -1
    if tables.fleet_next[location, target] != wp.uint8(0):
        return target
    if target >= PROVINCES or tables.first_coast[target] < 0:
        return -1
    first = tables.first_coast[target]
    to_first = tables.fleet_next[location, first] != wp.uint8(0)
    to_second = tables.fleet_next[location, first + 1] != wp.uint8(0)
    if to_first == to_second:
        return -1
    return wp.where(to_first, first, first + 1)


@wp.func
def can_reach(tables: Tables, unit: wp.uint8, location: int, province: int) -> bool:
    """Return whether a unit at `location` could move to any part of a province without a convoy, as for supports."""
    if form_of(unit) == 0:
        return tables.army_next[location, province] != wp.uint8(0)
    return tables.fleet_reach[location, province] != wp.uint8(0)


@wp.func
def connected(tables: Tables, fleets: wp.uint32, start: int) -> wp.uint32:
    """Return the seas among `fleets` (bits) that are connected to a coast, going from fleet to fleet."""
    return spread(tables, fleets, tables.shore[start] & fleets)


@wp.func
def spread(tables: Tables, fleets: wp.uint32, begin: wp.uint32) -> wp.uint32:
    """Return the seas among `fleets` that are connected to those in `begin`, a subset; all as bits."""
    reached = wp.uint32(begin)
    frontier = wp.uint32(begin)
    # Every sea is taken once. m & -m isolates the lowest bit of m; the bits below it are as many as its number.
    while frontier != wp.uint32(0):
        sea = int(wp.bit_count((frontier & (~frontier + wp.uint32(1))) - wp.uint32(1)))
        fresh = tables.sea_next[sea] & fleets & ~reached
        reached = reached | fresh
        frontier = (frontier & (frontier - wp.uint32(1))) | fresh
    return reached


@wp.func
def voyage(tables: Tables, fleets: wp.uint32, start: int, goal: int) -> bool:
    """Return whether `fleets`, seas as bits, make an unbroken chain between two coasts."""
    return connected(tables, fleets, start) & tables.shore[goal] != wp.uint32(0)
