"""A chess game between a person and one opponent: start, text moves, answers, takebacks, resignation, draws.

The rules of the end and of illegal answers follow the evaluation (`evaluation/games.py`): the opponent is the evaluated
player. Illegal moves of the person are refused, so a mistyped move does not cost anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import chess

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import open_regular
from sparring.configs.core.status import say
from sparring.envs.chess.analysis import read_analysis
from sparring.envs.chess.evaluation.games import (
    ANSWERS,
    REPLACEMENTS,
    ChessGame,
    GameConditions,
    apply_answer,
)
from sparring.envs.chess.evaluation.models import MoveRequest
from sparring.envs.chess.evaluation.results import page_data, read_pgn
from sparring.envs.chess.positions import check_position, read_legal_move
from sparring.envs.text import mix

YOU = "You"
RESIGNATION = "resignation"
MOST_PLIES = 10_000
LARGEST_FILE = 1_000_000
"""Bytes of a PGN file."""
_SIDES = {chess.WHITE: "white", chess.BLACK: "black"}
_UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?")


@dataclass(frozen=True)
class MoveAnswer:
    """An opponent's move in UCI, which may be illegal, and what a language model wrote; None for others."""

    move: str
    text: str | None = None


def new_game(fen: str, side: chess.Color) -> ChessGame:
    """Return a game from a position with the person on `side`; `name_players` names the two."""
    return ChessGame(chess.Board(fen), "", "", not side, opening=0)


def name_players(game: ChessGame, opponent: str) -> ChessGame:
    """Return the game with the names of both players."""
    white, black = (opponent, YOU) if game.player_is == chess.WHITE else (YOU, opponent)
    return replace(game, white=white, black=black)


class PersonGame:
    """One game; `move` plays the person's moves, `request` and `answer` the opponent's. `seed` draws the latter.

    Methods raise `InputError` with what is wrong; the game is then unchanged.
    """

    def __init__(self, game: ChessGame, *, lose: bool, seed: int) -> None:
        self.game, self._seed = game, seed
        self._conditions = GameConditions(1, MOST_PLIES, 0, lose, seed)

    @property
    def board(self) -> chess.Board:
        """The board with all moves."""
        return self.game.board

    @property
    def side(self) -> chess.Color:
        """The person's side."""
        return not self.game.player_is

    @property
    def your_turn(self) -> bool:
        """True if the person is to move."""
        return not self.game.over and self.board.turn == self.side

    @property
    def moved(self) -> bool:
        """True once the person has moved."""
        return self._last_of_person() is not None

    def move(self, text: str) -> None:
        """Play the person's move, in UCI (e7e8q) or SAN (e8=Q)."""
        if not self.your_turn:
            raise InputError("it is not your turn" if not self.game.over else "the game is over")
        apply_answer(self.game, read_move(self.board, text).uci(), self._conditions, self._seed)

    def request(self) -> MoveRequest:
        """Return the request to the opponent."""
        return MoveRequest(self.board.copy(stack=False), mix(self._seed, ANSWERS, 0, self.board.ply()))

    def answer(self, answer: MoveAnswer) -> None:
        """Play the opponent's answer; an illegal one loses the game or is replaced, as in the evaluation."""
        if answer.text is not None:
            self.game.texts[len(self.board.move_stack)] = answer.text
        apply_answer(self.game, answer.move, self._conditions, mix(self._seed, REPLACEMENTS, 0, self.board.ply()))

    def undo(self) -> None:
        """Take back the person's last move, the opponent's answer to it, and the end of the game."""
        last = self._last_of_person()
        if last is None:
            raise InputError("you have not made a move to take back")
        while len(self.board.move_stack) > last:
            self.board.pop()
        game = replace(self.game, result="*", ending="")
        game.illegal_at = {ply: answer for ply, answer in game.illegal_at.items() if ply < last}
        game.texts = {ply: text for ply, text in game.texts.items() if ply < last}
        game.answers, game.illegal = sum(self._mover(ply) != self.side for ply in range(last)), len(game.illegal_at)
        self.game = game

    def resign(self) -> None:
        """End the game with a win of the opponent."""
        self._check_running()
        self.game.result, self.game.ending = ("0-1" if self.side == chess.WHITE else "1-0"), RESIGNATION

    def claim(self) -> None:
        """End the game with a draw by threefold repetition or fifty moves, which only a claim ends."""
        self._check_running()
        outcome = self.board.outcome(claim_draw=True) if self.your_turn else None
        if outcome is None:
            raise InputError("claim a draw on your turn, at a third repetition or after fifty quiet moves")
        self.game.result, self.game.ending = outcome.result(), outcome.termination.name.lower().replace("_", " ")

    def message(self) -> dict[str, Any]:
        """Return the game for the page: a replay, and the available actions."""
        turn = self.your_turn
        return page_data(self.game) | {
            "you": _SIDES[self.side],
            "turn": _SIDES[self.board.turn],
            "over": self.game.over,
            "check": self.board.is_check(),
            "legal": [move.uci() for move in self.board.legal_moves] if turn else [],
            "undo": self.moved,
            "claim": turn and self.board.can_claim_draw(),
            "answers": self._analyses(),
        }

    def _check_running(self) -> None:
        if self.game.over:
            raise InputError("the game is over")

    def _mover(self, ply: int) -> chess.Color:
        return self.board.root().turn if ply % 2 == 0 else not self.board.root().turn

    def _last_of_person(self) -> int | None:
        """Return the number of half-moves before the person's last one, or None."""
        count = len(self.board.move_stack)
        return next((ply for ply in range(count - 1, max(count - 3, -1), -1) if self._mover(ply) == self.side), None)

    def _analyses(self) -> dict[str, dict[str, Any]]:
        """Return the answers of a language model by half-move, each read in its position."""
        board, analyses = self.board.root(), {}
        for ply, move in enumerate([*self.board.move_stack, None]):
            if ply in self.game.texts:
                analyses[str(ply)] = _analysis(board, self.game.texts[ply])
            if move:
                board.push(move)
        return analyses


