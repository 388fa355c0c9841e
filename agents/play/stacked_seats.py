"""Opponents' seats where all seats decide in every step: bots in the simulator, policies by name, stacked snapshots.

Observations of all snapshot matches are gathered into one [K, M, D] tensor, a row of M matches per slot: K different
snapshots act in one batched forward. Slots with fewer matches are padded: they observe row 0 of the batch and act into
a spare row of the actions. Named policies act once a step, each for all of its matches, in full precision. Both play
two-seat games only. N is the number of matches, S of seats, K of slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import Shard, ShardedGenerator, restore_generator
from sparring.agents.policies.stacked import StackedActors
from sparring.configs.core.tensor_file import check_tensors
from sparring.envs.batched import ACTIONS, BatchedGame, SeatView
from sparring.envs.launcher import Copyable

if TYPE_CHECKING:
    from sparring.agents.policies.policy import Policy


def observation_reader(
    batch: BatchedGame, view: SeatView | None, rows: Tensor, out: Tensor, side: Tensor
) -> Callable[[], object]:
    """Return a function that writes observations of seats `rows` [R] to `out` [R, D], their side to `side` [R]."""
    if view is None:
        return lambda: torch.index_select(batch.obs.flatten(0, 1), 0, rows, out=out)
    return view.reader(batch.obs.flatten(0, 1), rows, out, side)


class StackedSeats(Copyable):
    """Seats of `batch` that are not the learner's, for opponents of these numbers: `bots`, then `players`, then slots.

    `player_seconds` sums the time that the named players take. `memory` [N + 1, M] has a row for each match, and one
    for padding. See `LearnerEnv` for the other arguments.
    """

    rows = None
    _references: ClassVar[tuple[str, ...]] = ("_write_obs",)

    def __init__(
        self,
        batch: BatchedGame,
        bots: int,
        players: Mapping[str, Policy],
        *,
        slots: int,
        network_shape: dict[str, Any] | None,
        seed: int,
        view: SeatView | None,
        share: Shard,
    ) -> None:
        n, device, self._seats = batch.num_envs, batch.device, batch.obs.shape[1]
        if slots and self._seats != 2:
            raise ValueError(f"slots={slots}: snapshots play two-seat games only, this one has {self._seats} seats")
        if players and self._seats != 2:
            raise ValueError(f"players={list(players)}: play two-seat games only, this one has {self._seats} seats")
        for player in players.values():
            player.check(batch.contract)
        self._batch, self._view, self._share, self._slots = batch, view, share, slots
        self._first_player, self._first_slot = bots, bots + len(players)
        self._players, self.player_seconds = list(players.values()), 0.0
        self._actors = StackedActors(slots, network_shape, device) if network_shape else None
        self._generator = torch.Generator(device).manual_seed(seed)
        sizes = [player.memory_size for player in self._players]
        widest = max([self._actors.memory_size if self._actors and slots else 0, *sizes])
        self.memory = torch.zeros(n + 1, widest, device=device)
        self._rows = torch.zeros(0, dtype=torch.int64, device=device)
        self._obs = torch.zeros(slots, 0, batch.obs.shape[-1], device=device)
        self._side = torch.ones(slots, 0, device=device)

    def seat(self, opponents: np.ndarray, restart: Tensor) -> None:
        """Set the players of the batch's seats to the `opponents` of the run's matches; restart those in `restart`."""
        first, n = self._share.first, self._batch.num_envs
        local = opponents[self._share.rows]
        codes = np.where(local < self._first_player, local, ACTIONS).astype(np.int32)
        bots = np.repeat(codes[:, None], self._seats, axis=1)
        bots[np.arange(n), (first + np.arange(n)) % self._seats] = ACTIONS
        self._batch.assign(torch.from_numpy(bots), restart)
        self._playing = list(self._seated(local))
        self._group(opponents)

    def act(self, actions: Tensor) -> None:
        """Write the actions of snapshots and named players to `actions` [N S + 1, A]; the simulator plays the bots."""
        if self._scatter.numel():
            self._act_snapshots(actions)
        if self._playing:
            self._act_players(actions)

    def load_slot(self, slot: int, weights: Mapping[str, Tensor]) -> None:
        """Load a snapshot's weights into a slot."""
        assert self._actors is not None
        self._actors.load(slot, weights)

    def forget(self, begin: Tensor) -> None:
        """Empty the memories of the matches that begin, bool [N]."""
        self.memory[:-1].masked_fill_(begin.unsqueeze(1), 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the snapshots and the state of their draws."""
        return {"slots": self._actors.weights if self._actors else {}, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError`, before any change, for one of other snapshots."""
        weights = self._actors.weights if self._actors else {}
        stored = check_tensors(state["slots"], weights, "slots")
        restore_generator(self._generator, state["generator"], "generator")
        for name, tensor in weights.items():
            tensor.copy_(stored[name])

    def _act_snapshots(self, actions: Tensor) -> None:
        """Compute the actions of all snapshots in one forward."""
        assert self._actors is not None
        self._write_obs()
        if size := self._actors.memory_size:
            match = self._scatter.flatten() // 2
            memory = self.memory[match, :size].unflatten(0, self._scatter.shape)
            chosen, after = self._actors.step(self._obs, memory, generator=self._noise)
            self.memory[match, :size] = after.flatten(0, 1)
        else:
            chosen = self._actors.act(self._obs, generator=self._noise)
        if self._view:
            chosen = self._view.back(chosen, self._side)
        actions.index_copy_(0, self._scatter.flatten(), chosen.flatten(0, 1))

    @torch.no_grad()
    def _act_players(self, actions: Tensor) -> None:
        """Compute the actions of the named players, each once for all of its matches, as they act in evaluation."""
        start, obs = time.perf_counter(), self._batch.obs.flatten(0, 1)
        with torch.autocast(obs.device.type, enabled=False):
            for player, rows in self._playing:
                match = rows // 2
                memory = self.memory[match, : player.memory_size]
                chosen, after = player.step(obs.index_select(0, rows), memory)
                actions.index_copy_(0, rows, chosen)
                self.memory[match, : player.memory_size] = after
        self.player_seconds += time.perf_counter() - start

    def _bind(self) -> None:
        if self._rows.numel():
            obs, side = self._obs.flatten(0, 1), self._side.flatten()
            self._write_obs = observation_reader(self._batch, self._view, self._rows, obs, side)

    def _seated(self, opponents: np.ndarray) -> Iterator[tuple[Policy, Tensor]]:
        """Yield the named players with matches among these opponents [N], and their rows of the [2N] seats."""
        for index, player in enumerate(self._players, start=self._first_player):
            matches = np.flatnonzero(opponents == index)
            if len(matches):
                rows = 2 * matches + 1 - (self._share.first + matches) % 2
                yield player, torch.from_numpy(rows).to(self.memory.device)

    def _group(self, opponents: np.ndarray) -> None:
        """Index the snapshots' rows among the [2N] seats, one row of matches per slot, padded to equal lengths.

        Noise is drawn for the groups of all matches of the run, and this shard uses its rows.
        """
        share, device = self._share, self.memory.device
        first, last = share.first, share.first + share.count
        groups = [np.flatnonzero(opponents == self._first_slot + slot) for slot in range(self._slots)]
        begins = [int(np.searchsorted(group, first)) for group in groups]
        local = [group[(group >= first) & (group < last)] for group in groups]
        longest = max((len(group) for group in groups), default=0)
        rows = max((len(group) for group in local), default=0) or min(longest, 1)  # other shards' noise is drawn too
        gather, column = np.zeros((2, self._slots, rows), dtype=np.int64)
        scatter = np.full((self._slots, rows), 2 * share.count, dtype=np.int64)
        for slot, group in enumerate(local):
            gather[slot, : len(group)] = scatter[slot, : len(group)] = 2 * (group - first) + 1 - group % 2
            column[slot, : len(group)] = slot * longest + begins[slot] + np.arange(len(group))
        self._obs = torch.zeros(self._slots, rows, self._batch.obs.shape[-1], device=device)
        self._side = torch.ones(self._slots, rows, device=device)
        self._rows = torch.from_numpy(gather).to(device).flatten()
        self._bind()
        self._scatter = torch.from_numpy(scatter).to(device)
        shape, index = (self._slots, longest), torch.from_numpy(column).to(device)
        self._noise = self._generator if share.whole else ShardedGenerator(self._generator, shape, index)
