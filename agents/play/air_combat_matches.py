"""Conditions of evaluation matches of air combat, for `dogfight_matches.play`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch


@dataclass(frozen=True)
class CombatConditions:
    """Conditions of matches, `dogfight_matches.DuelSettings`; the options are those of `AirCombatBatch`."""

    model: str = "point_mass"
    gun: str = ""
    action_repeat: int = rules.ACTION_REPEAT
    max_ticks: int = rules.MAX_TICKS
    device: str = "cpu"
    threads: int = 0
    options: rules.CombatOptions = rules.PLAIN

    def batch(self, games: int) -> AirCombatBatch:
        """Create a batch of `games` matches under these conditions."""
        return AirCombatBatch(games, **vars(self))

    def under(self, ranges: np.ndarray) -> CombatConditions:
        """Return these conditions: the physics is not randomized."""
        return self

    def filmed(self) -> CombatConditions:
        """Return these conditions: a match is filmed from its snapshots."""
        return self
