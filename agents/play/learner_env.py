"""A single-agent view of a batch of matches: the learner's observations and rewards, with all other seats played.

The learner has seat i % S of match i. Every match has an opponent: the first indices are the game's bots, played
inside the simulator, then named players, fixed policies that act once a step for all of their matches; from
`first_slot` on they are slots that hold frozen snapshots (two-seat games only). Observations of all snapshot matches
are gathered into one [K, M, D] tensor, a row of M matches per slot, so that K different snapshots act in one batched
forward. Slots with fewer matches are padded: they observe row 0 of the batch and act into a spare row.

Results are summed on the device, one row per opponent, and read once per update.
With several processes, an environment steps its shard of the run's matches. Opponents are always given for all matches
of the run, so the course of a match does not depend on the number of processes.
N is `num_envs`, S the seats, D the observation size, A the action size, K the slots, O = bots + players + K the
opponents.

Recurrent policies have a memory for every match, that of the learner beside that of its opponent. Both are zeros from
the step on which a match ends or restarts. The rollout carries the learner's: its lanes are the N matches.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, Shard, ShardedGenerator, restore_generator
from sparring.agents.policies.memory import NONE, state_size
from sparring.agents.policies.stacked import StackedActors
from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.batched import ACTIONS, BatchedGame, SeatView
from sparring.envs.launcher import Copyable

if TYPE_CHECKING:
    from sparring.agents.policies.policy import Policy


@dataclass(frozen=True)
class MatchTally:
    """Results of the learner's finished matches, one entry per opponent: arrays [O] of counts and of sums."""

    wins: np.ndarray
    draws: np.ndarray
    losses: np.ndarray
    stats: dict[str, np.ndarray]
    """Sums of the game's own statistics by name (`BatchedGame.stat_names`)."""
    returns: np.ndarray
    """Sum of undiscounted returns of the learner."""

    @property
    def games(self) -> np.ndarray:
        """Number of finished matches per opponent."""
        return self.wins + self.draws + self.losses

    def result(self, opponent: int) -> tuple[int, int, int]:
        """Return the learner's (wins, draws, losses) against one opponent."""
        return int(self.wins[opponent]), int(self.draws[opponent]), int(self.losses[opponent])


class StepReward(Protocol):
    """Rewards of the learner in place of the batch's."""

    def begin(self) -> None:
        """Keep what a step will change."""

    def end(self, builtin: Tensor) -> Tensor:
        """Return the rewards float32 [N] of the step; `builtin` [N] are the batch's."""


class OpponentSeats(ABC):
    """The learner's opponent in every match, and its results against each; O opponents, of indices 0 to O - 1."""

    batch: Any
    opponents: np.ndarray
    _sums: Tensor
    """Wins, draws, losses, statistics and returns [O, ...]."""

    @property
    def longest_episode(self) -> int:
        """Maximum number of steps of a match."""
        steps: int = self.batch.longest_episode
        return steps

    def close(self) -> None:
        """End the threads or processes that step the batch."""
        self.batch.close()

    def assign(self, opponents: np.ndarray) -> None:
        """Set the opponent index of every match of the run. Matches whose opponent changes restart without a result.

        Raises `ValueError` for an index that is not an opponent.
        """
        assigned = np.asarray(opponents, dtype=np.int32)
        if assigned.shape != self.opponents.shape or assigned.min() < 0 or assigned.max() >= len(self._sums):
            raise ValueError(f"opponents must be {len(self.opponents)} indices in 0..{len(self._sums) - 1}")
        changed = assigned != self.opponents
        self.opponents = assigned
        if changed.any():
            self._seat_opponents(changed)

    def adopt(self, contract: Mapping[str, Any]) -> None:  # noqa: B027 - not every environment has statistics
        """Do nothing: observations are shown without statistics."""

    def harvest(self, processes: Processes = ALONE) -> MatchTally:
        """Return the results of matches finished since the last call, over all `processes`, and reset the sums."""
        wins, draws, losses, *stats, returns = processes.add_up(self._sums).cpu().numpy().T.copy()
        self._sums.zero_()
        return MatchTally(wins, draws, losses, dict(zip(self.batch.stat_names, stats, strict=True)), returns)

    @abstractmethod
    def _seat_opponents(self, restart: np.ndarray) -> None:
        """Set the players of the batch's seats, and restart matches."""


