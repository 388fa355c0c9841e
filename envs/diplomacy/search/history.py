"""The orders that were given in the games of a batch, from which a search learns who the other players are.

It keeps the movement phases of the games `watched`, from one `look` to the next. If a game's position is not the one
that its last phase led to, the game was replaced: restarted, loaded or copied over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.records.history import PhaseRecord

FIRST_ROW = torch.zeros(1, dtype=torch.int64)
POSITION = ("units", "dislodged", "owner", "year", "phase")


@dataclass(frozen=True)
class Movements:
    """Movements of the games `rows` [n]: their positions, the orders int32 [n, 75], and what models had foretold."""

    rows: Tensor
    state: State
    orders: Tensor
    foretold: Mapping[str, Tensor] = field(default_factory=dict)

    def of(self, rows: Tensor) -> Movements:
        """Return those that `rows` bool [n] selects."""
        state = {name: values[rows] for name, values in self.state.items()}
        return Movements(self.rows[rows], state, self.orders[rows], {k: v[rows] for k, v in self.foretold.items()})


def movements(game: Sequence[PhaseRecord]) -> list[Movements]:
    """Return the movements of one recorded game, which is in row 0."""
    return [
        Movements(FIRST_ROW, record.position, torch.from_numpy(orders).int().unsqueeze(0))
        for record in game
        if (orders := record.orders) is not None and int(record.position["phase"]) in (codes.SPRING, codes.FALL)
    ]


class OrderHistory:
    """Watches a batch of G games."""

    def __init__(self, batch: DiplomacyBatch) -> None:
        games = batch.num_games
        self.restarts = torch.zeros(games, dtype=torch.int64)
        """How often each game was replaced."""
        self.watched = torch.zeros(games, dtype=torch.bool)
        self._foretold: dict[str, Tensor] = {}
        """Orders int32 [G, 75] by name of the model, in the current phase."""
        self._played: list[Movements] = []
        self._restarted = torch.zeros(games, dtype=torch.bool)
        self._expected: dict[str, Tensor] = {}
        batch.watch(self)

    def look(self, batch: DiplomacyBatch) -> tuple[Tensor, list[Movements]]:
        """Return the games that were replaced since the last look, bool [G], and the movements since then."""
        self._compare(batch)
        seen = self._restarted.clone(), self._played
        self._restarted.zero_()
        self._played = []
        return seen

    def foretell(self, orders: Mapping[str, Tensor]) -> None:
        """Keep what models order in this phase, int32 [G, 75] each."""
        self._foretold |= orders

    def foretell_each(self, rows: Tensor, orders: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Keep what models order in the games `rows` [n] for some of their powers, int32 [75] each."""
        for row, models in zip(rows.tolist(), orders, strict=True):
            for name, some in models.items():
                if name not in self._foretold:
                    self._foretold[name] = torch.zeros(len(self.watched), len(some), dtype=torch.int32)
                kept = self._foretold[name][row]
                self._foretold[name][row] = torch.where(torch.from_numpy(some) > 0, torch.from_numpy(some), kept)

    def before(self, batch: DiplomacyBatch) -> None:
        """Keep the orders of a movement."""
        self._compare(batch)
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
        rows = (moving.cpu() & self.watched).nonzero().squeeze(1)
        if len(rows):
            at = rows.to(batch.device)
            state = {name: values[at].cpu() for name, values in batch.state.items()}
            foretold = {name: orders[rows] for name, orders in self._foretold.items()}
            self._played.append(Movements(rows, state, batch.orders[at].cpu(), foretold))

    def after(self, batch: DiplomacyBatch) -> None:
        """Remember the positions; a player marks the games to watch again in each phase."""
        self.watched.zero_()
        self._foretold = {}
        self._expected = {name: batch.state[name].clone() for name in POSITION}

    def _compare(self, batch: DiplomacyBatch) -> None:
        """Forget the movements of replaced games."""
        if not self._expected:
            return
        same = torch.ones(batch.num_games, dtype=torch.bool, device=batch.device)
        for name, expected in self._expected.items():
            same &= (batch.state[name] == expected).view(batch.num_games, -1).all(1)
        other = ~same.cpu()
        if other.any():
            self.restarts += other
            self._restarted |= other
            kept = [played.of(~other[played.rows]) for played in self._played]
            self._played = [played for played in kept if len(played.rows)]
            self._expected = {name: batch.state[name].clone() for name in POSITION}
