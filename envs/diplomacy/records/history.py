"""Histories of the games of a batch, phase by phase, recorded on demand; a batch without a history has no overhead.

history = GameHistory(batch)
batch.draw_orders(seed)
history.process()             # in place of batch.process()
history.copy([0], [1])        # in place of batch.copy: game 1 gets the history of game 0
game = history.game(0)        # for saved_game.write_game

After `reset`, `load` or `set_position` of the batch, create a new history: the old one would mix two games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.positions import Position

RESULTS = (*codes.RESULTS, "unknown")


@dataclass(frozen=True)
class PhaseRecord:
    """One phase of one game: its start position [1, ...], then orders int32 [75] and results uint8 [75].

    The last record of a game is its current position, without orders and results. `notes` are lines on a phase from a
    file: missing results, and differences from the adjudicator's results. `beliefs` are lines on the players that each
    search expects in the other powers; files do not store them.
    """

    position: dict[str, torch.Tensor]
    orders: np.ndarray | None = None
    results: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    beliefs: tuple[str, ...] = ()


class GameHistory:
    """Recorder of a batch of G games; its length T is the number of phases recorded so far."""

    def __init__(self, batch: DiplomacyBatch) -> None:
        self.batch = batch
        self._phases: list[dict[str, torch.Tensor]] = []

    def __len__(self) -> int:
        return len(self._phases)

    def process(self) -> None:
        """Carry out the batch's orders, and record positions, orders and results."""
        phase = {name: tensor.cpu().clone() for name, tensor in self.batch.snapshot().items()}
        phase["orders"] = self.batch.orders.cpu().clone()
        self.batch.process()
        phase["results"] = self.batch.results.cpu().clone()
        self._phases.append(phase)

    def copy(self, from_games: Sequence[int] | torch.Tensor, to_games: Sequence[int] | torch.Tensor) -> None:
        """Copy games within the batch, including their history."""
        self.batch.copy(from_games, to_games)
        origin, goal = (torch.as_tensor(games, dtype=torch.int64).cpu().flatten() for games in (from_games, to_games))
        for phase in self._phases:
            for values in phase.values():
                values[goal] = values[origin]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything recorded, [T, G, ...] each: the fields of a snapshot, `orders` and `results`.

        Rows of a game with `done` are after its end and do not change.
        """
        names = (*STATE, "orders", "results")
        return {name: np.stack([phase[name].numpy() for phase in self._phases]) for name in names if self._phases}

    def game(self, game: int) -> list[PhaseRecord]:
        """Return the phases of one game in order, the last one being its current position.

        Raises `InputError` for a game outside [0, G).
        """
        if not 0 <= game < self.batch.num_games:
            raise InputError(f"game={game}: must be in [0, {self.batch.num_games - 1}]")
        rows = [{name: values[game : game + 1].clone() for name, values in phase.items()} for phase in self._phases]
        played = [
            PhaseRecord({name: row[name] for name in STATE}, row["orders"][0].numpy(), row["results"][0].numpy())
            for row in rows
            if not int(row["done"])
        ]
        now = {name: values[game : game + 1].cpu() for name, values in self.batch.snapshot().items()}
        return [*played, PhaseRecord(now)]


class WatchedBatch(DiplomacyBatch):
    """Batch that records one of its games under any calling code; `options` are those of `DiplomacyBatch`."""

    believed: Callable[[DiplomacyBatch], Sequence[str]] | None = None
    """Returns the `beliefs` of the watched game's phase, whose orders have been given."""

    def __init__(self, num_games: int, *, watched: int = 0, **options: Any) -> None:
        self._watched, self._past = watched, list[PhaseRecord]()
        super().__init__(num_games, **options)
        self._check_game(watched)

    def reset(self) -> None:
        """Restart every game and clear the recording."""
        super().reset()
        self._past.clear()

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Set the games to a snapshot and clear the recording."""
        super().load(state)
        self._past.clear()

    def set_position(self, game: int, position: Position) -> None:
        """Set one game to a position; clear the recording if it is the watched game."""
        super().set_position(game, position)
        if game == self._watched:
            self._past.clear()

    def copy(self, from_games: Sequence[int] | torch.Tensor, to_games: Sequence[int] | torch.Tensor) -> None:
        """Copy games; clear the recording if the watched game is overwritten, since its source was not recorded."""
        super().copy(from_games, to_games)
        origins, goals = (torch.as_tensor(games).flatten().tolist() for games in (from_games, to_games))
        if any(goal == self._watched != origin for origin, goal in zip(origins, goals, strict=True)):
            self._past.clear()

    def process(self) -> None:
        """Carry out the batch's orders, and record the watched game while it runs."""
        if bool(self.done[self._watched]):
            super().process()
            return
        position, orders = self._position(), self.orders[self._watched].cpu().numpy().copy()
        beliefs = tuple(self.believed(self)) if self.believed else ()
        super().process()
        results = self.results[self._watched].cpu().numpy().copy()
        self._past.append(PhaseRecord(position, orders, results, beliefs=beliefs))

    def past(self) -> list[PhaseRecord]:
        """Return the phases of the watched game since its last start or `set_position`, its current position last."""
        return [*self._past, PhaseRecord(self._position())]

    def _position(self) -> dict[str, torch.Tensor]:
        return {name: getattr(self, name)[self._watched : self._watched + 1].cpu().clone() for name in STATE}