def _analysis(board: chess.Board, text: str) -> dict[str, Any]:
    """Return a model's answer: its text, its moves with names (empty if illegal) and evaluations, and its best move."""
    answer = read_analysis(text)
    values: list[float | None] = [*answer.evaluations, *[None] * len(answer.moves)]
    moves = [[uci, san_of(board, uci), values[index]] for index, uci in enumerate(answer.moves)]
    return {"text": text, "moves": moves, "best": [answer.best, san_of(board, answer.best)]}


def san_of(board: chess.Board, uci: str) -> str:
    """Return a move in SAN, empty if it is not legal."""
    move = read_legal_move(board, uci)
    return board.san(move) if move else ""


def read_move(board: chess.Board, text: str) -> chess.Move:
    """Return the legal move that `text` names, in UCI or SAN; raises `InputError` for others and for ambiguous ones."""
    words = text.strip()
    try:
        move = board.parse_uci(words.lower()) if _UCI.fullmatch(words.lower()) else board.parse_san(words)
    except chess.AmbiguousMoveError:
        raise InputError(f"{words}: several pieces can move there; name the file or rank too, as in Nbd2") from None
    except ValueError:
        move = chess.Move.null()
    if not move:
        raise InputError(f"{words[:12]!r}: is not a legal move; write it as e2e4 or Nf3")
    return move


def read_fen(fen: str) -> str:
    """Return the FEN of the starting position, the standard one for ""; raises `InputError`."""
    return check_position(fen or chess.STARTING_FEN, "--fen", playable=True).fen()


def resume_game(path: Path, side: str) -> ChessGame:
    """Return the unfinished game in a PGN file, with the person on `side`.

    Without a side, the player called You. Raises `InputError` for a file without such a game.
    """
    try:
        with open(open_regular(path, follow=True), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise InputError(f"is larger than {LARGEST_FILE} bytes; give a file with this game only")
        game = _first_game(path, data)
    except OSError as error:
        raise InputError(f"--resume {path}: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"--resume {path}: {error}") from error
    if game.over or game.board.is_game_over():
        raise InputError(f"--resume {path}: the game is over ({game.board.result()}); give an unfinished one")
    sides = {"white": chess.WHITE, "black": chess.BLACK}
    named = next(
        (color for color, name in zip(chess.COLORS, (game.white, game.black), strict=True) if name == YOU), None
    )
    person = sides.get(side, named)
    if person is None:
        raise InputError(f"--resume {path}: has no player named {YOU}; choose your side, as in --side white")
    return replace(game, player_is=not person)


def _first_game(path: Path, data: bytes) -> ChessGame:
    """Return the first game of a file in UTF-8 or Latin-1, and say how many others are refused."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    file = read_pgn(text)
    count = len(file.games) + len(file.refused)
    why = f"{len(file.refused)} of {count} games refused; {file.refused[0]}" if file.refused else ""
    if not file.games:
        raise InputError(f"has no playable game: {why or 'none with moves in PGN'}")
    if why:
        say(f"--resume {path}: {why}")
    return file.games[0]
