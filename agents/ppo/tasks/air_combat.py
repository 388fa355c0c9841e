"""Air combat as a task of PPO: its batch, and who plays against the learner."""

from __future__ import annotations

from typing import Any

import torch

from sparring.agents.opponents.air_combat import CombatConditions, open_player
from sparring.agents.ppo.tasks.duel import DuelTask
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.config import GUN_NAMES, AirCombatRunConfig, combat_options
from sparring.envs.air_combat.rules import BOTS


class AirCombatTask(DuelTask):
    """See `DuelTask`."""

    batch_kind = AirCombatBatch
    bots, per_match = tuple(BOTS), ("obs", "bots", "match_id", "invalid_actions", "clamped")
    limit_ends = True
    config: AirCombatRunConfig

    def batch_options(self) -> dict[str, Any]:
        """Return the options of a batch that only this game has."""
        env = self.config.env
        return {"model": env.model, "gun": self._gun, "chase": env.chase, "options": combat_options(env)}

    def open_policy(self, text: str, device: torch.device) -> Any:
        """Return the opponent that a run names, which is no bot."""
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
        )

    @property
    def _gun(self) -> str:
        gun = self.config.env.gun
        return "" if gun == GUN_NAMES[0] else gun
