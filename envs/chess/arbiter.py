"""The A task (arbiter, environment): a position and a move are answered with the next position and its result.

Prompt `A: <FEN>+<move>+<history>+`, answer `<next FEN>+<reward>+<terminated>+<truncated>`; the history is of the last
ten moves at most, the current one last. The reward in it is of the player who just moved.

The reward of an answer is verifiable: accuracy of the next position + form + validity, from -0.90 to 0.54. The parts
for reward and flags are only checked for their form; the evaluation compares them with the truth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import chess

from sparring.envs.chess import positions
from sparring.envs.chess.analysis import LONGEST_ANSWER

SEPARATOR = "+"
HISTORY = 10
"""Most moves of a prompt's history, in half-moves."""
LEGAL, MATE, DRAW, ILLEGAL = "0.001", "1.0", "0.5", "-1.0"
"""Rewards as text: legal move in a game that goes on, mate given, any draw, illegal move."""
BAD_PROMPT, ILLEGAL_PROMPT = -0.5, -0.8
SAME, OTHER_NUMBER, DIFFERENT = 0.5, -0.3, -0.7
"""Next position: equal, only the full-move number differs, anything else."""
PARTS, PER_PART, PART_COUNT = 0.01, 0.005, 4
TWO_ANSWERS = 2 * PART_COUNT - 1
"""Parts of two answers with any text between them; such a text scores as an empty one."""
INVALID, VALID, PER_FIELD = -0.2, 0.005, 0.0025
FLAGS = ("0", "1", "true", "false")
_BOARD = re.compile(r"[pnbrqkPNBRQK1-8]+/[pnbrqkPNBRQK1-8]+")


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
    return ArbiterQuestion(" ".join(fen.split()[: positions.FIELDS]), rest[0].strip(), history)


def write_transition(transition: Transition) -> str:
    """Return the answer's text, without a separator at its end."""
    return SEPARATOR.join((transition.fen, transition.reward, transition.terminated, transition.truncated))


def split_answer(text: str) -> list[str]:
    """Return the parts of an answer; a valid one has exactly four."""
    return text.split(SEPARATOR)


def true_transition(fen: str, uci: str) -> Transition:
    """Return the next position and result by the rules; an illegal move leaves the position unchanged.

    The game ends without claims: mate, stalemate, insufficient material, 75 moves. A fivefold repetition takes more
    moves than a history has, so it cannot be seen. Raises `InputError` for an impossible position.
    """
    board = positions.check_position(fen)
    move = positions.read_legal_move(board, uci)
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


@dataclass(frozen=True)
class TransitionScore:
    """Reward of an answer, and its three parts."""

    total: float
    position: float = 0.0
    form: float = 0.0
    validity: float = 0.0


def score_transition(prompt: str, answer: str) -> TransitionScore:
    """Score an answer to a prompt; never raises for any text."""
    question = read_arbiter_prompt(prompt)
    board = positions.possible_position(question.fen) if question else None
    if question is None or board is None or not positions.UCI.fullmatch(question.move):
        return TransitionScore(BAD_PROMPT)
    if positions.read_legal_move(board, question.move) is None:
        return TransitionScore(ILLEGAL_PROMPT)
    truth = true_transition(question.fen, question.move).fen
    text = positions.collapse(answer)
    parts = split_answer(text if len(text) <= LONGEST_ANSWER else "")
    if len(parts) >= TWO_ANSWERS:
        parts = [""]
    position, form, validity = position_reward(parts[0], truth), form_reward(parts), validity_reward(parts[0], truth)
    return TransitionScore(position + form + validity, position, form, validity)


def position_reward(fen: str, truth: str) -> float:
    """Return the reward of the next position as text."""
    answer, true = fen.split(), truth.split()
    if positions.same_position(fen, truth):
        return SAME
    only_number = len(answer) >= positions.FIELDS and answer[: positions.FIELDS - 1] == true[: positions.FIELDS - 1]
    return OTHER_NUMBER if only_number else DIFFERENT


def form_reward(parts: list[str]) -> float:
    """Return the reward of an answer's form; 0 with fewer than four parts, further ones are ignored."""
    if len(parts) < PART_COUNT:
        return 0.0
    fits = (bool(_BOARD.match(parts[0])), _is_number(parts[1]), parts[2] in FLAGS, parts[3] in FLAGS)
    return PARTS + PER_PART * sum(fits)


def validity_reward(fen: str, truth: str) -> float:
    """Return the reward of a possible position with one king a side, and of the right turn and castling rights."""
    board, true = positions.read_position(fen), chess.Board(truth)
    if board is None or any(len(board.pieces(chess.KING, side)) != 1 for side in chess.COLORS):
        return INVALID
    same = (board.turn == true.turn, board.castling_xfen() == true.castling_xfen())
    return VALID + PER_FIELD * sum(same)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
