"""Face 1, the native batch: G games in Warp arrays on one device, seen by torch without a copy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
import warp as wp

from configs.machine import choose_device
from configs.names import InputError
from envs.diplomacy import chance, codes, kernels
from envs.diplomacy.board import standard_board
from envs.diplomacy.chance import random_kernel
from envs.diplomacy.kernels import process_kernel
from envs.diplomacy.state import Games, tables
from envs.launcher import Launcher

FIRST_YEAR = 1901
STATE = {
    "units": (codes.NUM_PROVINCES, torch.uint8),
    "dislodged": (codes.NUM_PROVINCES, torch.uint8),
    "origin": (codes.NUM_PROVINCES, torch.uint8),
    "owner": (codes.NUM_CENTRES, torch.int8),
    "year": (0, torch.int16),
    "phase": (0, torch.int8),
    "winner": (0, torch.int8),
    "done": (0, torch.uint8),
}
"""What a game is: name, columns (0 for one number per game), type."""


class DiplomacyBatch:
    """G games of Diplomacy at once.

    Args:
        num_games: G >= 1.
        device: "cpu", "cuda", "cuda:1", ... or "auto".
        last_year: a game still undecided ends as a draw after this year.
        threads: CPU threads; 0 takes every core this process may use.

    Attributes (torch tensors on `device` that share memory with the games): `units`, `dislodged`, `origin` uint8
    [G, 75], `owner` int8 [G, 34], `year` int16, `phase` int8, `winner` int8 and `done` uint8 [G], `orders` int32
    [G, 75] to be carried out by the next `process`, and `results` uint8 [G, 75] of the last ones; codes in `codes.py`.

    A game's course depends only on its orders, never on G, the threads or its neighbours.

    """

    units: torch.Tensor
    dislodged: torch.Tensor
    origin: torch.Tensor
    owner: torch.Tensor
    year: torch.Tensor
    phase: torch.Tensor
    winner: torch.Tensor
    done: torch.Tensor
    orders: torch.Tensor
    results: torch.Tensor

    def __init__(self, num_games: int, *, device: str = "cpu", last_year: int = 1935, threads: int = 0) -> None:
        if num_games < 1:
            raise InputError(f"num_games={num_games}: must be at least 1")
        if not FIRST_YEAR <= last_year <= 30_000:
            raise InputError(f"last_year={last_year}: must be in [{FIRST_YEAR}, 30000]")
        self.num_games, self.last_year = num_games, last_year
        self.device = choose_device(device)
        self._launcher = Launcher(self.device, num_games, threads)
        for module in (kernels, chance):
            self._launcher.load(module)
        self._tables = tables(str(self._launcher.wp_device))
        self._allocate()
        self.reset()

    def reset(self) -> None:
        """Begin every game anew, in spring 1901."""
        start = opening()
        for name in STATE:
            getattr(self, name).copy_(start[name])
        self.orders.zero_()
        self.results.zero_()

    def process(self) -> None:
        """Carry out `orders` in every game that goes on, move to the next phase, and clear `orders`.

        Raises `RuntimeError` if a phase could not be decided, which the rules exclude.
        """
        self._launcher.run(process_kernel, [self._games, self._tables, self.last_year, self._undecided])

    def check(self) -> None:
        """Raise `RuntimeError` if any phase so far could not be decided; waits for the device."""
        if count := int(self.undecided[0]):
            raise RuntimeError(f"{count} movement phases could not be decided")

    def draw_orders(self, seed: int) -> None:
        """Write random legal orders for everybody; the same seed gives the same orders in the same game and phase."""
        self._launcher.run(random_kernel, [self._games, self._tables, seed])

    def snapshot(self) -> dict[str, torch.Tensor]:
        """Copies of everything a game is, for `load`."""
        return {name: getattr(self, name).clone() for name in STATE}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Set the games to a `snapshot`, of these games or of one that all shall begin from ([1, ...])."""
        for name, values in state.items():
            getattr(self, name).copy_(values)
        self.orders.zero_()

    def close(self) -> None:
        """End the worker threads."""
        self._launcher.close()

    def _allocate(self) -> None:
        new = partial(torch.zeros, device=self.device)
        self._games = Games()
        shapes = {**STATE, "orders": (codes.NUM_PROVINCES, torch.int32), "results": (codes.NUM_PROVINCES, torch.uint8)}
        for name, (columns, kind) in shapes.items():
            shape = (self.num_games, columns) if columns else (self.num_games,)
            tensor = new(shape, dtype=kind)
            setattr(self, name, tensor)
            setattr(self._games, name, wp.from_torch(tensor))
        self.undecided = new(1, dtype=torch.int32)
        self._undecided = wp.from_torch(self.undecided)


def opening() -> dict[str, torch.Tensor]:
    """Spring 1901, as a snapshot of one game."""
    board = standard_board()
    units = np.zeros((1, codes.NUM_PROVINCES), dtype=np.uint8)
    for power, kind, location in board.start:
        province = int(board.province_of[location])
        coasts = board.coasts_of[province]
        form = kind + (1 + coasts.index(location) if kind and coasts else 0)
        units[0, province] = codes.unit_code(power, form)
    return position(units, board.home[board.centres][None], year=FIRST_YEAR, phase=codes.SPRING)


def position(units: np.ndarray, owner: np.ndarray, *, year: int, phase: int) -> dict[str, torch.Tensor]:
    """A snapshot of games with `units` [G, 75] and centres' `owner` [G, 34] at the beginning of a phase."""
    games = len(units)
    values: dict[str, Any] = {
        "units": units,
        "dislodged": np.zeros_like(units),
        "origin": np.full_like(units, codes.NOTHING),
        "owner": owner,
        "year": np.full(games, year),
        "phase": np.full(games, phase),
        "winner": np.full(games, -1),
        "done": np.zeros(games),
    }
    return {name: torch.as_tensor(values[name]).to(kind) for name, (_, kind) in STATE.items()}
