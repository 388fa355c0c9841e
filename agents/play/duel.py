"""A batch of two-seat matches as one learner sees it: its own observations and rewards, the other seat taken care of.

The learner sits on seat i % 2 of match i. Every match has an opponent: 0..4 are the bots in `rules.BOTS` order, played
inside the simulator; from 5 on they are slots that hold frozen snapshots. The observations of all snapshot matches are
gathered into one [K, M, D] tensor, a row of M matches per slot, so that K different snapshots act in one batched
forward. Slots with fewer matches are padded: they observe row 0 of the batch and act into a spare row.

Results are added up on the device, one row per opponent, and read once an update.
Where several processes share a run's matches, a duel has some of them, and everything that is said to it about the
opponents concerns all: the same course comes of it, however many processes there are.
N is `num_envs`, D the observation size, A the action size, K the number of slots, O = 5 + K the opponents.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.generator_state import restore_generator
from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.distributed.shards import Shard, ShardedGenerator
from sparring.agents.policies.stacked import StackedActors
from sparring.envs.dogfight.batch import ACTION_SIZE, DogfightBatch
from sparring.envs.dogfight.mirror import Mirror
from sparring.envs.dogfight.rules import ACTIONS, BOTS

FIRST_SLOT = len(BOTS)
"""The opponent index of snapshot slot 0."""

# What a finished match adds to its opponent's (wins, draws, losses), by learner's seat and outcome -1, 0, 1, 2.
_RESULT = [
    [[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]],
    [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]],
]


@dataclass(frozen=True)
class MatchTally:
    """What the learner's finished matches came to, one entry per opponent: arrays [O] of counts and of sums."""

    wins: np.ndarray
    draws: np.ndarray
    losses: np.ndarray
    length: np.ndarray
    """Sum of match lengths, in ticks."""
    hp: np.ndarray
    """Sum of the learner's hp at the end."""
    returns: np.ndarray
    """Sum of undiscounted returns of the learner."""

    @property
    def games(self) -> np.ndarray:
        """Finished matches per opponent."""
        return self.wins + self.draws + self.losses

    def result(self, opponent: int) -> tuple[int, int, int]:
        """The learner's (wins, draws, losses) against one opponent."""
        return int(self.wins[opponent]), int(self.draws[opponent]), int(self.losses[opponent])


