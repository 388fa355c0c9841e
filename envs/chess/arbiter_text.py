"""Text of the A task (arbiter, environment): a position and a move are answered with the next position and its result.

Prompt `A: <FEN>+<move>+<history>+`, answer `<next FEN>+<reward>+<terminated>+<truncated>`; the history is of the last
ten moves at most, the current one last. The reward is of the player who just moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import chess

from sparring.envs.chess.positions import FIELDS, check_position, read_legal_move

SEPARATOR = "+"
HISTORY = 10
"""Most moves of a prompt's history, in half-moves."""
LEGAL, MATE, DRAW, ILLEGAL = "0.001", "1.0", "0.5", "-1.0"
"""Rewards as text: legal move in a game that goes on, mate given, any draw, illegal move."""


@dataclass(frozen=True)
class ArbiterQuestion:
    """Prompt of the A task: position, move, and the last moves up to and including it, oldest first."""

    fen: str
    move: str
    history: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transition:
    """Answer of the A task, each part as text."""

    fen: str
    reward: str
    terminated: str
    truncated: str


def arbiter_prompt(question: ArbiterQuestion) -> str:
    """Return the text of a question."""
    history = " ".join(question.history[-HISTORY:])
    return f"A: {question.fen}{SEPARATOR}{question.move}{SEPARATOR}{history}{SEPARATOR}"


def read_arbiter_prompt(prompt: str) -> ArbiterQuestion | None:
    """Read a prompt; None if it has fewer than two separators."""
    fen, *rest = prompt.partition("A:")[2].split(SEPARATOR)
    if len(rest) < 2:
        return None
    history = tuple(rest[1].split()) if len(rest) > 2 else ()
    return ArbiterQuestion(" ".join(fen.split()[:FIELDS]), rest[0].strip(), history)


def write_transition(transition: Transition) -> str:
    """Return the answer's text, without a separator at its end."""
    return SEPARATOR.join((transition.fen, transition.reward, transition.terminated, transition.truncated))


def split_answer(text: str) -> list[str]:
    """Return the parts of an answer; a valid one has exactly four."""
    return text.split(SEPARATOR)


def true_transition(fen: str, uci: str) -> Transition:
    """Return what follows by the rules; an illegal move leaves the position unchanged.

    The game ends without claims: mate, stalemate, insufficient material, 75 moves. A fivefold repetition takes more
    moves than a history has, so it cannot be seen. Raises `InputError` for an impossible position.
    """
    board = check_position(fen)
    move = read_legal_move(board, uci)
    if move is None:
        return Transition(fen, ILLEGAL, "0", "1")
    board.push(move)
    return Transition(board.fen(), _reward(board), str(int(board.is_game_over())), "0")


def _reward(board: chess.Board) -> str:
    if board.is_checkmate():
        return MATE
    return DRAW if board.is_game_over() else LEGAL


def question_of(board: chess.Board, move: str, moves: Sequence[str]) -> ArbiterQuestion:
    """Return the question for `move` after the earlier `moves` of the game."""
    return ArbiterQuestion(board.fen(), move, (*moves, move)[-HISTORY:])
