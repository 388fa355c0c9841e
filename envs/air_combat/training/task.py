"""Air combat as a PPO task: its batch and the learner's opponents."""

from __future__ import annotations

from typing import Any

import torch

from sparring.agents.distributed.processes import Shard
from sparring.agents.ppo.tasks.duel import DuelTask
from sparring.configs.core.errors import ConfigError
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.config import GUN_NAMES, AirCombatRunConfig, combat_options
from sparring.envs.air_combat.rules import BOTS
from sparring.envs.air_combat.teams import AirTeams
from sparring.envs.air_combat.training.opponents import CombatConditions, open_player


class AirCombatTask(DuelTask):
    """See `DuelTask`."""

    batch_kind = AirCombatBatch
    bots, per_match = tuple(BOTS), ("obs", "bots", "match_id", "invalid_actions", "clamped")
    limit_ends = True
    config: AirCombatRunConfig

    @property
    def seats(self) -> int:
        """Lanes of two matches, which have the same opponent."""
        return 2 * self.config.env.team_size

    def make_batch(self, device: torch.device, threads: int, share: Shard) -> Any:
        """Create the matches; those of teams as lanes, one for each aircraft of the learner."""
        env = self.config.env
        if env.team_size == 1:
            return super().make_batch(device, threads, share)
        if env.num_envs % self.seats:
            suggested = env.num_envs + -env.num_envs % self.seats
            raise ConfigError(
                f"env.num_envs={env.num_envs}: with env.team_size={env.team_size} must be a multiple of {self.seats}, "
                f"the learner's aircraft in two matches; try {suggested}"
            )
        if not share.whole:
            raise ConfigError(f"env.team_size={env.team_size}: learns in one process; start it without torchrun")
        matches = env.num_envs // env.team_size
        return AirTeams(super().make_batch(device, threads, Shard(0, matches, matches)))

    def batch_options(self) -> dict[str, Any]:
        """Return the batch options specific to this game."""
        env = self.config.env
        return {
            "model": env.model,
            "gun": self._gun,
            "chase": env.chase,
            "low_start": env.low_start,
            "ground_limit": env.ground_limit,
            "options": combat_options(env),
        }

    def open_policy(self, text: str, device: torch.device) -> Any:
        """Return the opponent that a run names, if it is not a bot."""
        return open_player(text, device).contestant

    def conditions(self, device: torch.device, threads: int) -> CombatConditions:
        """Return the conditions of evaluation matches: as in training."""
        env = self.config.env
        return CombatConditions(
            env.model,
            self._gun,
            env.action_repeat,
            device=str(device),
            threads=threads,
            options=combat_options(env),
            ground_limit=env.ground_limit,
        )

    @property
    def _gun(self) -> str:
        gun = self.config.env.gun
        return "" if gun == GUN_NAMES[0] else gun
