"""Games of Diplomacy as one learner's environment: it plays one power of each, bots the other six.

In game i it plays power i % 7. A step is a movement phase: the learner's units are given orders, everybody else's bot
gives its own, and what follows until the next movement phase, retreats and winter, bots decide for the learner as well.
A game ends for it when it is over, or when the learner has neither unit nor centre. The reward is the change of its
share of the score, its number of centres squared over the sum of all powers' (what a draw would be worth to it).
N is the number of games.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.observation import SHAPE, observe
from sparring.envs.diplomacy.orders.order_choices import rows_of, write_orders
from sparring.envs.diplomacy.rewards.scoring import alive, count_centres, sum_of_squares

POWERS = codes.NUM_POWERS


@dataclass
class TableResults:
    """Games that ended, by opponent [K]: how many, won (more centres than anyone), shared, centres, score, length."""

    games: np.ndarray
    wins: np.ndarray
    draws: np.ndarray
    centres: np.ndarray
    score: np.ndarray
    length: np.ndarray

    @classmethod
    def none(cls, opponents: int) -> TableResults:
        """Nothing yet."""
        return cls(*(np.zeros(opponents) for _ in range(6)))


class Table:
    """N games, a multiple of 7, on `batch`; `bots` are the opponents' names, and `seed` begins all draws.

    With `once` a game goes on to its own end, with or without the learner, and stays as it is then.
    """

    def __init__(self, batch: DiplomacyBatch, bots: tuple[str, ...], *, seed: int, once: bool = False) -> None:
        self.batch, self.bots, self.seed = batch, bots, seed
        self.num_envs, self.device = batch.num_games, batch.device
        self.power = torch.arange(self.num_envs, device=self.device) % POWERS
        self.opponent = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self.length = torch.zeros(self.num_envs, device=self.device)
        self.draws, self.once = 0, once
        self.simulator_seconds = 0.0
        self.results = TableResults.none(len(bots))
        self._ids = torch.tensor([codes.BOTS.index(name) for name in bots], device=self.device)
        self._opening = {name: value.to(self.device) for name, value in opening().items()}
        self._first_obs = self._observe(self._opening)
        self._seat()
        self.obs = self.final_obs = self._observe(batch.state)

    def assign(self, opponents: np.ndarray) -> None:
        """Meet opponent k, by index into `bots`, in games where `opponents` [N] says so; changed games begin anew."""
        chosen = torch.as_tensor(opponents, dtype=torch.int64, device=self.device)
        self._begin(chosen != self.opponent)
        self.opponent.copy_(chosen)
        self._seat()
        self.obs = self._observe(self.batch.state)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take choices [N, 17]; give obs [N, D], reward [N], terminated [N], truncated [N]."""
        before = self._score()
        self._draw()
        write_orders(actions.long(), rows_of(self.obs.unflatten(1, SHAPE)), self.batch.orders)
        self._process()
        for _ in range(2):  # retreats, then winter
            self._process_rest()
        reward = self._score() - before
        over = self._over()
        self.length += 1
        self.obs = self.final_obs = self._observe(self.batch.state)
        if not self.once:
            self._note(over)
            self._begin(over)
            self.obs = torch.where(over.unsqueeze(1), self._first_obs, self.final_obs)
        return self.obs, reward, over, torch.zeros_like(over)

    def harvest(self) -> TableResults:
        """The games that ended since the last call."""
        found, self.results = self.results, TableResults.none(len(self.bots))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the games go on."""
        mine = {"opponent": self.opponent.clone(), "length": self.length.clone(), "draws": self.draws}
        return {"games": self.batch.snapshot()} | mine

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.batch.load(state["games"])
        self.opponent.copy_(state["opponent"])
        self.length.copy_(state["length"])
        self.draws = state["draws"]
        self._seat()
        self.obs = self._observe(self.batch.state)

    def _observe(self, state: State) -> Tensor:
        """What the learner sees [N, D] of N games, or of one that all of them are."""
        games = {name: values.expand(self.num_envs, *values.shape[1:]) for name, values in state.items()}
        return observe(games, self.power, last_year=self.batch.last_year).flatten(1)

    def _seat(self) -> None:
        """Tell the batch which bot plays which power."""
        self.batch.players.copy_(self._ids[self.opponent].unsqueeze(1).expand(-1, POWERS))

    def _draw(self) -> None:
        self.draws += 1
        self.batch.draw_orders((self.seed + 1_000_003 * self.draws) % 2**31)

    def _process(self) -> None:
        begun = time.perf_counter()
        self.batch.process()
        self.simulator_seconds += time.perf_counter() - begun

    def _process_rest(self) -> None:
        """A further phase of the games that are not in a movement phase again; the others wait."""
        batch = self.batch
        moving = (batch.phase == codes.SPRING) | (batch.phase == codes.FALL)
        waiting = moving & (batch.done == 0)
        if self.device.type == "cpu" and not (~moving & (batch.done == 0)).any():
            return
        batch.done.masked_fill_(waiting, 1)
        self._draw()
        self._process()
        batch.done.masked_fill_(waiting, 0)

    def _score(self) -> Tensor:
        """The learner's share [N] of the sum of squares."""
        return self._own(sum_of_squares(self.batch.owner))

    def _own(self, scores: Tensor) -> Tensor:
        """The learner's [N] among scores [N, 7]."""
        return scores.gather(1, self.power.unsqueeze(1)).squeeze(1)

    def _over(self) -> Tensor:
        return (self.batch.done > 0) | ~self._own(alive(self.batch.state))

    def _note(self, over: Tensor) -> None:
        """Add up the games that have ended."""
        if self.device.type == "cpu" and not over.any():
            return
        own, alone, shared = self._standing()
        values = (torch.ones_like(own), alone, shared, own, self._score(), self.length)
        fields = (getattr(self.results, name) for name in self.results.__dataclass_fields__)
        for total, value in zip(fields, values, strict=True):
            total += self._by_opponent(value.float() * over)

    def _standing(self) -> tuple[Tensor, Tensor, Tensor]:
        """The learner's centres [N], and whether it has more than anyone, or as many as the best of the others."""
        centres = count_centres(self.batch.owner).float()
        own = self._own(centres)
        best = centres.scatter(1, self.power.unsqueeze(1), -1.0).max(1).values
        return own, own > best, own == best

    def _by_opponent(self, values: Tensor) -> np.ndarray:
        sums = torch.zeros(len(self.bots), device=self.device, dtype=torch.float64)
        return sums.index_add_(0, self.opponent, values.double()).cpu().numpy()

    def _begin(self, which: Tensor) -> None:
        """Begin games anew where `which` [N] says so."""
        for name in STATE:
            mine = getattr(self.batch, name)
            chosen = which.view(-1, *[1] * (mine.dim() - 1))
            mine.copy_(torch.where(chosen, self._opening[name], mine))
        self.length.masked_fill_(which, 0.0)
