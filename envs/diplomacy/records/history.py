"""What happened, phase by phase, in all games of a batch: recorded on demand, beside the batch and at no cost without.

history = History(batch)
batch.draw_orders(seed)
history.process()             # in place of batch.process()
history.copy([0], [1])        # in place of batch.copy: game 1 takes over the past of game 0
game = history.game(0)        # for saved_game.write_game

A batch that is set back, by `reset`, `load` or `set_position`, begins other games: begin another history with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board.positions import Position


@dataclass(frozen=True)
class PhaseRecord:
    """One phase of one game: the position it began with [1, ...], then orders int32 [75] and results uint8 [75].

    The last record of a game is where it stands, with neither orders nor results.
    """

    position: dict[str, torch.Tensor]
    orders: np.ndarray | None = None
    results: np.ndarray | None = None


class GameHistory:
    """Records a batch of G games from now on, T phases so far."""

    def __init__(self, batch: DiplomacyBatch) -> None:
        self.batch = batch
        self._phases: list[dict[str, torch.Tensor]] = []

    def __len__(self) -> int:
        return len(self._phases)

    def process(self) -> None:
        """Carry out the batch's orders and write down what there was, what was ordered and how it ended."""
        phase = {name: tensor.cpu().clone() for name, tensor in self.batch.snapshot().items()}
        phase["orders"] = self.batch.orders.cpu().clone()
        self.batch.process()
        phase["results"] = self.batch.results.cpu().clone()
        self._phases.append(phase)

    def copy(self, from_games: Sequence[int] | torch.Tensor, to_games: Sequence[int] | torch.Tensor) -> None:
        """Copy games within the batch, their past included."""
        self.batch.copy(from_games, to_games)
        origin, goal = (torch.as_tensor(games, dtype=torch.int64).cpu().flatten() for games in (from_games, to_games))
        for phase in self._phases:
            for values in phase.values():
                values[goal] = values[origin]

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything recorded, [T, G, ...] each: the fields of a snapshot, `orders` and `results`.

        Rows of a game with `done` are of after its end, when nothing happens any more.
        """
        names = (*STATE, "orders", "results")
        return {name: np.stack([phase[name].numpy() for phase in self._phases]) for name in names if self._phases}

    def game(self, game: int) -> list[PhaseRecord]:
        """One game's phases in the order they were played, the last one being where it stands now.

        Raises `InputError` for a game there is not.
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
    """A batch that keeps what happens in one of its games, whoever plays them; `options` are those of a batch."""

    def __init__(self, num_games: int, *, watched: int = 0, **options: Any) -> None:
        self._watched, self._past = watched, list[PhaseRecord]()
        super().__init__(num_games, **options)
        self._check_game(watched)

    def reset(self) -> None:
        """Begin every game anew, and forget what was kept."""
        super().reset()
        self._past.clear()

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Set the games to a snapshot, and forget what was kept."""
        super().load(state)
        self._past.clear()

    def set_position(self, game: int, position: Position) -> None:
        """Let a game go on from a position; what was kept of the watched one is forgotten with it."""
        super().set_position(game, position)
        if game == self._watched:
            self._past.clear()

    def copy(self, from_games: Sequence[int] | torch.Tensor, to_games: Sequence[int] | torch.Tensor) -> None:
        """Make games what others are; the watched one begins anew there, since nothing was kept of the other."""
        super().copy(from_games, to_games)
        origins, goals = (torch.as_tensor(games).flatten().tolist() for games in (from_games, to_games))
        if any(goal == self._watched != origin for origin, goal in zip(origins, goals, strict=True)):
            self._past.clear()

    def process(self) -> None:
        """Carry out the batch's orders, and keep those of the watched game where it goes on."""
        if bool(self.done[self._watched]):
            super().process()
            return
        position, orders = self._position(), self.orders[self._watched].cpu().numpy().copy()
        super().process()
        self._past.append(PhaseRecord(position, orders, self.results[self._watched].cpu().numpy().copy()))

    def past(self) -> list[PhaseRecord]:
        """The phases of the watched game since it was last begun or set, the last one being where it stands now."""
        return [*self._past, PhaseRecord(self._position())]

    def _position(self) -> dict[str, torch.Tensor]:
        return {name: getattr(self, name)[self._watched : self._watched + 1].cpu().clone() for name in STATE}
