"""The environment of one learner in a batch of matches; bots, policies and snapshots play the other seats.

N matches have S seats each. The learner has seat i % S of match i. Opponents are numbered: first the bots, then named
players, then slots that hold frozen snapshots. A step asks the learner for one row per lane that decides:

- Where all seats decide in every step, a lane is a match, and the observations come from the learner's seats.
- Where `batch.deciding` [N, S] says who decides next, a lane is a seat of a match, L = N * S of them. The last opponent
  is then `itself`: in its matches the learner has all seats, and all of them learn.

The other seats are played by `StackedSeats` where all decide, else by what `seating` makes, such as
`turn_seats.TurnSeats`. Results are counted for seat i % S, one row per opponent. They are summed on the device and read
once per update. With several processes, an environment steps its shard of the run's matches. Opponents are always given
for all matches of the run, so the course of a match does not depend on the number of processes.

Recurrent policies have a memory for every lane, the learner's and its opponents' separately. Both are reset to zeros by
the step in which a match ends or restarts. The rollout carries the learner's. D is the observation size, A the action
size, O the number of opponents.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, Shard, ShardedGenerator
from sparring.agents.play.stacked_seats import StackedSeats, observation_reader
from sparring.agents.policies.memory import NONE, state_size
from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.batched import SeatView
from sparring.envs.launcher import Copyable


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
    by_style: np.ndarray = field(default_factory=lambda: np.zeros((1, 0, 3)))
    """Wins, draws and losses of every style of the learner, [styles or 1, O, 3]."""

    @property
    def games(self) -> np.ndarray:
        """Number of finished matches per opponent."""
        return self.wins + self.draws + self.losses


class StepReward(Protocol):
    """Rewards of the learner in place of the batch's."""

    def begin(self) -> None:
        """Keep what a step will change."""

    def end(self, builtin: Tensor) -> Tensor:
        """Return the rewards float32 [N] of the step; `builtin` [N] are the batch's."""