def result_columns(outcome: Tensor, bit: Tensor) -> Tensor:
    """Return wins, draws and losses, float64 [R, 3], from results [R] and the learner's bit in them [R]."""
    won = outcome == bit
    lost = ~won & (outcome & bit == 0) & (outcome != 0)
    return torch.stack([won, ~won & ~lost, lost], dim=1).double()


class LearnerEnv(OpponentSeats, Copyable):
    """Environment of one learner in `batch`, against `bots`, `players` and up to `slots` snapshots of `network_shape`.

    `players` are further opponents by name, which stand after the bots in `bots`. They act in full precision, and
    `player_seconds` sums the time they take.

    `obs` and `final_obs` are overwritten by the next step. `opponents` [total] is the opponent in each match of the
    run, initially bot 0; the batch plays a `share` of these matches, by default all. `seed` seeds the draws of
    snapshots' actions. `simulator_seconds` sums the time spent in the batch's steps; on an accelerator it only covers
    the launches. `quarantined` counts matches that were not finite. With a `view`, learner and snapshots play in the
    symmetric match. `contract` defaults to the batch's. With `limit_ends`, a match that reaches its time limit has
    ended for the learner, whose reward has its result: with its last value added, the result would count twice and,
    as values learn from values, without end. A copy, deep or pickled, continues like the original.
    """

    _references: ClassVar[tuple[str, ...]] = ("_actions", "_write_obs", "_write_final_obs", "_write_snapshot_obs")

    unsaved = ""
    notes: Sequence[str] = ()

    def __init__(
        self,
        batch: BatchedGame,
        *,
        bots: Sequence[str],
        seed: int,
        players: Mapping[str, Policy] | None = None,
        slots: int = 0,
        network_shape: dict[str, Any] | None = None,
        view: SeatView | None = None,
        share: Shard | None = None,
        contract: Mapping[str, Any] | None = None,
        limit_ends: bool = False,
    ) -> None:
        n, device = batch.num_envs, batch.device
        self._limit_ends = limit_ends
        self.share = share or Shard(0, n, n)
        self.batch, self.num_envs, self.device = batch, n, device
        players = dict(players or {})
        self.bots, self.slots = (*bots, *players), slots
        self._first_player, self.first_slot = len(bots), len(self.bots)
        self._players = list(players.values())
        self.contract = dict(contract or batch.contract)
        self.obs = torch.zeros(n, batch.obs.shape[-1], device=device)
        self.final_obs = torch.zeros_like(self.obs)
        self._view = view
        self._side = torch.ones(n, device=device)  # of the learner's observation through `view`
        self.opponents = np.zeros(self.share.total, dtype=np.int32)
        self.own_reward: StepReward | None = None
        """Reward of the learner's seats; by default the batch's."""
        self.simulator_seconds = self.player_seconds = 0.0
        self._actors = StackedActors(slots, network_shape, device) if network_shape else None
        self._generator = torch.Generator(device).manual_seed(seed)
        self._seats = batch.obs.shape[1]
        if slots and self._seats != 2:
            raise ValueError(f"slots={slots}: snapshots play two-seat games only, this one has {self._seats} seats")
        if players and self._seats != 2:
            raise ValueError(f"players={list(players)}: play two-seat games only, this one has {self._seats} seats")
        for player in self._players:
            player.check(batch.contract)
        self.lanes, self.rows = n, None  # all lanes decide in every step
        learner = network_shape or {}
        recurrent = 2 * state_size(learner.get("memory", NONE), learner.get("hidden", 0))
        self.memory = torch.zeros(n, recurrent, device=device)
        self.fresh = torch.ones(n, dtype=torch.bool, device=device)
        sizes = [player.memory_size for player in self._players]
        widest = max([self._actors.memory_size if self._actors and slots else 0, *sizes])
        self._opponent_memory = torch.zeros(n + 1, widest, device=device)  # one more, for padding
        self._match = match = torch.arange(n, device=device)
        seat = (self.share.first + match) % self._seats
        self.seat_rows = self._mine = (
            self._seats * match + seat
        )  # the learner's rows among the [N * S] seats of the batch
        self._snapshot_rows = torch.zeros(0, dtype=torch.int64, device=device)
        self._snapshot_obs = torch.zeros(slots, 0, self.obs.shape[-1], device=device)
        self._snapshot_side = torch.ones(slots, 0, device=device)
        self._flat_actions = torch.zeros(self._seats * n + 1, batch.action_size, device=device)  # one more, for padding
        self._bind()
        self._bit = torch.ones_like(seat) << seat
        columns = 4 + len(batch.stat_names)  # wins, draws, losses, statistics, returns
        self._sums = torch.zeros(self.first_slot + slots, columns, dtype=torch.float64, device=device)
        self._return = torch.zeros(n, dtype=torch.float64, device=device)
        self.quarantined = torch.zeros((), dtype=torch.int64, device=device)
        self._seat_opponents(np.ones(self.share.total, dtype=bool))

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the learner's actions [N, A]; return its obs [N, D], reward [N], terminated [N], truncated [N]."""
        if self._view:
            actions = self._view.back(actions, self._side)
        self._flat_actions.index_copy_(0, self._mine, actions)
        if self._scatter.numel():
            self._act_snapshots()
        self._act_players()
        if self.own_reward:
            self.own_reward.begin()
        start = time.perf_counter()
        self.batch.step(self._actions)
        self.simulator_seconds += time.perf_counter() - start
        self._write_obs()
        self._read_final_obs()
        reward = self.batch.reward.flatten().index_select(0, self._mine)
        if self.own_reward:
            reward = self.own_reward.end(reward)
        reward = self._quarantine(reward)
        self._count(reward)
        if self._memories():
            self.fresh.fill_(False)
            self._forget(self.batch.terminated | self.batch.truncated)
        if self._limit_ends:
            ended = self.batch.terminated | self.batch.truncated
            return self.obs, reward, ended, torch.zeros_like(ended)
        return self.obs, reward, self.batch.terminated, self.batch.truncated

    def rehearse(self) -> None:
        """Assign all bots in equal parts, for a trial of speed."""
        self.assign(np.arange(self.share.total) % self.first_slot)

    def load_slot(self, slot: int, weights: dict[str, Tensor]) -> None:
        """Load a snapshot's weights into a slot and restart the slot's matches without results.

        Raises `ValueError` for a slot outside 0..K-1 or weights of another shape.
        """
        if self._actors is None:
            raise ValueError(f"slot={slot}: there are no slots")
        self._actors.load(slot, weights)
        self._seat_opponents(self.opponents == self.first_slot + slot)

    def state_dict(self) -> dict[str, Any]:
        """Return the full state of play, including the batch."""
        return {
            "batch": self.batch.state_dict(),
            "opponents": torch.from_numpy(self.opponents),
            "slots": self._actors.weights if self._actors else {},
            "generator": self._generator.get_state(),
            "sums": self._sums,
            "return": self._return,
            "quarantined": self.quarantined,
        } | ({"memories": self._memories()} if self._memories() else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of an environment of the same sizes; raises `ContentError` for another."""
        check_tensor(state["opponents"], torch.from_numpy(self.opponents), "opponents")
        slots = check_tensors(state["slots"], self._actors.weights if self._actors else {}, "slots")
        for name, tensor in {"sums": self._sums, "return": self._return, "quarantined": self.quarantined}.items():
            check_tensor(state[name], tensor, name)
        memories = check_tensors(state.get("memories", {}), self._memories(), "memories")
        restore_generator(self._generator, state["generator"], "generator")
        self.opponents = state["opponents"].cpu().numpy()
        for name, weights in slots.items():
            assert self._actors is not None
            self._actors.weights[name].copy_(weights)
        self._sums.copy_(state["sums"])
        self._seat_opponents(np.zeros(self.share.total, dtype=bool))
        self._return.copy_(state["return"])
        self.quarantined.copy_(state["quarantined"])
        for name, tensor in self._memories().items():
            tensor.copy_(memories[name])
        self.batch.load_state_dict(state["batch"])
        self._write_obs()

    def _memories(self) -> dict[str, Tensor]:
        """Return what is carried from step to step; empty if neither the learner nor an opponent has a memory."""
        memories = {"learner": self.memory, "opponents": self._opponent_memory, "fresh": self.fresh}
        return memories if self.memory.shape[1] + self._opponent_memory.shape[1] else {}

    def _forget(self, begin: Tensor) -> None:
        """Empty the memories of the matches that begin, bool [N]."""
        self._opponent_memory[:-1].masked_fill_(begin.unsqueeze(1), 0.0)
        self.memory.masked_fill_(begin.unsqueeze(1), 0.0)
        self.fresh |= begin

    def _act_snapshots(self) -> None:
        """Compute the actions of all snapshots in one forward."""
        assert self._actors is not None
        self._write_snapshot_obs()
        if size := self._actors.memory_size:
            match = self._scatter.flatten() // 2
            memory = self._opponent_memory[match, :size].unflatten(0, self._scatter.shape)
            actions, after = self._actors.step(self._snapshot_obs, memory, generator=self._noise)
            self._opponent_memory[match, :size] = after.flatten(0, 1)
        else:
            actions = self._actors.act(self._snapshot_obs, generator=self._noise)
        if self._view:
            actions = self._view.back(actions, self._snapshot_side)
        self._flat_actions.index_copy_(0, self._scatter.flatten(), actions.flatten(0, 1))

    @torch.no_grad()
    def _act_players(self) -> None:
        """Compute the actions of the named players, each once for all of its matches, as they act in evaluation."""
        if not self._playing:
            return
        start, obs = time.perf_counter(), self.batch.obs.flatten(0, 1)
        with torch.autocast(self.device.type, enabled=False):
            for player, rows in self._playing:
                match = rows // 2
                memory = self._opponent_memory[match, : player.memory_size]
                actions, after = player.step(obs.index_select(0, rows), memory)
                self._flat_actions.index_copy_(0, rows, actions)
                self._opponent_memory[match, : player.memory_size] = after
        self.player_seconds += time.perf_counter() - start

    def _bind(self) -> None:
        """Make the view of the actions, and the functions that write observations to this object's tensors."""
        self._actions = self._flat_actions[:-1].view(self.num_envs, self._seats, -1)
        self._write_obs = self._reader(self._mine, self.obs, self._side)
        self._write_final_obs = self._final_reader()
        self._bind_snapshots()

    def _bind_snapshots(self) -> None:
        if self._snapshot_rows.numel():
            obs, side = self._snapshot_obs.flatten(0, 1), self._snapshot_side.flatten()
            self._write_snapshot_obs = self._reader(self._snapshot_rows, obs, side)

    def _reader(self, rows: Tensor, out: Tensor, side: Tensor) -> Callable[[], object]:
        """Return a function that writes observations of seats `rows` [R] to `out` [R, D], their side to `side` [R]."""
        if self._view is None:
            return lambda: torch.index_select(self.batch.obs.flatten(0, 1), 0, rows, out=out)
        return self._view.reader(self.batch.obs.flatten(0, 1), rows, out, side)

    def _final_reader(self) -> Callable[[], object]:
        """Return a function that writes the learner's last observations to `final_obs`."""
        if self._view is None:
            return self.batch.final_reader(self._mine, self.final_obs)
        raw = torch.zeros_like(self.obs)
        write = self.batch.final_reader(self._mine, raw)
        show = self._view.reader(raw, self._match, self.final_obs, torch.ones_like(self._side))
        return lambda: (write(), show())

    def _read_final_obs(self) -> None:
        if self.device.type == "cpu" and not self.batch.truncated.any():  # elsewhere the test would synchronize
            return
        self._write_final_obs()

    def _quarantine(self, reward: Tensor) -> Tensor:
        """Restart matches that are not finite; their step ends the episode with reward 0 and without a result."""
        if self.device.type == "cpu":  # a sum tells first that all is finite; elsewhere reading it would synchronize
            total = self.obs.sum() + reward.sum() + self.final_obs[self.batch.truncated].sum()
            if math.isfinite(float(total)):
                return reward
        last = self.batch.truncated & ~self.final_obs.isfinite().all(dim=1)
        bad = ~(reward.isfinite() & self.obs.isfinite().all(dim=1)) | last
        self.quarantined += bad.sum()
        self.batch.assign(None, bad)
        self.batch.outcome.masked_fill_(bad, -1)
        self.batch.terminated.logical_or_(bad)
        self.batch.truncated.logical_and_(~bad)
        self._return.masked_fill_(bad, 0.0)
        self._write_obs()
        return reward.masked_fill(bad, 0.0)

    def _count(self, reward: Tensor) -> None:
        """Add finished matches to their opponents' sums."""
        self._return += reward
        ended = self.batch.outcome >= 0
        # On a CPU the few matches that ended; elsewhere reading which they are would synchronize.
        match = ended.nonzero().squeeze(1) if self.device.type == "cpu" else self._match
        if not len(match):
            return
        result = result_columns(self.batch.outcome[match], self._bit[match])
        stats, returns = self.batch.seat_stats(self._mine[match]), self._return[match].unsqueeze(1)
        values = torch.cat([result, stats, returns], dim=1) * ended[match].unsqueeze(1)
        self._sums.index_add_(0, self._opponent[match], values)
        self._return.masked_fill_(ended, 0.0)

    def _seat_opponents(self, restart: np.ndarray) -> None:
        """Set the players of the batch's seats, restart the run's matches in `restart`, and observe."""
        n, share = self.num_envs, self.share
        opponents = self.opponents[share.rows]
        codes = np.where(opponents < self._first_player, opponents, ACTIONS).astype(np.int32)
        bots = np.repeat(codes[:, None], self._seats, axis=1)
        bots[np.arange(n), (share.first + np.arange(n)) % self._seats] = ACTIONS
        restarted = torch.from_numpy(restart[share.rows]).to(self.device)
        self.batch.assign(torch.from_numpy(bots), restarted)
        self._opponent = torch.from_numpy(opponents).to(self.device)
        self._return.masked_fill_(restarted, 0.0)
        self._forget(restarted)
        self._playing = list(self._seated(opponents))
        self._group()
        self._write_obs()

    def _seated(self, opponents: np.ndarray) -> Iterator[tuple[Policy, Tensor]]:
        """Yield the named players with matches among these opponents [N], and their rows of the [2N] seats."""
        for index, player in enumerate(self._players, start=self._first_player):
            matches = np.flatnonzero(opponents == index)
            if len(matches):
                rows = 2 * matches + 1 - (self.share.first + matches) % 2
                yield player, torch.from_numpy(rows).to(self.device)

    def _group(self) -> None:
        """Index the snapshots' rows among the [2N] seats, one row of matches per slot, padded to equal lengths.

        Noise is drawn for the groups of all matches of the run, and this shard uses its rows.
        """
        first, last = self.share.first, self.share.first + self.num_envs
        groups = [np.flatnonzero(self.opponents == self.first_slot + slot) for slot in range(self.slots)]
        begins = [int(np.searchsorted(group, first)) for group in groups]
        local = [group[(group >= first) & (group < last)] for group in groups]
        longest = max((len(group) for group in groups), default=0)
        rows = max((len(group) for group in local), default=0) or min(longest, 1)  # other shards' noise is drawn too
        gather, column = np.zeros((2, self.slots, rows), dtype=np.int64)
        scatter = np.full((self.slots, rows), 2 * self.num_envs, dtype=np.int64)
        for slot, group in enumerate(local):
            gather[slot, : len(group)] = scatter[slot, : len(group)] = 2 * (group - first) + 1 - group % 2
            column[slot, : len(group)] = slot * longest + begins[slot] + np.arange(len(group))
        self._snapshot_obs = torch.zeros(self.slots, rows, self.obs.shape[-1], device=self.device)
        self._snapshot_side = torch.ones(self.slots, rows, device=self.device)
        self._snapshot_rows = torch.from_numpy(gather).to(self.device).flatten()
        self._bind_snapshots()
        self._scatter = torch.from_numpy(scatter).to(self.device)
        shape, index = (self.slots, longest), torch.from_numpy(column).to(self.device)
        self._noise = self._generator if self.share.whole else ShardedGenerator(self._generator, shape, index)
