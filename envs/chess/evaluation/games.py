"""Parallel games of the evaluated player against one opponent: players, openings, end rules, counts.

Games 2k and 2k + 1 begin with the same random opening; the player is White in the first and Black in the second. Equal
seeds give equal openings against all opponents. Each player answers many positions at once with a move in UCI, or with
other text. `open_player` creates a player from a name, a file or a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import chess
import numpy as np

from sparring.agents.distributed.tasks import KeptGames
from sparring.agents.opponents.players import BOT_PREFIX, OpponentError, act_function, is_server
from sparring.configs.opponents import named_source, registered_name, source_name
from sparring.envs.chess.engines.engine import BUILT_IN, Engine, open_engine
from sparring.envs.chess.evaluation.models import ModelAnswers, MoveRequest, open_model
from sparring.envs.chess.evaluation.options import PYTHON, RANDOM, STOCKFISH, BotName, find_chess_player
from sparring.envs.chess.positions import random_move, random_position, read_legal_move
from sparring.envs.text import mix

OPENINGS, ANSWERS, REPLACEMENTS = 1, 2, 3
"""Streams of random numbers."""
ILLEGAL, CUT_OFF = "illegal move", "cut off"
"""Endings outside the rules of chess."""


@dataclass(frozen=True)
class GameConditions:
    """Conditions of the games; `lose` ends a game with an illegal move of the player, else a random one replaces it."""

    games: int
    plies: int
    opening_plies: int
    lose: bool
    seed: int


@dataclass
class ChessGame:
    """A game: the board with all moves, its result as in PGN, and counts of the evaluated player's answers."""

    board: chess.Board
    white: str
    black: str
    player_is: chess.Color
    opening: int
    """Half-moves of the random opening."""
    both: bool = False
    """True if the evaluated player plays both sides."""
    result: str = "*"
    ending: str = ""
    answers: int = 0
    illegal: int = 0
    illegal_at: dict[int, str] = field(default_factory=dict)
    """Illegal answers by half-move, shortened."""
    texts: dict[int, str] = field(default_factory=dict)
    """What a language model wrote, by half-move; no entry where that is not kept."""

    @property
    def over(self) -> bool:
        """True once the game has a result."""
        return self.result != "*"

    @property
    def points(self) -> float:
        """Points of the evaluated player: 1, 0.5 or 0."""
        white = {"1-0": 1.0, "0-1": 0.0}.get(self.result, 0.5)
        return white if self.player_is == chess.WHITE else 1.0 - white

    def asked(self) -> bool:
        """Return whether the evaluated player is to move."""
        return self.both or self.board.turn == self.player_is


def play_games(
    player: ChessPlayer,
    opponent: ChessPlayer | None,
    conditions: GameConditions,
    after_ply: Callable[[list[ChessGame]], None] = lambda games: None,
    saved: KeptGames[EndedGame] | None = None,
) -> list[ChessGame]:
    """Play all games to their ends; None as the opponent is the player itself, on both sides.

    Games that `saved` has are not played again, and it keeps each that ends.
    """
    games = [_opened(player, opponent, conditions, number) for number in range(conditions.games)]
    if saved:
        games = [restored(saved.get(number), game) for number, game in enumerate(games)]
        after_ply(games)
    while running := [(number, game) for number, game in enumerate(games) if not game.over]:
        to_move = [(number, game) for number, game in running if game.asked()]
        for who, part in ((player, to_move), (opponent, [numbered for numbered in running if not numbered[1].asked()])):
            if part and who is not None:
                _play_ply(who, part, conditions)
        for number, game in running if saved else ():
            if game.over:
                saved.add(number, ended_game(game))  # type: ignore[union-attr]
        after_ply(games)
    return games


@dataclass(frozen=True)
class EndedGame:
    """Stored form of a game: its moves in UCI from the initial position, and the fields of `ChessGame`."""

    moves: list[str]
    result: str
    ending: str
    answers: int
    illegal: int
    illegal_at: dict[int, str]
    texts: dict[int, str]


def ended_game(game: ChessGame) -> EndedGame:
    """Return the stored form of a finished game."""
    return EndedGame([move.uci() for move in game.board.move_stack], **{name: getattr(game, name) for name in ENDED})


def restored(ended: EndedGame | None, game: ChessGame) -> ChessGame:
    """Return a game as it ended, or `game`, its beginning, if it has not or its moves are not what was written."""
    board = chess.Board()
    try:
        for move in ended.moves if ended else ():
            board.push_uci(move)
    except ValueError:
        return game
    return replace(game, board=board, **{name: getattr(ended, name) for name in ENDED}) if ended else game


ENDED = ("result", "ending", "answers", "illegal", "illegal_at", "texts")


