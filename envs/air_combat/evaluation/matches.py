"""Matches of air combat in which given pilots can meet, and how a pair of them plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from sparring.agents.play.duel_matches import check_valid, play
from sparring.envs.air_combat.recording import AirRecording, FirstGame
from sparring.envs.air_combat.rules import BOTS, TICKS_PER_SECOND
from sparring.envs.air_combat.training.opponents import CombatConditions, Pilot
from sparring.eval.paired.evaluation import Cell, KernelMatches
from sparring.eval.stats.tables import MatchRecord, record_of


@dataclass(frozen=True)
class AirMatches(KernelMatches):
    """Matches of air combat."""

    setting: CombatConditions

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[AirRecording]]:
        """Play the games of a cell. Raises `InputError` for actions that are not finite."""
        player, opponent = cell.pair
        film = FirstGame() if cell.filmed else None
        results = play(
            player.contestant,
            opponent.contestant,
            games=cell.plan.games,
            seed=cell.plan.seed,
            setting=self.setting,
            recorder=film,
        )
        check_valid(results, player.name, opponent.name)
        size = self.setting.options.team_size
        record = record_of(player.name, opponent.name, self.setting.model, results, TICKS_PER_SECOND)
        return record, film.recordings((*[player.name] * size, *[opponent.name] * size)) if film else []

    def identity(self, player: Pilot) -> tuple[Any, Path | None] | None:
        """Return how a policy decides and its file, nothing but the name of a script; None for code."""
        if player.path is None and player.name not in BOTS:
            return None
        return getattr(player.contestant, "deterministic", None), player.path
