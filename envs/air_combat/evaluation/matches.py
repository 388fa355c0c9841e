"""Matches of air combat between given pilots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from tqdm import tqdm

from sparring.envs.air_combat.recording import AirRecording, FirstGame
from sparring.envs.air_combat.rules import MATCH_REGIMES, TICKS_PER_SECOND
from sparring.envs.air_combat.training.opponents import CombatConditions
from sparring.eval.paired.duels import KernelMatches
from sparring.eval.paired.evaluation import Cell
from sparring.eval.stats.tables import MatchRecord


@dataclass(frozen=True)
class AirMatches(KernelMatches):
    """Matches of air combat."""

    setting: CombatConditions
    ticks_per_second: ClassVar[float] = TICKS_PER_SECOND
    regimes: ClassVar[Mapping[str, Mapping[str, Any]]] = MATCH_REGIMES

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[AirRecording]]:
        """Play the games of a cell. Raises `InputError` for actions that are not finite."""
        player, opponent = cell.pair
        film = FirstGame() if cell.filmed else None
        contestants, setting = (player.contestant, opponent.contestant), self.under(cell.regime)
        record = self.played(cell, contestants, cell.regime or setting.model, setting, film)
        size = setting.options.team_size
        return record, film.recordings((*[player.name] * size, *[opponent.name] * size)) if film else []