class LearnerEnv(Copyable):
    """Environment of one learner in `batch`, against `bots`, `players` and up to `slots` snapshots of `network_shape`.

    `players` are further opponents by name, numbered after the `bots`: each a `Policy` where all seats decide, else
    what `seating` takes. There the learner may have one `seat` in all matches.

    `obs` and `final_obs` are overwritten by the next step. `opponents` [total] is the opponent in each match of the
    run, initially number 0; the batch plays a `share` of these matches, by default all. `seed` seeds the draws of
    snapshots' actions. `device` is the snapshots' device, by default the batch's. `simulator_seconds` sums the time
    spent in the batch's steps; on an accelerator it only covers the launches. `quarantined` counts matches with values
    that are not finite. With a `view`, learner and snapshots play in the symmetric match. With K `styles`, the
    learner's observations end with K columns, 1 for the style of the match; `network_shape` describes a snapshot
    without them. `contract` defaults to the batch's. With `limit_ends`, a match that reaches its time limit has
    terminated for the learner, since its reward already has the result. Bootstrapping would count it twice. A copy,
    deep or pickled, continues like the original.
    """

    _references: ClassVar[tuple[str, ...]] = ("_actions", "_write_obs", "_write_final_obs")

    def __init__(
        self,
        batch: Any,
        *,
        bots: Sequence[str] = (),
        seed: int,
        players: Mapping[str, Any] | None = None,
        slots: int = 0,
        network_shape: dict[str, Any] | None = None,
        view: SeatView | None = None,
        share: Shard | None = None,
        contract: Mapping[str, Any] | None = None,
        limit_ends: bool = False,
        styles: int = 0,
        processes: Processes = ALONE,
        device: torch.device | None = None,
        seating: Callable[..., Any] | None = None,
        seat: int | None = None,
    ) -> None:
        n, self.device = batch.num_envs, batch.device
        self.batch, self.num_envs, self.seats = batch, n, batch.obs.shape[1]
        self.share = share = share or Shard(0, n, n)
        self.bots, self.slots = (*bots, *(players or {})), slots
        self.contract = dict(contract or batch.contract)
        self.notes: list[str] = []
        """Lines to say at the start."""
        self._view, self._limit_ends = view, limit_ends
        self.own_reward: StepReward | None = None
        """Reward of the learner's seats; by default the batch's."""
        self.simulator_seconds = 0.0
        self.opponents = np.zeros(share.total, dtype=np.int32)
        self.style_count, self.styles = styles, np.zeros(share.total, dtype=np.int32)
        """Style of the learner in each match of the run."""
        snapshots: dict[str, Any] = {"slots": slots, "network_shape": network_shape, "seed": seed, "share": share}
        self.opponent_seats: Any
        """Who acts in the other seats."""
        if seating is not None:
            where = device or batch.device
            snapshots |= {"learner": seat, "device": where, "processes": processes}
            self.opponent_seats = seating(batch, players or {}, **snapshots)
        else:
            self.opponent_seats = StackedSeats(batch, len(bots), players or {}, view=view, **snapshots)
        self.rows: Tensor | None = self.opponent_seats.rows
        """Lanes that decide next, int64 [R]; None if all decide in every step."""
        gaps = self.rows is not None
        self.itself = len(self.bots) + slots
        """Number of the opponent that is the learner itself, where seats take turns."""
        self.lanes = n * self.seats if gaps else n
        shape = network_shape or {}
        columns = 2 * state_size(shape.get("memory", NONE), shape.get("hidden", 0))  # of actor and critic; 0 without
        self.memory = torch.zeros(self.lanes, columns, device=self.device)
        self.fresh = torch.ones(self.lanes, dtype=torch.bool, device=self.device)
        self._remembers = gaps or bool(self.memory.shape[1] + self.opponent_seats.memory.shape[1])
        self._match = torch.arange(n, device=self.device)
        own_seat = (share.first + self._match) % self.seats if seat is None else torch.full_like(self._match, seat)
        self.seat_rows = self.seats * self._match + own_seat
        """The learner's seat of every match among the [N * S] of the batch, int64 [N]."""
        self._bit = torch.ones_like(own_seat) << own_seat
        self._side = torch.ones(n, device=self.device)  # of the learner's observation through `view`
        self._flat_actions = torch.zeros(self.seats * n + 1, batch.action_size, device=self.device)  # a spare row
        if not gaps:
            self.obs, self.final_obs = torch.zeros(2, n, batch.obs.shape[-1] + styles, device=self.device)
        self._bind()
        columns = 4 + len(batch.stat_names)  # wins, draws, losses, statistics, returns
        self._all = self.itself + gaps  # O
        self._sums = torch.zeros(self._all * max(styles, 1), columns, dtype=torch.float64, device=self.device)
        self._return = torch.zeros(n, dtype=torch.float64, device=self.device)
        self.quarantined = torch.zeros((), dtype=torch.int64, device=self.device)
        self._seat_opponents(np.ones(share.total, dtype=bool))

    @property
    def longest_episode(self) -> int:
        """Maximum number of steps of a match."""
        steps: int = self.batch.longest_episode
        return steps

    @property
    def unsaved(self) -> str:
        """The part of the matches that states lack, as a phrase; empty if states are complete."""
        return str(getattr(self.batch, "unsaved", ""))

    def close(self) -> None:
        """End the threads or processes that step the batch."""
        self.batch.close()

    def assign(self, opponents: np.ndarray, styles: np.ndarray | None = None) -> None:
        """Set opponent and style of every match of the run. Matches in which one changes restart without a result.

        Raises `ValueError` for a number that is not an opponent's.
        """
        assigned = np.asarray(opponents, dtype=np.int32)
        if assigned.shape != self.opponents.shape or assigned.min() < 0 or assigned.max() >= self._all:
            raise ValueError(f"opponents must be {len(self.opponents)} indices in 0..{self._all - 1}")
        changed = assigned != self.opponents
        self.opponents = assigned
        if styles is not None:
            changed |= styles != self.styles
            self.styles = np.asarray(styles, dtype=np.int32)
        if changed.any():
            self._seat_opponents(changed)

    def rehearse(self) -> None:
        """Assign all opponents but the slots in equal parts, for a trial of speed."""
        choices = [*range(len(self.bots)), *range(self.itself, self._all)]
        together = 1 if self.rows is None else self.seats
        self.assign(np.asarray(choices)[np.arange(self.share.total) // together % len(choices)])

    def adopt(self, contract: Mapping[str, Any]) -> None:
        """Do nothing: observations are shown without statistics."""

    def load_slot(self, slot: int, weights: Mapping[str, Tensor], *, restart: bool = True) -> None:
        """Load a snapshot's weights into a slot and restart the slot's matches without results.

        Without `restart` they continue, for a player that has only learned a little in the meantime.

        Raises `ValueError` for a slot outside 0..K-1 or weights of another shape.
        """
        if not 0 <= slot < self.slots:
            expected = f"must be in 0..{self.slots - 1}" if self.slots else "there are no slots"
            raise ValueError(f"slot={slot}: {expected}")
        self.opponent_seats.load_slot(slot, weights)
        if restart:
            self._seat_opponents(self.opponents == len(self.bots) + slot)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the learner's actions [R, A] and play one step of every match.

        Returns of all lanes the observations [L, D], rewards [L], and which terminated [L] and were truncated [L].
        """
        batch = self.batch
        if self._view:
            actions = self._view.back(actions, self._side)
        self._flat_actions.index_copy_(0, self.seat_rows if self.rows is None else self.rows, actions.float())
        self.opponent_seats.act(self._flat_actions)
        if self.own_reward:
            self.own_reward.begin()
        start = time.perf_counter()
        batch.step(self._actions)
        self.simulator_seconds += time.perf_counter() - start
        rewards = batch.reward.flatten()
        reward = rewards.index_select(0, self.seat_rows)
        if self.rows is not None:
            self._count(reward)
            self.fresh[self.rows] = False
            self._forget(batch.outcome >= 0)
            self.rows = self.opponent_seats.find_rows()
            return self.obs, rewards, batch.terminated.flatten(), batch.truncated.flatten()
        self._write_obs()
        # On a CPU only if one was cut off; elsewhere the test would synchronize.
        if self.device.type != "cpu" or batch.truncated.any():
            self._write_final_obs()
        if self.own_reward:
            reward = self.own_reward.end(reward)
        reward = self._quarantine(reward)
        self._count(reward)
        if self._remembers:
            self.fresh.fill_(False)
            self._forget(batch.terminated | batch.truncated)
        if self._limit_ends:
            ended = batch.terminated | batch.truncated
            return self.obs, reward, ended, torch.zeros_like(ended)
        return self.obs, reward, batch.terminated, batch.truncated

    def noise(self, generator: torch.Generator) -> torch.Generator | ShardedGenerator:
        """Return a generator that draws for the rows of all processes and returns the draws of `rows`."""
        drawn: torch.Generator | ShardedGenerator = self.opponent_seats.noise(generator)
        return drawn

    def harvest(self, processes: Processes = ALONE) -> MatchTally:
        """Return the results of matches finished since the last call, over all `processes`, and reset the sums."""
        sums = processes.add_up(self._sums).cpu().numpy().reshape(-1, self._all, self._sums.shape[1]).copy()
        self._sums.zero_()
        wins, draws, losses, *stats, returns = sums.sum(0).T.copy()
        statistics = dict(zip(self.batch.stat_names, stats, strict=True))
        return MatchTally(wins, draws, losses, statistics, returns, sums[..., :3])

    def state_dict(self) -> dict[str, Any]:
        """Return the full state of play of this process's matches, including the batch."""
        tensors, groups = self._carried()
        return {
            "batch": self.batch.state_dict(),
            "opponents": torch.from_numpy(self.opponents),
            **({"styles": torch.from_numpy(self.styles)} if self.style_count else {}),
            **self.opponent_seats.state_dict(),
            **tensors,
            **{name: group for name, group in groups.items() if group},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state_dict` of an environment of the same sizes; raises `ContentError` for another."""
        check_tensor(state["opponents"], torch.from_numpy(self.opponents), "opponents")
        tensors, groups = self._carried()
        stored = {name: check_tensor(state[name], tensor, name) for name, tensor in tensors.items()}
        for name, group in groups.items():
            stored |= check_tensors(state.get(name, {}), group, name)
        self.opponent_seats.load_state_dict(state)
        self.opponents = state["opponents"].cpu().numpy()
        if self.style_count:
            self.styles = check_tensor(state["styles"], torch.from_numpy(self.styles), "styles").cpu().numpy()
        self._seat_opponents(np.zeros(self.share.total, dtype=bool))
        self.batch.load_state_dict(state["batch"])
        for group in (tensors, *groups.values()):
            for name, tensor in group.items():
                tensor.copy_(stored[name])
        self._look()

    def _carried(self) -> tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]:
        """Return what is carried from step to step by its key in a state, and what is grouped there."""
        memory, fresh = self.opponent_seats.memory, self.fresh
        if self.rows is not None:
            lanes = {"memory": self.memory, "player_memory": memory, "fresh": fresh, "return": self._return}
            return {"sums": self._sums}, {"lanes": lanes}
        memories = {"learner": self.memory, "opponents": memory, "fresh": fresh} if self._remembers else {}
        tensors = {"sums": self._sums, "return": self._return, "quarantined": self.quarantined}
        return tensors, {"memories": memories}

    def _bind(self) -> None:
        """Make the view of the actions, and what shows the observations of the learner."""
        batch, rows = self.batch, self.seat_rows
        self._actions = self._flat_actions[:-1].view(self.num_envs, self.seats, -1)
        if self.rows is not None:  # the batch's own, those of all seats
            self.obs, self.final_obs = batch.obs.flatten(0, 1), batch.final_obs.flatten(0, 1)
            return
        obs, final_obs = (rows_of[:, : batch.obs.shape[-1]] for rows_of in (self.obs, self.final_obs))
        self._write_obs = observation_reader(batch, self._view, rows, obs, self._side)
        if self._view is None:
            self._write_final_obs = batch.final_reader(rows, final_obs)
            return
        raw = torch.zeros_like(obs).contiguous()
        write = batch.final_reader(rows, raw)
        show = self._view.reader(raw, self._match, final_obs, torch.ones_like(self._side))
        self._write_final_obs = lambda: (write(), show())

    def _look(self) -> None:
        """Observe, and find the lanes that decide next."""
        if self.rows is None:
            self._write_obs()
        else:
            self.rows = self.opponent_seats.find_rows()

    def _forget(self, begin: Tensor) -> None:
        """Empty the memories of the matches that begin, bool [N]."""
        self.opponent_seats.forget(begin)
        lanes = begin.repeat_interleave(self.lanes // self.num_envs)
        self.memory.masked_fill_(lanes.unsqueeze(1), 0.0)
        self.fresh |= lanes

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
        """Add finished matches to their opponents' sums; `reward` [N] is the reward of the learner's seats."""
        self._return += reward
        ended = self.batch.outcome >= 0
        # On a CPU the few matches that ended; elsewhere reading which they are would synchronize.
        match = ended.nonzero().squeeze(1) if self.device.type == "cpu" else self._match
        if not len(match):
            return
        result = result_columns(self.batch.outcome[match], self._bit[match])
        stats, returns = self.batch.seat_stats(self.seat_rows[match]), self._return[match].unsqueeze(1)
        values = torch.cat([result, stats, returns], dim=1) * ended[match].unsqueeze(1)
        self._sums.index_add_(0, self._opponent[match], values)
        self._return.masked_fill_(ended, 0.0)

    def _seat_opponents(self, restart: np.ndarray) -> None:
        """Set the players of the batch's seats, restart the run's matches in `restart`, and observe."""
        opponents = self.opponents[self.share.rows]
        restarted = torch.from_numpy(restart[self.share.rows]).to(self.device)
        self.opponent_seats.seat(self.opponents, restarted)
        self._opponent = torch.from_numpy(opponents).to(self.device)
        if self.style_count:
            styles = torch.from_numpy(self.styles[self.share.rows]).to(self.device)
            self._opponent = self._opponent + self._all * styles
            for rows in (self.obs, self.final_obs):
                rows[:, -self.style_count :] = F.one_hot(styles.long(), self.style_count)
        self._return.masked_fill_(restarted, 0.0)
        self._forget(restarted)
        self._look()


def result_columns(outcome: Tensor, bit: Tensor) -> Tensor:
    """Return wins, draws and losses, float64 [R, 3], from results [R] and the learner's bit in them [R]."""
    won = outcome == bit
    lost = ~won & (outcome & bit == 0) & (outcome != 0)
    return torch.stack([won, ~won & ~lost, lost], dim=1).double()