def _opened(player: ChessPlayer, opponent: ChessPlayer | None, conditions: GameConditions, number: int) -> ChessGame:
    draw = np.random.default_rng(mix(conditions.seed, OPENINGS, number // 2))
    board = random_position(draw, conditions.opening_plies)
    side = chess.WHITE if number % 2 == 0 or opponent is None else chess.BLACK
    names = [player.name, opponent.name if opponent else player.name]
    white, black = names if side == chess.WHITE else names[::-1]
    return ChessGame(board, white, black, side, len(board.move_stack), both=opponent is None)


def _play_ply(who: ChessPlayer, part: Sequence[tuple[int, ChessGame]], conditions: GameConditions) -> None:
    """Play one half-move of each game in `part`; `who` is to move in all of them."""
    requests = [
        MoveRequest(game.board.copy(stack=False), mix(conditions.seed, ANSWERS, number, game.board.ply()), number)
        for number, game in part
    ]
    for (number, game), answer in zip(part, who.answer(requests), strict=True):
        apply_answer(game, answer, conditions, mix(conditions.seed, REPLACEMENTS, number, game.board.ply()))


def apply_answer(game: ChessGame, answer: str, conditions: GameConditions, seed: int) -> None:
    """Play the answer of the side to move, and set the result if that ends the game.

    `seed` draws the move that replaces an illegal one. Illegal answers of the evaluated player are recorded.
    """
    move = read_legal_move(game.board, answer)
    if game.asked():
        game.answers += 1
        if move is None:
            game.illegal += 1
            game.illegal_at[len(game.board.move_stack)] = short_answer(answer)
    if move is None and conditions.lose:
        game.result, game.ending = ("0-1" if game.board.turn == chess.WHITE else "1-0"), ILLEGAL
        return
    move = move or random_move(game.board, np.random.default_rng(seed))
    assert move is not None
    game.board.push(move)
    if outcome := game.board.outcome():
        game.result, game.ending = outcome.result(), outcome.termination.name.lower().replace("_", " ")
    elif len(game.board.move_stack) >= conditions.plies:
        game.result, game.ending = "1/2-1/2", CUT_OFF


def short_answer(answer: str) -> str:
    """Return an illegal answer as tables and comments show it."""
    return answer[:8] or "no move"


class ChessPlayer(Protocol):
    """A player; its answer to a request does not depend on the other requests."""

    @property
    def name(self) -> str:
        """Name in tables, with version and depth of an engine."""

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return a move in UCI for each request; it may be illegal, and empty for no move."""


@dataclass(frozen=True)
class RandomPlayer:
    """Plays every legal move with equal probability."""

    name: str = "random"

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return a random legal move for each request."""
        moves = (random_move(request.board, np.random.default_rng(request.seed)) for request in requests)
        return [move.uci() if move else "" for move in moves]


SCRIPTED: dict[str, Callable[[], ChessPlayer]] = {RANDOM: RandomPlayer}
"""Bots without an engine, by the names in `envs.chess.BOTS`."""


@dataclass(frozen=True)
class EnginePlayer:
    """Plays an engine's best move."""

    name: str
    engine: Engine

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the best moves; the engine's processes search in parallel."""
        return [lines[0][0] for lines in self.engine.batch_top_moves([request.board for request in requests], 1)]


class PythonPlayer:
    """A Python object, `act(observation) -> move`, with the observations of the PettingZoo environment."""

    def __init__(self, source: Any, name: str) -> None:
        self.name, self._ask = registered_name(source) or name, act_function(source, name)

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return what the object answers to each request. Raises `InputError` for an answer that is not text."""
        return [self._answer(request.board) for request in requests]

    def _answer(self, board: chess.Board) -> str:
        answer = self._ask(
            {"fen": board.fen(), "legal_moves": " ".join(sorted(move.uci() for move in board.legal_moves))}
        )
        if not isinstance(answer, str):
            kind = type(answer).__name__
            raise OpponentError(f"player {self.name}: act returned a {kind}; a move in UCI is a text, such as 'e2e4'")
        return answer.strip()


def open_player(
    x: Any,
    device: str = "cpu",
    *,
    opened: ExitStack | None = None,
    engine: str = "",
    cache: Path | None = None,
    how: ModelAnswers | None = None,
) -> ChessPlayer:
    """Return the player for `x`; raises `InputError` for an unknown or unusable one.

    `opened` closes a bot's engine, whose name has its version and depth, and says if another stands in for it. `engine`
    is the path of a UCI engine, "" for Stockfish on the PATH, and `cache` the file that keeps what it finds.
    `how` is for language models.
    """
    if isinstance(x, str) and not is_server(x):
        x = find_chess_player(x)
    if isinstance(x, BotName):
        return _open_bot(x, opened or ExitStack(), engine, cache)
    if isinstance(x, str | Path):
        return open_model(x, device, how or ModelAnswers())
    return PythonPlayer(x, source_name(x))


def _open_bot(bot: BotName, opened: ExitStack, engine: str, cache: Path | None) -> ChessPlayer:
    if bot.kind == PYTHON:
        return PythonPlayer(named_source(bot.text), bot.text)
    if bot.kind in SCRIPTED:
        return SCRIPTED[bot.kind]()
    path, depth = {STOCKFISH: (engine, bot.depth), BUILT_IN: (BUILT_IN, 1)}[bot.kind]
    searcher = opened.enter_context(open_engine(path, depth=depth, cache=cache))
    return EnginePlayer(f"{bot.text.removeprefix(BOT_PREFIX)} ({searcher.name})", searcher)
