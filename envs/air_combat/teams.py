"""Team matches as duels, one per aircraft of a side: one policy learns to fly all of its side.

A batch of M matches with T aircraft a side becomes N = M T lanes of two seats. Lanes come in sets of 2 T that stand for
two matches. In lane j of a set, seats 0 and 1 are aircraft j // 2 of sides 0 and 1, in match j % 2 of the set. A
learner that has seat i % 2 of lane i thus has all aircraft of a side, each side in one match of a set. Results are per
side; the lane of a lost aircraft continues with zeros to the end of the match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sparring.configs.core.errors import ConfigError
from sparring.envs.air_combat.batch import AirCombatBatch


class AirTeams:
    """Lanes of the matches in `batch`; a `BatchedGame` of N lanes and two seats.

    Raises `ConfigError` for an odd number of matches.
    """

    seats = 2

    def __init__(self, batch: AirCombatBatch) -> None:
        size = batch.options.team_size
        if batch.num_envs % 2:
            raise ConfigError(
                f"{batch.num_envs} matches of teams: must be an even number, to fly both sides equally often"
            )
        self.matches, self.num_envs, self.device = batch, batch.num_envs * size, batch.device
        self.action_size, self.stat_names, self.bot_id = batch.action_size, batch.stat_names, batch.bot_id
        lane = torch.arange(self.num_envs, device=self.device)
        self._match = lane // (2 * size) * 2 + lane % 2
        aircraft = lane % (2 * size) // 2
        seat = torch.stack([aircraft, aircraft + size], dim=1)
        self._rows = (2 * size * self._match.unsqueeze(1) + seat).flatten()
        """Rows of the lanes' seats [2 N] among all M 2 T aircraft."""
        self.obs = torch.zeros(self.num_envs, 2, batch.obs_dim, device=self.device)
        self.reward = torch.zeros(self.num_envs, 2, device=self.device)
        self.terminated, self.truncated = (
            torch.zeros(self.num_envs, dtype=torch.bool, device=self.device) for _ in range(2)
        )
        self.outcome = torch.full((self.num_envs,), -1, dtype=torch.int32, device=self.device)
        self._observe()

    @property
    def longest_episode(self) -> int:
        """Steps until the time limit."""
        return self.matches.longest_episode

    @property
    def contract(self) -> dict[str, Any]:
        """The contract of the matches."""
        return self.matches.contract

    @property
    def invalid_actions(self) -> torch.Tensor:
        """Number of non-finite or invalid actions in each match, int32 [M]."""
        return self.matches.invalid_actions

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play one step with actions [N, 2, A]; see `BatchedGame.step`."""
        batch = self.matches
        batch.actions.flatten(0, 1).index_copy_(0, self._rows, actions.flatten(0, 1))
        batch.step(batch.actions)
        torch.index_select(batch.reward.flatten(), 0, self._rows, out=self.reward.view(-1))
        for name in ("terminated", "truncated"):
            torch.index_select(getattr(batch, name), 0, self._match, out=getattr(self, name))
        won = batch.outcome[self._match]
        # The first bit of a side's seats is sufficient; 0 is a draw, -1 no result.
        self.outcome.copy_(torch.where(won <= 0, won, torch.where(won & 1 == 1, 1, 2)))
        self._observe()
        return self.reward, self.terminated, self.truncated, self.outcome

    def final_reader(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
        """Return a function that writes last observations, as `BatchedGame.final_reader`."""
        return self.matches.final_reader(self._rows[rows], out)

    def seat_stats(self, rows: torch.Tensor) -> torch.Tensor:
        """Return ticks and hp at the end for seats `rows` [R] of the lanes, float64 [R, 2]."""
        return self.matches.seat_stats(self._rows[rows])

    def assign(self, bots: torch.Tensor | None, restart: torch.Tensor | None = None) -> None:
        """Set the pilots of all lanes [N, 2], and restart the matches of the lanes in `restart` [N]."""
        batch = self.matches
        pilots, restarted = None, None
        if bots is not None:
            pilots = torch.empty(batch.bots.numel(), dtype=torch.int32)
            pilots[self._rows.cpu()] = bots.flatten().int().cpu()
            pilots = pilots.view(batch.bots.shape)
        if restart is not None:
            restarted = torch.zeros(batch.num_envs, dtype=torch.bool, device=self.device)
            restarted[self._match[restart]] = True
        batch.assign(pilots, restarted)
        self._observe()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the matches."""
        return self.matches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.matches.load_state_dict(state)
        self._observe()

    def close(self) -> None:
        """Stop the worker threads."""
        self.matches.close()

    def _observe(self) -> None:
        torch.index_select(self.matches.obs.flatten(0, 1), 0, self._rows, out=self.obs.flatten(0, 1))
