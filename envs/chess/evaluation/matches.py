"""Players of chess with their names in tables, and the matches between two of them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from tqdm import tqdm

from sparring.agents.opponents.players import Player, is_server
from sparring.envs.chess.evaluation.games import (
    ChessGame,
    ChessPlayer,
    EndedGame,
    EnginePlayer,
    GameConditions,
    PythonPlayer,
    open_player,
    play_games,
)
from sparring.envs.chess.evaluation.models import ModelAnswers
from sparring.envs.chess.evaluation.options import ChessMatchOptions
from sparring.envs.chess.evaluation.results import OpponentResult
from sparring.eval.paired.evaluation import Cell, Matches


@dataclass(frozen=True)
class ChessEntrant:
    """A player by its name on the command line; `player` is None for the evaluated player itself, on both sides."""

    name: str
    player: ChessPlayer | None = None
    path: Path | None = None
    """File or folder of a language model."""
    decoding: Any = None
    """How a language model answers."""
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name in tables, with version and depth of an engine."""
        return self.player.name if self.player else self.name

    @property
    def is_engine(self) -> bool:
        """True for an engine, whose version and depth are in its title alone."""
        return isinstance(self.player, EnginePlayer)


def open_entrant(
    name: str, located: Player, *, options: ChessMatchOptions, device: str, resources: ExitStack
) -> ChessEntrant:
    """Open a located player; `resources` closes its engine. Raises `InputError` for an unusable one."""
    decoding = {name: getattr(options, name) for name in ("temperature", "tokens", "answers")}
    how = ModelAnswers(options.answers, options.temperature, options.tokens, getattr(options, "settings", {}))
    player = open_player(located, device, opened=resources, engine=options.engine, cache=options.cache, how=how)
    path = located if isinstance(located, Path) else None
    return ChessEntrant(name, player, path, decoding if path else None)


@dataclass(frozen=True)
class ChessMatches(Matches):
    """Parallel games of two players, each opening with both colours."""

    by_game: ClassVar[bool] = True
    plies: int
    opening_plies: int
    lose: bool

    @property
    def device(self) -> str:
        """Device of the rules."""
        return "cpu"

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[OpponentResult, list[Any]]:
        """Play the games of a cell that have not ended yet."""
        player, opponent = cell.pair
        conditions = GameConditions(cell.plan.games, self.plies, self.opening_plies, self.lose, cell.plan.seed)
        before = bar.n

        def advance(games: list[ChessGame]) -> None:
            bar.update(before + sum(game.over for game in games) - bar.n)

        games = play_games(player.player, opponent.player, conditions, advance, cell.kept_games(EndedGame))
        name = opponent.title if opponent.player else opponent.name
        return OpponentResult(opponent.name, name, games, player.name), []

    def stated(self) -> dict[str, Any]:
        """Return the rules of the games."""
        return {"plies": self.plies, "opening_plies": self.opening_plies, "lose": self.lose}

    def identity(self, player: ChessEntrant) -> tuple[Any, Path | None] | None:
        """Return how a player answers and its files; None for code, and a server, whose answers are kept instead."""
        changes = isinstance(player.player, PythonPlayer) or is_server(player.name)
        return None if changes else ([player.title, player.decoding], player.path)
