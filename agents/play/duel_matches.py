"""Play N matches of a game of two seats between two contestants in one batch, and record the results.

A contestant is a bot's name or a `Policy`. With teams, it plays all seats of a side, the first or the second half, and
hp are means over the side. Matches come in pairs: games j and j + N/2 have the same physics and the same start with
swapped seats, so neither side gains from them. A batch restarts each match that ends. Only the first result of every
row counts, so short matches are not overrepresented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored, count_pairs
from sparring.envs.batched import ACTIONS

LOOK_EVERY = 8
"""Steps between tests for the end of all matches; on an accelerator each test synchronizes."""

Contestant = str | Policy


class DuelSettings(Protocol):
    """Conditions of matches, which each game states for itself."""

    @property
    def action_repeat(self) -> int:
        """Ticks per step."""

    @property
    def max_ticks(self) -> int:
        """Time limit."""

    def batch(self, games: int) -> Any:
        """Create a batch (`envs.batched.BatchedGame`) with `match_id`, `reset`, `bot_id`, `length` and `final_hp`."""

    def under(self, ranges: np.ndarray) -> DuelSettings:
        """Return these conditions in physics drawn from `ranges`."""

    def filmed(self) -> DuelSettings:
        """Return these conditions with the first match traced for a video."""


Recorder = Callable[[Any, int], None]
"""Called after every step with the batch and the step's number from 0, for example to store `batch.trace`."""


@dataclass(frozen=True)
class MatchResults(Scored):
    """Results of N games from the left contestant's perspective; every array is [N]."""

    outcome: np.ndarray
    """+1 a win, 0 a draw, -1 a loss."""
    length: np.ndarray
    """Ticks."""
    left_hp: np.ndarray
    right_hp: np.ndarray
    left_seat: np.ndarray
    """0 in the first half, 1 in the second."""
    invalid_actions: int
    """Number of actions of either contestant that were not finite and were replaced by zero."""

    @property
    def counts(self) -> Result:
        """Wins, draws and losses of the left contestant."""
        wins, draws, losses = (int((self.outcome == kind).sum()) for kind in (1, 0, -1))
        return wins, draws, losses

    @property
    def units(self) -> list[float]:
        """Pairs of games by the left contestant's points in them."""
        pairs: list[float] = count_pairs(self.outcome).tolist()
        return pairs


def check_policies(contestants: Iterable[Contestant], setting: DuelSettings) -> None:
    """Raise `PolicyError` before any game for a policy that does not fit `setting`."""
    batch = setting.batch(2)
    try:
        for contestant in contestants:
            if isinstance(contestant, Policy):
                contestant.check(batch.contract)
    finally:
        batch.close()


def check_valid(results: MatchResults, left: str, right: str) -> None:
    """Raise `InputError` if the games of the players with these names had actions that were not finite."""
    if count := results.invalid_actions:
        raise InputError(f"{left} against {right}: {count} actions were not finite; the games are void")


def play(
    left: Contestant,
    right: Contestant,
    *,
    games: int,
    seed: int,
    setting: DuelSettings,
    recorder: Recorder | None = None,
) -> MatchResults:
    """Play `games` matches (an even number, in seat-swapped pairs) between two contestants.

    The results depend on the arguments alone: sampling policies are reseeded from `seed`. Raises `ValueError` for an
    odd number of games, `UnknownNameError` for an unknown bot, `PolicyError` for a policy that does not fit `setting`.
    """
    if games < 2 or games % 2:
        raise ValueError(f"games={games}: must be even and at least 2, since every match is played from both seats")
    batch = setting.batch(games)
    try:
        table = _Table(batch, left, right, seed)
        for step in range(-(-setting.max_ticks // setting.action_repeat)):
            table.step()
            if recorder is not None:
                recorder(batch, step)
            if step % LOOK_EVERY == 0 and table.finished():
                break
        return table.results()
    finally:
        batch.close()


class _Table:
    """Matches in progress: the players' seats, and the first result of each match."""

    def __init__(self, batch: Any, left: Contestant, right: Contestant, seed: int) -> None:
        n, device = batch.num_envs, batch.device
        self.batch = batch
        match = torch.arange(n, device=device)
        self.left_seat = (match >= n // 2).long()
        self.size = size = batch.obs.shape[1] // 2  # aircraft a side
        seat = torch.arange(size, device=device).expand(n, size)
        rows = tuple(  # of [2N, D], the seats of all matches; with teams side by side
            (size * side.unsqueeze(1) + seat).flatten()
            for side in (2 * match + self.left_seat, 2 * match + 1 - self.left_seat)
        )
        self.players = [(p, r) for p, r in zip((left, right), rows, strict=True) if isinstance(p, Policy)]
        for contestant, row in zip((left, right), rows, strict=True):
            batch.bots.view(-1)[row] = ACTIONS if isinstance(contestant, Policy) else batch.bot_id(contestant)
        for index, (policy, _) in enumerate(self.players):
            policy.check(batch.contract)
            policy.reseed(2 * seed + index)
        batch.match_id.copy_(match % (n // 2))
        batch.reset(seed)
        self.actions = torch.zeros(n, 2 * size, batch.action_size, device=device)
        self.memory = [torch.zeros(n, size * policy.memory_size, device=device) for policy, _ in self.players]
        self.hp_rows = torch.stack(rows)
        self.record = torch.full((4, n), -1, dtype=batch.final_hp.dtype, device=device)  # outcome, length, both hp

    def step(self) -> None:
        """Step with both contestants' actions, and record the matches that ended for the first time."""
        batch, obs, actions = self.batch, self.batch.obs.flatten(0, 1), self.actions.flatten(0, 1)
        for index, (policy, rows) in enumerate(self.players):
            memory = self.memory[index].view(len(rows), policy.memory_size)
            chosen, memory = policy.step(obs.index_select(0, rows), memory)
            self.memory[index] = memory.reshape(batch.num_envs, self.size * policy.memory_size)
            actions.index_copy_(0, rows, chosen)
        batch.step(self.actions)
        for memory in self.memory:  # of the next matches
            memory.masked_fill_((batch.outcome >= 0).unsqueeze(1), 0.0)
        hp = batch.final_hp.flatten()[self.hp_rows]
        if self.size > 1:
            hp = hp.view(2, batch.num_envs, self.size).mean(2)
        ended = torch.cat([torch.stack([batch.outcome, batch.length]), hp])
        fresh = (batch.outcome >= 0) & (self.record[0] < 0)
        torch.where(fresh, ended, self.record, out=self.record)

    def finished(self) -> bool:
        """Return True if every match has a result."""
        return bool((self.record[0] >= 0).all())

    def results(self) -> MatchResults:
        """Return the results so far, on the host."""
        record, seat = self.record.cpu().numpy(), self.left_seat.cpu().numpy()
        code, length, left_hp, right_hp = record
        if (code < 0).any():
            raise RuntimeError(f"{(code < 0).sum()} matches have no result yet; keep stepping until `finished`")
        code = np.where(code == 0, 0, 2 - code.astype(int) % 2)  # a side that won has the bits of its seats
        outcome = np.where(code == 0, 0, np.where(code - 1 == seat, 1, -1))
        return MatchResults(outcome, length, left_hp, right_hp, seat, int(self.batch.invalid_actions.sum()))
