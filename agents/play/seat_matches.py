"""Play games of an imported game between a player and an opponent, and record the results.

The player takes every seat equally often: game g is played from seat g mod S, and the opponent has all other seats. Row
i of a batch of N matches plays the games i, i + N, i + 2 N ... Their number is fixed beforehand, so short games are not
overrepresented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import ShardedGenerator
from sparring.agents.policies.networks import PolicyNetwork
from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored

if TYPE_CHECKING:
    from sparring.envs.imported.batch import MatchBatch

WIN, DRAW, LOSS = 1, 0, -1
LONGEST_GAME = 100_000
"""Moves after which a game is taken for one without an end: far more than any game of PettingZoo or OpenSpiel has."""


class SeatPlayer(Protocol):
    """Player of any seats of any matches of one game; those of this project are in `envs/imported/training/`.

    One with `choose_rows(batch, rows [R]) -> actions [R, A]` is asked by that, since it needs the matches themselves.
    """

    name: str
    memory_size: int

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for observations [B, D] and memory [B, M], and the memory after the decision."""

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of the player."""


class NetworkSeats:
    """Policy's network under its contract; deterministic, or sampled with `generator`, by default one of its own.

    `noise` is what its actions are drawn with: in several processes the environment sets it for each move.
    """

    generator: torch.Generator
    noise: torch.Generator | ShardedGenerator

    def __init__(
        self,
        network: PolicyNetwork,
        contract: Mapping[str, Any],
        *,
        name: str = "policy",
        deterministic: bool = True,
        seed: int = 0,
        generator: torch.Generator | None = None,
        path: Path | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.network: Any = network
        self.contract, self.name = dict(contract), name
        self.deterministic, self.path, self.training = deterministic, path, dict(training or {})
        self.memory_size = int(getattr(network, "memory_size", 0))
        self.device = network.log_std.device
        self.generator = self.noise = generator or torch.Generator(self.device).manual_seed(seed)

    def reseed(self, seed: int) -> None:
        """Restart the sequence of sampled actions."""
        self.generator.manual_seed(seed)

    @torch.no_grad()
    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] and the memory after the decision [B, M], on the device of `obs`."""
        how: dict[str, Any] = {"deterministic": self.deterministic, "generator": self.noise}
        rows = obs.to(self.device)
        if not self.memory_size:
            return self.network.act(rows, **how)[0].to(obs.device), memory
        actions, _, after = self.network.step(rows, memory.to(self.device), critic=False, **how)
        return actions.to(obs.device), after.to(obs.device)


