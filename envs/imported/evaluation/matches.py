"""Matches of an imported game: one player has a seat, and the opponent has all other seats.

The seat changes from game to game.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from sparring.agents.play.seat_matches import SeatPlayer, play, usual_batch_size
from sparring.configs.schema import RANDOM
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.envs.imported.evaluation.results import SeatRecord, TeamRecord, record_of, team_record
from sparring.envs.imported.training.opponents import NetworkSeats, RandomSeats
from sparring.eval.paired.evaluation import Cell, Matches


@dataclass(frozen=True)
class SeatMatches(Matches):
    """Matches of an imported game. In team matches one player has all seats."""

    game: ImportedGame
    seats: tuple[str, ...]
    policies: str
    """Device of the policies."""
    team: bool = False

    @property
    def device(self) -> str:
        """Device of the policies."""
        return self.policies

    @property
    def record(self) -> Any:
        """Type of the records."""
        return TeamRecord if self.team else SeatRecord

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[SeatRecord | TeamRecord, list[Any]]:
        """Play the games of a cell; see `agents.play.seat_matches.play`."""
        player, opponent = cell.pair
        batch = self.game.batch(usual_batch_size(cell.plan.games), cell.plan.seed)
        try:
            results = play(batch, cell.pair, cell.plan.games, cell.plan.seed, on_game=bar.update)
        finally:
            batch.close()
        if self.team:
            return team_record(player.name, self.seats, results), []
        return record_of(player.name, opponent.name, self.seats, results), []

    def stated(self) -> dict[str, Any]:
        """Return the game and whether it is played by teams."""
        return {"game": asdict(self.game), "team": self.team}

    def identity(self, player: SeatPlayer) -> tuple[Any, Path | None] | None:
        """Return how a policy decides and its file; None for code, including the game's, that may have changed."""
        if self.game.modules or not isinstance(player, NetworkSeats | RandomSeats):
            return None
        path = getattr(player, "path", None)
        return (getattr(player, "deterministic", None), path) if path or player.name == RANDOM else None


def seats_of(game: ImportedGame) -> tuple[str, ...]:
    """Return the names of a game's players."""
    match = game.match()
    seats = tuple(match.seats)
    match.close()
    return seats
