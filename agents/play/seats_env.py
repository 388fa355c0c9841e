"""The learner's seats in matches whose seats act in turn, together, or until they end: games of other packages.

A lane is one seat of one match. In a match against an opponent the learner has seat i % S of match i and the opponent
all others; in one against itself it has all seats, and all of them learn. Bots, named policies and snapshots in slots
are `SeatPlayer`s, which act on the rows of their own seats once a move. Memory of recurrent policies is one row per
lane, zeros from the move on which an episode begins. Results are counted for seat i % S, by opponent.

With several processes each has its share of the matches, and all draw random numbers alike: of every player as many as
its seats that decide in all of them.

N is `num_envs`, S the seats, L = N * S the lanes, D and A the columns of observations and actions, M those of the
learner's memory. Opponent indices are those of `LearnerEnv`: bots and named players, then slots; last is `itself`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, Shard, ShardedGenerator, restore_generator
from sparring.agents.play.learner_env import OpponentSeats, result_columns
from sparring.agents.play.seat_matches import SeatPlayer, seat_actions
from sparring.agents.policies.encoders import FLAT, picture_text
from sparring.agents.policies.networks import build_network
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.imported.batch import MatchBatch
from sparring.envs.launcher import Copyable

RESULTS = 3
"""Columns of sums before the statistics: wins, draws, losses."""


class SeatsEnv(OpponentSeats, Copyable):
    """Matches of `batch` between one learner and `players` by name, snapshots of `network_shape`, and itself.

    `memory_size` is that of the learner's network; `seed` seeds the actions of snapshots. `batch` has the matches of
    `share`, those of this one of the `processes`; `opponents` are those of all matches of the run.
    """

    quarantined: Tensor
    _references: ClassVar[tuple[str, ...]] = ("obs", "final_obs", "_by_match")

    def __init__(
        self,
        batch: MatchBatch,
        players: Mapping[str, SeatPlayer],
        *,
        seed: int,
        slots: int = 0,
        network_shape: Mapping[str, Any] | None = None,
        memory_size: int = 0,
        device: torch.device | str = "cpu",
        share: Shard | None = None,
        processes: Processes = ALONE,
    ) -> None:
        n, seats = batch.num_envs, batch.seats
        self.share, self.processes = share or Shard(0, n, n), processes
        if n % seats:
            each = "" if processes.alone else f" in each of {processes.size} processes"
            raise ConfigError(
                f"env.num_envs={self.share.total}: must be a multiple of {seats * processes.size}, so that it plays "
                f"every seat alike{each}"
            )
        self.batch, self.num_envs, self.seats, self.lanes = batch, n, seats, n * seats
        self.device = torch.device(device)
        self.bots, self.slots = tuple(players), slots
        self.itself = len(self.bots) + slots
        self.contract = dict(batch.contract)
        self.players = dict(players)
        generators = {name: getattr(player, "generator", None) for name, player in players.items()}
        self._generators = {name: generator for name, generator in generators.items() if generator is not None}
        self._generator = torch.Generator(self.device).manual_seed(seed)
        snapshots = [build_network(dict(network_shape or {})).to(self.device).eval() for _ in range(slots)]
        self._snapshots = [SlotPlayer(network, self._generator) for network in snapshots]
        self._all: list[SeatPlayer] = [*players.values(), *self._snapshots]
        self.opponents = np.zeros(self.share.total, dtype=np.int32)
        self.simulator_seconds = self.player_seconds = 0.0
        self.remarks: list[str] = [*batch.remarks]
        self._encoder = (network_shape or {}).get("encoder", FLAT)
        self.quarantined = torch.zeros((), dtype=torch.int64)
        self._actions = torch.zeros(self.lanes, batch.action_size)
        self._bind()
        widest = max((player.memory_size for player in self._all), default=0)
        self.memory = torch.zeros(self.lanes, memory_size)
        self._player_memory = torch.zeros(self.lanes, widest)
        self.fresh = torch.ones(self.lanes, dtype=torch.bool)
        self._seat = np.arange(n) % seats
        self._bit = 1 << self._seat
        self._return = torch.zeros(n, dtype=torch.float64)
        self._sums = torch.zeros(self.itself + 1, RESULTS + len(batch.stat_names) + 1, dtype=torch.float64)
        self._seat_opponents(np.ones(self.share.total, dtype=bool))

    def _bind(self) -> None:
        """Make the views of the batch's tensors and of the actions."""
        self.obs, self.final_obs = self.batch.obs.flatten(0, 1), self.batch.final_obs.flatten(0, 1)
        self._by_match = self._actions.view(self.num_envs, self.seats, -1)

    @property
    def unsaved(self) -> str:
        """The part of the matches that states lack, as a phrase; empty if states are complete."""
        return self.batch.unsaved

    @property
    def notes(self) -> list[str]:
        """Lines to say at the start: seats and roles, what is observed and done, and `remarks`."""
        c, s = self.contract, self.seats
        roles = len(set(c["roles"]))
        observed = picture_text(c["picture"], self._encoder) if c["picture"] else f"rows of {c['obs_dim']}"
        kinds = {"numbers": c["continuous"], "switches": c["binary"], "alternatives": c["categorical"]}
        acts = " and ".join(f"{size} {kind}" for kind, size in kinds.items() if size)
        masked = ", of which a mask allows some" if c["masked"] else ""
        shared = "one policy" if roles == 1 else f"a policy for each of {roles} roles"
        return [f"{c['id']}: {s} seats, {shared}; observes {observed}, acts by {acts}{masked}", *self.remarks]

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the learner's actions [R, A] for `rows`, play one move of every match, and find the next `rows`.

        Returns for all lanes `obs` [L, D], rewards of the move [L], terminated [L] and truncated [L].
        """
        self._actions.index_copy_(0, self.rows, actions.float())
        self._act_players()
        start = time.perf_counter()
        batch = self.batch
        batch.step(self._by_match)
        self.simulator_seconds += time.perf_counter() - start
        self._count()
        self._find_rows()
        return self.obs, batch.reward.flatten(), batch.terminated.flatten(), batch.truncated.flatten()

    def rehearse(self) -> None:
        """Assign all bots and the learner itself in equal parts, for a trial of speed."""
        choices = [*range(len(self.bots)), self.itself]
        self.assign(np.asarray(choices)[np.arange(self.share.total) // self.seats % len(choices)])

    def load_slot(self, slot: int, weights: Mapping[str, Tensor]) -> None:
        """Load a snapshot's weights into a slot and restart the slot's matches without results."""
        self._snapshots[slot].network.load_state_dict(dict(weights))
        self._seat_opponents(self.opponents == len(self.bots) + slot)

    def noise(self, generator: torch.Generator, player: int | None = None) -> torch.Generator | ShardedGenerator:
        """Return what draws for the rows of a player, the learner by default: of those of all processes, its own."""
        if self.processes.alone:
            return generator
        index = self.itself if player is None else player
        before, total = int(self._before[index]), int(self._everywhere[index])
        count = len(self.rows) if player is None else len(self._players_turn[player])
        return ShardedGenerator(generator, (total,), torch.arange(before, before + count, device=generator.device))

    def state_dict(self) -> dict[str, Any]:
        """Return the full state of play, including the matches of all processes."""
        batch, lanes = self.batch.state_dict(), self._lane_tensors()
        if not self.processes.alone:
            batch, lanes = _joined(self.processes.gather_items([(batch, lanes)]))
        return {
            "batch": batch,
            "opponents": torch.from_numpy(self.opponents),
            "slots": [dict(player.network.state_dict()) for player in self._snapshots],
            "generator": self._generator.get_state(),
            "players": {name: generator.get_state() for name, generator in self._generators.items()},
            "sums": self._sums,
            "lanes": lanes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state_dict` of an environment of the same sizes; raises `ContentError` for another."""
        check_tensor(state["opponents"], torch.from_numpy(self.opponents), "opponents")
        check_tensor(state["sums"], self._sums, "sums")
        batch, lanes = state["batch"], state["lanes"]
        if not self.processes.alone:
            batch, lanes = _own(batch, lanes, self.share)
        lanes = check_tensors(lanes, self._lane_tensors(), "lanes")
        for player, weights in zip(self._snapshots, state["slots"], strict=True):
            player.network.load_state_dict(check_tensors(weights, dict(player.network.state_dict()), "slots"))
        restore_generator(self._generator, state["generator"], "generator")
        for name, generator in self._generators.items():
            restore_generator(generator, state["players"][name], f"players.{name}")
        self.opponents = state["opponents"].cpu().numpy()
        self._seat_opponents(np.zeros(self.share.total, dtype=bool))
        self.batch.load_state_dict(batch)
        self._sums.copy_(state["sums"])
        for name, tensor in self._lane_tensors().items():
            tensor.copy_(lanes[name])
        self._find_rows()

    def _lane_tensors(self) -> dict[str, Tensor]:
        memories = {"memory": self.memory, "player_memory": self._player_memory}
        return {**memories, "fresh": self.fresh, "return": self._return}

    @torch.no_grad()
    def _act_players(self) -> None:
        """Compute the actions of all seats that are not the learner's, player by player."""
        start = time.perf_counter()
        for index, rows in self._players_turn.items():
            player = self._all[index]
            memory = self._player_memory[rows, : player.memory_size]
            actions, after = self._acted(index, player, rows, memory)
            self._player_memory[rows, : player.memory_size] = after
            self._actions.index_copy_(0, rows, actions.float())
        self.player_seconds += time.perf_counter() - start

    def _acted(self, index: int, player: Any, rows: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actions of a player and its memory; with several processes, `rows` may be empty."""
        generator = getattr(player, "generator", None)
        if self.processes.alone or generator is None:
            return seat_actions(player, self.batch, rows, memory) if len(rows) else (self._actions[:0], memory)
        player.noise = self.noise(generator, index)
        try:
            return seat_actions(player, self.batch, rows, memory)
        finally:
            player.noise = generator

    def _count(self) -> None:
        """Add finished matches to their opponents' sums, and begin the next ones with empty memories.

        In NumPy, on the tensors' own memory: on so few numbers an operation of torch costs several times as much.
        """
        batch, running = self.batch, self._return.numpy()
        running += batch.reward.numpy()[np.arange(self.num_envs), self._seat]
        self.fresh.numpy()[self.rows.numpy()] = False
        outcomes = batch.outcome.numpy()
        match = np.flatnonzero(outcomes >= 0)
        if not len(match):
            return
        result = result_columns(*(torch.from_numpy(array[match]) for array in (outcomes, self._bit)))
        stats = [getattr(batch, name).numpy()[match] for name in batch.stat_names]
        values = np.column_stack([result.numpy(), *stats, running[match]])
        np.add.at(self._sums.numpy(), self.opponents[self.share.rows][match], values)
        self._begin(match)

    def _begin(self, match: np.ndarray) -> None:
        """Empty what belongs to the episodes of matches [R] that begin."""
        lanes = (match[:, None] * self.seats + np.arange(self.seats)).ravel()
        self.fresh.numpy()[lanes] = True
        for memory in (self.memory, self._player_memory):
            if memory.shape[1]:
                memory.numpy()[lanes] = 0.0
        self._return.numpy()[match] = 0.0

    def _seat_opponents(self, restart: np.ndarray) -> None:
        """Give every lane its player, restart the run's matches in `restart`, and find who decides."""
        restart = restart[self.share.rows]
        owner = np.repeat(self.opponents[self.share.rows, None], self.seats, axis=1)
        owner[np.arange(self.num_envs), self._seat] = self.itself
        self._owner = owner.ravel()
        if restart.any():
            mask = torch.from_numpy(restart)
            self.batch.restart(mask)
            self._begin(np.flatnonzero(restart))
        self._find_rows()

    def _find_rows(self) -> None:
        """Find the lanes that decide next: the learner's, in `rows` int64 [R], and each player's."""
        deciding = np.flatnonzero(self.batch.deciding.numpy().ravel())
        owner = self._owner[deciding]
        mask = owner == self.itself
        self.rows = torch.from_numpy(deciding[mask])
        if self.processes.alone:
            opponents = () if mask.all() else np.unique(owner[~mask])
        else:
            counts = np.bincount(owner, minlength=self.itself + 1)
            self._before, self._everywhere = self.processes.counted_before(counts)
            opponents = np.flatnonzero(self._everywhere[:-1])
        self._players_turn = {int(index): torch.from_numpy(deciding[owner == index]) for index in opponents}


Stored = tuple[dict[str, Any], dict[str, Tensor]]
"""Matches and lanes in a state."""
BY_MATCH = ("episodes", "moves", "actions")


def _joined(parts: list[Stored]) -> Stored:
    """Return the matches and lanes of all processes as one, from those of each."""
    (first, _), *_ = parts
    batch = first | {name: torch.cat([part[name] for part, _ in parts]) for name in BY_MATCH}
    batch["digests"] = [digest for part, _ in parts for digest in part["digests"]]
    return batch, {name: torch.cat([lanes[name] for _, lanes in parts]) for name in parts[0][1]}


def _own(batch: Mapping[str, Any], lanes: Mapping[str, Tensor], share: Shard) -> Stored:
    """Return the part of joint matches and lanes that belongs to a share."""
    ends = [0, *batch["moves"].cumsum(0).tolist()]
    moves = slice(ends[share.first], ends[share.first + share.count])
    games = {name: batch[name][share.rows] for name in ("episodes", "moves", "digests")}
    widths = {name: len(tensor) // share.total for name, tensor in lanes.items()}
    rows = {name: slice(share.first * width, (share.first + share.count) * width) for name, width in widths.items()}
    local = {**batch, **games, "actions": batch["actions"][moves], "first": batch["first"] + share.first}
    return local, {name: tensor[rows[name]] for name, tensor in lanes.items()}


class SlotPlayer:
    """A frozen network in a slot, which samples its actions."""

    name = "snapshot"

    def __init__(self, network: Any, generator: torch.Generator) -> None:
        self.network, self.generator = network, generator
        self.noise: torch.Generator | ShardedGenerator = generator
        self.memory_size: int = network.memory_size

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """See `SeatPlayer`."""
        device = self.generator.device
        actions, _, after = self.network.step(obs.to(device), memory.to(device), generator=self.noise, critic=False)
        return actions.cpu(), after.cpu()

    def reseed(self, seed: int) -> None:
        """Do nothing: the environment keeps the generator of all slots."""