def seat_actions(player: SeatPlayer, batch: MatchBatch, rows: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions [R, A] of a player for `rows` [R] of the N * S seats of a batch, and their memory [R, M].

    All `rows` are of seats that decide.
    """
    choose_rows = getattr(player, "choose_rows", None)
    if choose_rows is not None:
        return choose_rows(batch, rows), memory
    return player.act(batch.obs.flatten(0, 1).index_select(0, rows), memory)


@dataclass(frozen=True)
class SeatResults(Scored):
    """Results of G games from the player's perspective."""

    outcome: np.ndarray
    """int64 [G]: 1 alone in the lead, 0 a lead that is shared or of no seat, -1 a lead of others."""
    seat: np.ndarray
    """Seat of the player, int64 [G]."""
    rewards: np.ndarray
    """Sum of the rewards of every seat over the game, float64 [G, S]."""
    length: np.ndarray
    """Moves, int64 [G]."""
    played: np.ndarray
    """Digest of the actions of the game, int64 [G]: equal games have equal ones."""

    def of_seat(self, seat: int) -> SeatResults:
        """Return those in which the player had this seat."""
        return SeatResults(*(getattr(self, part.name)[self.seat == seat] for part in fields(self)))

    @property
    def counts(self) -> Result:
        """Wins, draws and losses."""
        wins, draws, losses = (int((self.outcome == kind).sum()) for kind in (WIN, DRAW, LOSS))
        return wins, draws, losses

    @property
    def reward(self) -> np.ndarray:
        """Sum of the player's rewards, float64 [G]."""
        return self.rewards[np.arange(self.games), self.seat]

    @property
    def by_seat(self) -> list[tuple[int, int, int]]:
        """Wins, draws and losses of the player in every seat."""
        per_seat = [self.outcome[self.seat == seat] for seat in range(self.rewards.shape[1])]
        return [tuple(int((outcomes == kind).sum()) for kind in (WIN, DRAW, LOSS)) for outcomes in per_seat]  # type: ignore[misc]

    @property
    def distinct(self) -> int:
        """Number of games that differ in seat, actions or rewards; often S for deterministic players."""
        games = np.column_stack([self.seat, self.played, self.rewards.view(np.int64)])
        return len(np.unique(games, axis=0))


def play(
    batch: MatchBatch,
    players: tuple[SeatPlayer, SeatPlayer],
    games: int,
    seed: int,
    *,
    on_game: Callable[[int], object] | None = None,
) -> SeatResults:
    """Play `games` games, a multiple of the number of seats, of `players` (the player, the opponent).

    The results depend on the arguments alone if the batch is new: both players are reseeded from `seed`. `on_game` is
    called with the number of games that ended, after every move in which some did. Raises `ValueError` for a number of
    games that does not let the player take every seat equally often.
    """
    seats = batch.deciding.shape[1]
    if games < 1 or games % seats:
        raise ValueError(f"games={games}: must be a multiple of {seats}, the number of seats")
    table = SeatTable(batch, players, games, seed)
    while not table.finished():
        ended = table.step()
        if ended and on_game is not None:
            on_game(ended)
    return table.results()


def usual_batch_size(games: int, most: int = 64) -> int:
    """Return a number of matches for `games` games, at most `most`."""
    return max(1, min(games, most))


class SeatTable:
    """Games in progress: who sits where, their memories, and the results so far."""

    def __init__(self, batch: MatchBatch, players: tuple[SeatPlayer, SeatPlayer], games: int, seed: int) -> None:
        n, seats = batch.deciding.shape
        self.batch, self.players, self.games = batch, players, games
        for index, player in enumerate(players):
            player.reseed(2 * seed + index)
        self.game = torch.arange(n)
        """Number of the game that each match is playing, int64 [N]."""
        self.memory = [torch.zeros(n * seats, player.memory_size) for player in players]
        self.actions = torch.zeros(n, seats, batch.action_size)
        self._moves, self._reward = torch.zeros(n, dtype=torch.int64), torch.zeros(n, seats, dtype=torch.float64)
        self._played = torch.zeros(n, dtype=torch.int64)
        self._weights = torch.arange(1, seats * batch.action_size + 1).reshape(seats, -1)
        self._outcome = torch.full((games,), -2)
        self._seat, self._length = torch.arange(games) % seats, torch.zeros(games, dtype=torch.int64)
        self._rewards, self._digest = torch.zeros(games, seats, dtype=torch.float64), torch.zeros_like(self._seat)
        batch.restart(torch.ones(n, dtype=torch.bool))

    @property
    def own(self) -> Tensor:
        """The player's seats, bool [N, S]."""
        seats = self.batch.deciding.shape[1]
        return torch.arange(seats) == (self.game % seats).unsqueeze(1)

    def step(self) -> int:
        """Make one move in every match; return the number of counted games that ended in it."""
        batch, mask, deciding = self.batch, self.own, self.batch.deciding
        if not deciding.any():
            raise InputError(f"{batch.contract['id']}: no seat can act in any match; fix the game")
        actions = self.actions.flatten(0, 1)
        for player, memory, seats in zip(self.players, self.memory, (mask, ~mask), strict=True):
            rows = (deciding & seats).flatten().nonzero().squeeze(1)
            if len(rows):
                chosen, after = seat_actions(player, batch, rows, memory.index_select(0, rows))
                actions.index_copy_(0, rows, chosen.float())
                memory.index_copy_(0, rows, after)
        digits = torch.where(deciding.unsqueeze(-1), self.actions * 1024 + 1, 0.0).long()
        self._played = self._played * 1_000_003 + (digits * self._weights).sum((1, 2))
        batch.step(self.actions)
        self._reward += batch.reward
        self._moves += 1
        if int(self._moves.max()) > LONGEST_GAME:
            raise InputError(
                f"{batch.contract['id']}: a match did not end within {LONGEST_GAME:,} moves; let the game end, or "
                "set a limit, such as env.kwargs.max_cycles=1000"
            )
        return self._record()

    def _record(self) -> int:
        """Store the games that ended, and clear what belongs to them."""
        batch = self.batch
        ended = batch.outcome >= 0
        counted = ended & (self.game < self.games)
        if counted.any():
            game = self.game[counted]
            self._outcome[game] = results_of(batch.outcome[counted], self._seat[game])
            self._length[game] = batch.length[counted].long()
            self._rewards[game], self._digest[game] = self._reward[counted], self._played[counted]
        self._reward[ended], self._played[ended], self._moves[ended] = 0.0, 0, 0
        for memory in self.memory:
            memory.view(*batch.deciding.shape, memory.shape[1])[ended] = 0.0
        self.game = self.game + ended * batch.num_envs
        return int(counted.sum())

    def finished(self) -> bool:
        """Return whether every game has a result."""
        return bool((self.game >= self.games).all())

    def results(self) -> SeatResults:
        """Return the results, once `finished`."""
        if bool((self._outcome < LOSS).any()):
            raise RuntimeError("games are still running; step until finished")
        arrays = (self._outcome, self._seat, self._rewards, self._length, self._digest)
        return SeatResults(*(array.numpy() for array in arrays))


def results_of(outcome: Tensor, seat: Tensor) -> Tensor:
    """Return 1, 0 or -1, int64 [G], for `seat` [G] in games with `outcome` [G], bits of the seats in the lead.

    1 is alone in the lead, 0 a lead that is shared or of no seat, -1 a lead of others.
    """
    bit = torch.ones_like(outcome) << seat
    won, lost = outcome == bit, (outcome & bit == 0) & (outcome != 0)
    return won.long() - lost.long()
