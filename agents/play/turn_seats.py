"""Opponents' seats where `batch.deciding` [N, S] says who decides next: seats that act in turn, or until they end.

Bots, named policies and snapshots in slots are `SeatPlayer`s, which act on the rows of their own seats once a move. In
a match against an opponent, the learner has seat i % S of match i and the opponent all others. In a match against
itself, it has all seats. With several processes, all draw the same random numbers: for each player, one for every
deciding seat of all processes. N is the number of matches, S of seats. The batch's tensors are on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import Processes, Shard, ShardedGenerator, restore_generator
from sparring.agents.play.seat_matches import NetworkSeats, SeatPlayer, seat_actions
from sparring.agents.policies.networks import build_network
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.tensor_file import check_tensors

if TYPE_CHECKING:
    from sparring.envs.imported.batch import MatchBatch


class TurnSeats:
    """Seats of `batch` that are not the learner's, for opponents of these numbers: `players`, then slots, then itself.

    `memory` [N S, M] has a row for each seat. `seed` seeds the actions of snapshots, networks on `device`. The learner
    has the seat `learner` of all matches, or seat i % S of match i.
    """

    def __init__(
        self,
        batch: MatchBatch,
        players: Mapping[str, SeatPlayer],
        *,
        slots: int,
        network_shape: Mapping[str, Any] | None,
        seed: int,
        share: Shard,
        device: torch.device,
        processes: Processes,
        learner: int | None = None,
    ) -> None:
        n, seats = batch.deciding.shape
        if n % seats:
            each = "" if processes.alone else f" in each of {processes.size} processes"
            raise ConfigError(
                f"env.num_envs={share.total}: must be a multiple of {seats * processes.size}, to play "
                f"every seat equally often{each}"
            )
        self._batch, self._share, self._processes, self._learner = batch, share, processes, learner
        generators = {name: getattr(player, "generator", None) for name, player in players.items()}
        self._generators = {name: generator for name, generator in generators.items() if generator is not None}
        self._generator = torch.Generator(device).manual_seed(seed)
        networks = [build_network(dict(network_shape or {})).to(device).eval() for _ in range(slots)]
        how: dict[str, Any] = {"name": "snapshot", "deterministic": False, "generator": self._generator}
        self.snapshots = [NetworkSeats(network, batch.contract, **how) for network in networks]
        self._players: list[SeatPlayer] = [*players.values(), *self.snapshots]
        self._itself = len(self._players)
        self.memory = torch.zeros(n * seats, max((player.memory_size for player in self._players), default=0))
        self.rows = torch.zeros(0, dtype=torch.int64)
        """The learner's seats that decide next, int64 [R]."""

    def seat(self, opponents: np.ndarray, restart: Tensor) -> None:
        """Give every seat its player, by the `opponents` of the run's matches; restart the matches in `restart` [N]."""
        n, seats = self._batch.deciding.shape
        owner = np.repeat(opponents[self._share.rows, None], seats, axis=1)
        owner[np.arange(n), np.arange(n) % seats if self._learner is None else self._learner] = self._itself
        self._owner = owner.ravel()
        if restart.any():
            self._batch.restart(restart)

    def find_rows(self) -> Tensor:
        """Find the seats that decide next: return the learner's, int64 [R], and keep each player's."""
        deciding = np.flatnonzero(self._batch.deciding.numpy().ravel())
        owner = self._owner[deciding]
        mask = owner == self._itself
        self.rows = torch.from_numpy(deciding[mask])
        if self._processes.alone:
            opponents = () if mask.all() else np.unique(owner[~mask])
        else:
            counts = np.bincount(owner, minlength=self._itself + 1)
            self._before, self._everywhere = self._processes.counted_before(counts)
            opponents = np.flatnonzero(self._everywhere[:-1])
        self._turns = {int(index): torch.from_numpy(deciding[owner == index]) for index in opponents}
        return self.rows

    @torch.no_grad()
    def act(self, actions: Tensor) -> None:
        """Write the actions of all players whose seats decide to `actions` [N S + 1, A]."""
        for index, rows in self._turns.items():
            player: Any = self._players[index]
            generator = None if self._processes.alone else getattr(player, "generator", None)
            if not len(rows) and generator is None:
                continue
            if generator is not None:  # also without rows: all processes draw alike
                player.noise = self.noise(generator, index)
            try:
                memory = self.memory[rows, : player.memory_size]
                chosen, self.memory[rows, : player.memory_size] = seat_actions(player, self._batch, rows, memory)
            finally:
                if generator is not None:
                    player.noise = generator
            actions.index_copy_(0, rows, chosen.float())

    def noise(self, generator: torch.Generator, player: int | None = None) -> torch.Generator | ShardedGenerator:
        """Return what draws for the rows of a player, the learner by default: of those of all processes, its own."""
        if self._processes.alone:
            return generator
        index = self._itself if player is None else player
        before, total = int(self._before[index]), int(self._everywhere[index])
        count = len(self.rows if player is None else self._turns[player])
        return ShardedGenerator(generator, (total,), torch.arange(before, before + count, device=generator.device))

    def load_slot(self, slot: int, weights: Mapping[str, Tensor]) -> None:
        """Load a snapshot's weights into a slot."""
        self.snapshots[slot].network.load_state_dict(dict(weights))

    def forget(self, begin: Tensor) -> None:
        """Empty the memories of the matches that begin, bool [N]."""
        self.memory.unflatten(0, self._batch.deciding.shape).masked_fill_(begin.view(-1, 1, 1), 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the snapshots, and the states of their draws and of those of the players."""
        return {
            "slots": [dict(player.network.state_dict()) for player in self.snapshots],
            "generator": self._generator.get_state(),
            "players": {name: generator.get_state() for name, generator in self._generators.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of other snapshots."""
        for player, weights in zip(self.snapshots, state["slots"], strict=True):
            player.network.load_state_dict(check_tensors(weights, dict(player.network.state_dict()), "slots"))
        restore_generator(self._generator, state["generator"], "generator")
        for name, generator in self._generators.items():
            restore_generator(generator, state["players"][name], f"players.{name}")
