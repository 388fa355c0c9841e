"""Every legal order of one game, as a list for each unit: launch of the kernel, and lookup on the host.

The lists have the sequence of `legal.py`, each order in one spelling. `find` also finds an order in another spelling of
the same meaning: `A MAR - SPA/NC`, `F GAS S F MAO - SPA/NC`, `A LON - NWY` by sea without VIA.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import warp as wp

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.state import Games, Tables
from sparring.envs.diplomacy.orders.listing_kernel import list_kernel
from sparring.envs.launcher import Launcher

MAX_ORDERS = 1082
"""Most orders of a unit in any position: a fleet in a chain of 18 with 696 convoys and 386 other orders."""


class Lister:
    """Lists the legal orders of games on one device; `room` is the initial capacity per unit, grown on demand."""

    def __init__(self, launcher: Launcher, games: Games, tables: Tables, *, room: int = 128) -> None:
        self._launcher, self._games, self._tables = launcher, games, tables
        self._make_room(room)

    def __call__(self, game: int) -> dict[int, np.ndarray]:
        """Return copies of the legal orders int32 [n], by province; empty once the game is over."""
        self._list(game)
        most = int(self._counts.max())
        if most > self._listed.shape[1]:
            self._make_room(most)
            self._list(game)
        counts, listed = self._counts.cpu().numpy(), self._listed.cpu().numpy()
        return {int(province): listed[province, : counts[province]].copy() for province in np.flatnonzero(counts)}

    def _make_room(self, room: int) -> None:
        new = partial(torch.zeros, dtype=torch.int32, device=self._launcher.device)
        self._counts, self._listed = new(codes.NUM_PROVINCES), new(codes.NUM_PROVINCES, room)
        self._arrays = [wp.from_torch(self._counts), wp.from_torch(self._listed)]

    def _list(self, game: int) -> None:
        self._launcher.run_once(list_kernel, [self._games, self._tables, game, *self._arrays])


def find(order: int, listed: np.ndarray) -> int:
    """Return the index of an order, in any spelling of the same meaning, in a unit's list, or -1."""
    kind, target, other, via = codes.unpack(order)
    alike = []
    for number, choice in enumerate(listed.tolist()):
        same = codes.unpack(choice)
        if order == choice:
            return number
        if kind == same[0] != codes.BUILD and _agree(target, same[1]) and _agree(other, same[2]):
            alike.append((number, same[3]))
    if len(alike) > 1:
        alike = [(number, by_sea) for number, by_sea in alike if by_sea == via]
    return alike[0][0] if len(alike) == 1 else -1


def _agree(one: int, other: int) -> bool:
    """Return whether two locations are the same place, one of them possibly without its coast."""
    province_of = standard_board().province_of
    if one == other or max(one, other) >= codes.NUM_LOCATIONS:
        return one == other
    return bool(province_of[one] == province_of[other]) and min(one, other) < codes.NUM_PROVINCES
