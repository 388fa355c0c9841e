"""Positions played on for the search: samples of bots' orders, one adjudicated phase, or play to the end of a fall.

It works in its own batch, one chunk at a time. `done = STOPPED` stops a row: every kernel skips it. `done = 1` still
means the end of the game. A position is one adjudicated phase of one row, and `positions` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import warp as wp
from torch import Tensor

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.search.score import moves_to_centres, score_kernel

STOPPED = 2
LONGEST = {codes.SPRING: 4, codes.FALL: 7}
"""Most phases to the end of the next fall, retreats and winter included, by the phase in which they begin."""
CHUNK = 1024
"""Rows of the batch: about 0.7 MB of state, which a core's cache holds."""


class Simulator:
    """Plays rows of given states; `weights` are those of `score.py`."""

    def __init__(self, *, last_year: int, weights: Sequence[float], chunk: int = CHUNK) -> None:
        self.batch = DiplomacyBatch(chunk, last_year=last_year, threads=1)
        self.batch.load_kernels()
        self.positions = 0
        self._powers = torch.full((chunk,), -1, dtype=torch.int32)
        self._scores = torch.zeros(chunk)
        self._weights = torch.tensor(weights)
        self._bind()

    def draw(self, state: State, rows: Tensor, ids: Tensor, *, bots: Tensor, seed: int) -> Tensor:
        """Return orders int32 [n, 75] of the `bots` int [n, 7] in the `rows` [n] of `state`; `ids` tell draws apart."""
        orders = torch.zeros(len(rows), codes.NUM_PROVINCES, dtype=torch.int32)
        for part, n in self._chunks(len(rows)):
            self.batch.fork(state, rows[part])
            self.batch.game_id[:n] = ids[part]
            self.batch.players[:n] = bots[part]
            self.batch.orders[:n] = 0
            self.batch.draw_orders(seed)
            orders[part] = self.batch.orders[:n]
        return orders

    def screen(self, state: State, rows: Tensor, powers: Tensor, orders: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values [n] to `powers` [n] after one phase with `orders` [n, 75], and the phases played [n]."""
        values = torch.zeros(len(rows))
        for part, n in self._chunks(len(rows)):
            self._begin(state, rows[part], orders[part])
            values[part] = self._value(powers[part], n)
        return values, torch.ones(len(rows), dtype=torch.int64)

    def play_on(
        self, state: State, rows: Tensor, powers: Tensor, orders: Tensor, ids: Tensor, *, bots: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Return the values [n] at the end of the next fall, and the phases played [n], at most `LONGEST`.

        The `bots` int [n, 7] order after the first phase. From spring, the next fall is in the same year; from
        fall, it is in the next year.
        """
        values, phases = torch.zeros(len(rows)), torch.ones(len(rows), dtype=torch.int64)
        last = state["year"] + (state["phase"] != codes.SPRING)
        for part, n in self._chunks(len(rows)):
            self._begin(state, rows[part], orders[part])
            self.batch.game_id[:n] = ids[part]
            self.batch.players[:n] = bots[part]
            until = last[rows[part]]
            while (running := self._running(until, n)).any():
                self.batch.draw_orders(seed)
                self.batch.process()
                phases[part] += running
            values[part] = self._value(powers[part], n)
        self.positions += int(phases.sum()) - len(rows)
        return values, phases

    def _begin(self, state: State, rows: Tensor, orders: Tensor) -> None:
        self.batch.fork(state, rows)
        self.batch.orders[: len(rows)] = orders
        self.batch.process()
        self.positions += len(rows)

    def _running(self, until: Tensor, n: int) -> Tensor:
        """Stop the rows whose fall is over; return the rows that continue, bool [n]."""
        batch = self.batch
        year, done = batch.year[:n], batch.done[:n]
        over = (year > until) | ((year == until) & (batch.phase[:n] == codes.WINTER))
        done.masked_fill_(over & (done == 0), STOPPED)
        return done == 0

    def _value(self, powers: Tensor, n: int) -> Tensor:
        self._powers[:n] = powers
        self._powers[n:] = -1
        self._score()
        return self._scores[:n].clone()

    def _chunks(self, total: int) -> Iterator[tuple[slice, int]]:
        size = self.batch.num_games
        for start in range(0, total, size):
            end = min(start + size, total)
            yield slice(start, end), end - start

    def _bind(self) -> None:
        moves = torch.from_numpy(moves_to_centres())
        powers, weights, away, scores = map(wp.from_torch, (self._powers, self._weights, moves, self._scores))
        self._score = self.batch.prepare(score_kernel, [powers, weights, away, self.batch.last_year, scores])
