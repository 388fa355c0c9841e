"""List every legal order of one game or of all games by unit: kernel launch, and lookup on the host.

The lists have the sequence of `legal.py`, each order in one spelling. `find` also finds an order in another spelling of
the same meaning: `A MAR - SPA/NC`, `F GAS S F MAO - SPA/NC`, `A LON - NWY` by sea without VIA.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
import torch
import warp as wp
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.state import Games, Tables
from sparring.envs.diplomacy.orders.listing_kernel import list_kernel
from sparring.envs.launcher import Launcher

MAX_ORDERS = 1082
"""Maximum orders of a unit in any position: a fleet in a chain of 18 with 696 convoys and 386 other orders."""


@dataclass(frozen=True)
class ListedOrders:
    """The legal orders of G games, on their device: a row of orders a game, province after province."""

    starts: Tensor
    """int32 [G, 76]; the orders of province p are those from `starts[:, p]` up to `starts[:, p + 1]`."""
    orders: Tensor
    """int32 [G, room], as `codes.py` packs them; entries after the last one are undefined."""

    @property
    def counts(self) -> Tensor:
        """Number of legal orders of each province, int32 [G, 75]; 0 where nothing can be ordered."""
        return self.starts.diff(dim=1)

    def mask(self, provinces: Tensor, size: int = MAX_ORDERS, *, out: Tensor | None = None) -> Tensor:
        """Return which of `size` indices are orders of `provinces` int64 [G, n], bool [G, n, size].

        They are written into `out`, if it is given: for many games, getting new memory takes most of the time.
        """
        numbers = self.counts.gather(1, provinces).flatten()
        rows = None if out is None else out.view(-1, size)
        return torch.index_select(masks(size, self.starts.device), 0, numbers, out=rows).view(*provinces.shape, size)

    def take(self, numbers: Tensor) -> Tensor:
        """Return orders int32 [G, 75] from an index int64 [G, 75] into each province's list; 0 without a list."""
        at = (self.starts[:, :-1] + numbers).clamp_max(self.orders.shape[1] - 1)
        return self.orders.gather(1, at.long()).masked_fill(self.counts == 0, codes.NO_ORDER)


@cache
def masks(size: int, device: torch.device) -> Tensor:
    """Return the masks of 0 to `MAX_ORDERS` orders, bool [`MAX_ORDERS` + 1, size]."""
    numbers = torch.arange(MAX_ORDERS + 1, device=device)
    return torch.arange(size, device=device) < numbers.unsqueeze(1)


class Lister:
    """Lists the legal orders of games on one device; `room` is the initial capacity per game, grown on demand."""

    def __init__(self, launcher: Launcher, games: Games, tables: Tables, *, room: int = 512) -> None:
        self._launcher, self._games, self._tables, self._room = launcher, games, tables, room
        self._one: Rows | None = None
        self._all: Rows | None = None

    def __call__(self, game: int) -> dict[int, np.ndarray]:
        """Return a copy of the legal orders int32 [n], by province; empty once the game is over."""
        if self._one is None or not self._one.fill(game):
            self._one = self._rows(1, self._one)
            return self(game)
        starts = self._one.starts[0].tolist()
        orders = self._one.orders[0, : starts[-1]].cpu().numpy().copy()
        return {province: orders[first:end] for province, (first, end) in enumerate(pairwise(starts)) if end > first}

    def all(self) -> ListedOrders:
        """Return the legal orders of all games, in memory that the next call writes into; waits for the device."""
        if self._all is None or not self._all.fill(0):
            self._all = self._rows(self._launcher.size, self._all)
            return self.all()
        return ListedOrders(self._all.starts, self._all.orders)

    def _rows(self, rows: int, full: Rows | None) -> Rows:
        if full is not None:
            self._room = max(self._room, int(full.starts[:, -1].max()))
        return Rows(self._launcher, self._games, self._tables, rows, self._room)


class Rows:
    """Memory for the orders of `rows` games, and the launch that fills it."""

    def __init__(self, launcher: Launcher, games: Games, tables: Tables, rows: int, room: int) -> None:
        new = partial(torch.zeros, dtype=torch.int32, device=launcher.device)
        self.starts, self.orders = new(rows, codes.NUM_PROVINCES + 1), new(rows, room)
        self._launcher, self._base = launcher, 0
        inputs = [games, tables, *(wp.from_torch(array) for array in (self.starts, self.orders)), 0]
        self._commands = launcher.record(list_kernel, inputs, rows=rows)

    def fill(self, base: int) -> bool:
        """List the orders of the games from `base` on; return whether there was room for all."""
        for command in self._commands if base != self._base else ():
            for at in (4, 5):  # `base` and `first`
                command.set_param_at_index(at, base)
        self._base = base
        self._launcher.launch(self._commands)
        return int(self.starts[:, -1].max()) <= self.orders.shape[1]


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


def _agree(location: int, other: int) -> bool:
    """Return whether two locations are the same place, one of them possibly without its coast."""
    province_of = standard_board().province_of
    if location == other or max(location, other) >= codes.NUM_LOCATIONS:
        return location == other
    return bool(province_of[location] == province_of[other]) and min(location, other) < codes.NUM_PROVINCES
