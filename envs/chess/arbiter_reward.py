"""Verifiable reward of the A task: accuracy of the next position + form + validity, from -0.90 to 0.54.

Reward and flags are only checked for their form here; the evaluation compares them with the truth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import chess

from sparring.envs.chess.analysis_text import LONGEST_ANSWER
from sparring.envs.chess.arbiter_text import read_arbiter_prompt, split_answer, true_transition
from sparring.envs.chess.positions import (
    FIELDS,
    UCI,
    collapse,
    possible_position,
    read_legal_move,
    read_position,
    same_position,
)

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
class TransitionScore:
    """Reward of an answer, and its three parts."""

    total: float
    position: float = 0.0
    form: float = 0.0
    validity: float = 0.0


def score_transition(prompt: str, answer: str) -> TransitionScore:
    """Score an answer to a prompt; never raises for any text."""
    question = read_arbiter_prompt(prompt)
    board = possible_position(question.fen) if question else None
    if question is None or board is None or not UCI.fullmatch(question.move):
        return TransitionScore(BAD_PROMPT)
    if read_legal_move(board, question.move) is None:
        return TransitionScore(ILLEGAL_PROMPT)
    truth = true_transition(question.fen, question.move).fen
    parts = split_answer(collapse(answer) if len(answer) <= LONGEST_ANSWER else "")
    if len(parts) >= TWO_ANSWERS:
        parts = [""]
    position, form, validity = position_reward(parts[0], truth), form_reward(parts), validity_reward(parts[0], truth)
    return TransitionScore(position + form + validity, position, form, validity)


def position_reward(fen: str, truth: str) -> float:
    """Return the reward of the next position as text."""
    found, true = fen.split(), truth.split()
    if same_position(fen, truth):
        return SAME
    only_number = len(found) >= FIELDS and found[: FIELDS - 1] == true[: FIELDS - 1]
    return OTHER_NUMBER if only_number else DIFFERENT


def form_reward(parts: list[str]) -> float:
    """Return the reward of an answer's form; 0 with fewer than four parts, further ones are ignored."""
    if len(parts) < PART_COUNT:
        return 0.0
    fits = (bool(_BOARD.match(parts[0])), _is_number(parts[1]), parts[2] in FLAGS, parts[3] in FLAGS)
    return PARTS + PER_PART * sum(fits)


def validity_reward(fen: str, truth: str) -> float:
    """Return the reward of a possible position with one king a side, and of the right turn and castling rights."""
    found, true = read_position(fen), chess.Board(truth)
    if found is None or any(len(found.pieces(chess.KING, side)) != 1 for side in chess.COLORS):
        return INVALID
    same = (found.turn == true.turn, found.castling_xfen() == true.castling_xfen())
    return VALID + PER_FIELD * sum(same)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
