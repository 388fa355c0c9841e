"""Matches of air combat in which given pilots can meet, and how a pair of them plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from tqdm import tqdm

from sparring.envs.air_combat.recording import AirRecording, FirstGame
from sparring.envs.air_combat.rules import TICKS_PER_SECOND
from sparring.envs.air_combat.training.opponents import CombatConditions
from sparring.eval.paired.duels import KernelMatches
from sparring.eval.paired.evaluation import Cell
from sparring.eval.stats.tables import MatchRecord


@dataclass(frozen=True)
class AirMatches(KernelMatches):
    """Matches of air combat."""

    setting: CombatConditions
    ticks_per_second: ClassVar[float] = TICKS_PER_SECOND

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[AirRecording]]:
        """Play the games of a cell. Raises `InputError` for actions that are not finite."""
        player, opponent = cell.pair
        film = FirstGame() if cell.filmed else None
        contestants = player.contestant, opponent.contestant
        record = self.played(cell, contestants, self.setting.model, self.setting, film)
        size = self.setting.options.team_size
        return record, film.recordings((*[player.name] * size, *[opponent.name] * size)) if film else []