class Duel:
    """`batch` for one learner, against bots and up to `slots` snapshots of `network_shape`.

    `obs` and `final_obs` are overwritten by the next step. `opponents` says who is met where, in all matches of the run
    of which the batch plays a `share`, by default all; all begin against bot 0. `seed` begins the draws of snapshots'
    actions. `simulator_seconds` adds up the time spent in the simulator; on an accelerator it only covers the launches.
    `quarantined` counts matches that were not finite. With `mirror`, learner and snapshots see every match with their
    opponent on the right, and act in that view.
    """

    def __init__(
        self,
        batch: DogfightBatch,
        *,
        slots: int,
        network_shape: dict[str, Any],
        seed: int,
        mirror: bool = False,
        share: Shard | None = None,
    ) -> None:
        n, device = batch.num_envs, batch.device
        self.share = share or Shard(0, n, n)
        self.batch, self.num_envs, self.device = batch, n, device
        self.obs = torch.zeros(n, batch.obs_dim, device=device)
        self.final_obs = torch.zeros_like(self.obs)
        self._mirror = Mirror(batch.rules, batch.obs_dim, device) if mirror else None
        self._side = torch.ones(n, device=device)  # -1 where the learner sees its match in the mirror
        self.opponents = np.zeros(self.share.total, dtype=np.int32)
        self.simulator_seconds = 0.0
        self._actors = StackedActors(slots, network_shape, device)
        self._generator = torch.Generator(device).manual_seed(seed)
        match = torch.arange(n, device=device)
        seat = (self.share.first + match) % 2
        self._mine = 2 * match + seat  # the learner's rows among the [2N] seats of the batch
        self._flat_actions = torch.zeros(2 * n + 1, ACTION_SIZE, device=device)  # one more: what padding does
        self._actions = self._flat_actions[: 2 * n].view(n, 2, ACTION_SIZE)
        self._result = torch.tensor(_RESULT, dtype=torch.float64, device=device).view(8, 3)
        self._result_row = (seat * 4 + 1).int()
        self._sums = torch.zeros(FIRST_SLOT + slots, 6, dtype=torch.float64, device=device)
        self._return = torch.zeros(n, dtype=torch.float64, device=device)
        self.quarantined = torch.zeros((), dtype=torch.int64, device=device)
        self._seat_opponents(np.ones(self.share.total, dtype=bool))

    @property
    def contract(self) -> dict[str, Any]:
        """The batch's contract, and whether what is learned sees matches in the mirror."""
        return self.batch.contract | {"mirror": self._mirror is not None}

    @property
    def slots(self) -> int:
        """K, the number of different snapshots that can be met at once."""
        return self._actors.slots

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the learner's actions [N, A]; give its obs [N, D], reward [N], terminated [N], truncated [N]."""
        if self._mirror:
            actions = self._mirror.back(actions, self._side)
        self._flat_actions.index_copy_(0, self._mine, actions)
        if self._gather.shape[1] > 0:
            self._act_snapshots()
        start = time.perf_counter()
        self.batch.step(self._actions)
        self.simulator_seconds += time.perf_counter() - start
        self._observe()
        self._look(self.batch.final_obs, self.final_obs)
        reward = self.batch.reward.flatten().index_select(0, self._mine)
        reward = self._quarantine(reward)
        self._count(reward)
        return self.obs, reward, self.batch.terminated, self.batch.truncated

    def assign(self, opponents: np.ndarray) -> None:
        """Give every match of the run the opponent with that index. Matches that change it are restarted, uncounted.

        Raises `ValueError` for an index that is neither a bot nor a slot.
        """
        wanted = np.asarray(opponents, dtype=np.int32)
        if wanted.shape != self.opponents.shape or wanted.min() < 0 or wanted.max() >= len(self._sums):
            raise ValueError(
                f"opponents must be {len(self.opponents)} indices in 0..{len(self._sums) - 1}, a bot or a slot"
            )
        changed = wanted != self.opponents
        self.opponents = wanted
        if changed.any():
            self._seat_opponents(changed)

    def load_slot(self, slot: int, weights: dict[str, Tensor]) -> None:
        """Put a snapshot's weights into a slot and restart the slot's matches, uncounted.

        Raises `ValueError` for a slot outside 0..K-1 or weights of another shape.
        """
        self._actors.load(slot, weights)
        self._seat_opponents(self.opponents == FIRST_SLOT + slot)

    def harvest(self, processes: Processes = ALONE) -> MatchTally:
        """Results of the matches finished since the last call, over all `processes`; begins counting anew."""
        wins, draws, losses, length, hp, returns = processes.add_up(self._sums).cpu().numpy().T.copy()
        self._sums.zero_()
        return MatchTally(wins, draws, losses, length, hp, returns)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how play goes on, the batch included."""
        return {
            "batch": self.batch.state_dict(),
            "opponents": torch.from_numpy(self.opponents),
            "slots": self._actors.weights,
            "generator": self._generator.get_state(),
            "sums": self._sums,
            "return": self._return,
            "quarantined": self.quarantined,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of a duel of the same sizes."""
        self.opponents = state["opponents"].cpu().numpy()
        for name, weights in self._actors.weights.items():
            weights.copy_(state["slots"][name])
        restore_generator(self._generator, state["generator"])
        self._sums.copy_(state["sums"])
        self._seat_opponents(np.zeros(self.share.total, dtype=bool))
        self._return.copy_(state["return"])
        self.quarantined.copy_(state["quarantined"])
        self.batch.load_state_dict(state["batch"])
        self._observe()

    def _act_snapshots(self) -> None:
        """Let every snapshot act in its matches, all in one forward."""
        slots, rows = self._gather.shape
        obs = self.batch.obs.flatten(0, 1).index_select(0, self._gather.flatten()).view(slots, rows, -1)
        if self._mirror:
            obs, side = self._mirror.show(obs)
        actions = self._actors.act(obs, generator=self._noise)
        if self._mirror:
            actions = self._mirror.back(actions, side)
        self._flat_actions.index_copy_(0, self._scatter.flatten(), actions.flatten(0, 1))

    def _observe(self) -> None:
        side = self._look(self.batch.obs, self.obs)
        if side is not None:
            self._side = side

    def _look(self, seats: Tensor, out: Tensor) -> Tensor | None:
        """Write the learner's rows of seats [N, 2, D] to `out` [N, D]; returns the side [N] each is shown from."""
        torch.index_select(seats.flatten(0, 1), 0, self._mine, out=out)
        if self._mirror is None:
            return None
        shown, side = self._mirror.show(out)
        out.copy_(shown)
        return side

    def _quarantine(self, reward: Tensor) -> Tensor:
        """Begin matches anew that are not finite; their step ends the episode, is worth nothing and counts nowhere."""
        last = self.batch.truncated & ~self.final_obs.isfinite().all(dim=1)
        bad = ~(reward.isfinite() & self.obs.isfinite().all(dim=1)) | last
        if self.device.type == "cpu" and not bad.any():  # elsewhere the question would cost a wait
            return reward
        self.quarantined += bad.sum()
        self.batch.assign(None, bad)
        self.batch.outcome.masked_fill_(bad, -1)
        self.batch.terminated |= bad
        self.batch.truncated &= ~bad
        self._return.masked_fill_(bad, 0.0)
        self._observe()
        return reward.masked_fill(bad, 0.0)

    def _count(self, reward: Tensor) -> None:
        """Add the matches that ended to their opponents' sums."""
        batch = self.batch
        result = self._result.index_select(0, batch.outcome + self._result_row)
        self._return += reward
        hp = batch.final_hp.flatten().index_select(0, self._mine)
        ended = batch.outcome >= 0
        values = torch.stack([batch.length.double(), hp.double(), self._return], dim=1) * ended.unsqueeze(1)
        self._sums.index_add_(0, self._opponent, torch.cat([result, values], dim=1))
        self._return.masked_fill_(ended, 0.0)

    def _seat_opponents(self, restart: np.ndarray) -> None:
        """Tell the simulator who plays where, restart those of all matches that are in `restart`, and observe."""
        n, share = self.num_envs, self.share
        opponents = self.opponents[share.rows]
        bots = np.full((n, 2), ACTIONS, dtype=np.int32)
        bots[np.arange(n), 1 - (share.first + np.arange(n)) % 2] = np.where(opponents < FIRST_SLOT, opponents, ACTIONS)
        again = torch.from_numpy(restart[share.rows]).to(self.device)
        self.batch.assign(torch.from_numpy(bots), again)
        self._opponent = torch.from_numpy(opponents).to(self.device)
        self._return.masked_fill_(again, 0.0)
        self._group()
        self._observe()

    def _group(self) -> None:
        """Index the snapshots' rows among the [2N] seats, one row of matches per slot, padded to equal lengths.

        Noise is drawn for the groups of all matches of the run, and this duel's rows of it are taken.
        """
        first, last = self.share.first, self.share.first + self.num_envs
        groups = [np.flatnonzero(self.opponents == FIRST_SLOT + slot) for slot in range(self.slots)]
        begins = [int(np.searchsorted(group, first)) for group in groups]
        own = [group[(group >= first) & (group < last)] for group in groups]
        longest = max((len(group) for group in groups), default=0)
        rows = max((len(group) for group in own), default=0) or min(longest, 1)  # noise is drawn if anybody needs it
        gather, place = np.zeros((2, self.slots, rows), dtype=np.int64)
        scatter = np.full((self.slots, rows), 2 * self.num_envs, dtype=np.int64)
        for slot, group in enumerate(own):
            gather[slot, : len(group)] = scatter[slot, : len(group)] = 2 * (group - first) + 1 - group % 2
            place[slot, : len(group)] = slot * longest + begins[slot] + np.arange(len(group))
        self._gather = torch.from_numpy(gather).to(self.device)
        self._scatter = torch.from_numpy(scatter).to(self.device)
        index = torch.from_numpy(place).to(self.device)
        self._noise = (
            self._generator if self.share.whole else ShardedGenerator(self._generator, (self.slots, longest), index)
        )
