"""Verifiable reward of the P task: 0.5 best move + 0.3 candidates + 0.2 evaluations, clamped to [-1, 1].

The truth is an engine's: its five best moves, and its value of the position after each move that the answer lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import chess

from sparring.envs.chess.analysis_text import MOST_MOVES, Analysis, read_analysis, read_analysis_prompt
from sparring.envs.chess.positions import collapse, possible_position, read_legal_move

BEST_SHARE, CANDIDATES_SHARE, EVALUATIONS_SHARE = 0.5, 0.3, 0.2
BAD_PROMPT = -0.5
RANKED = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Reward of the engine's k-th move."""
MISSING_BEST, ILLEGAL_BEST, OTHER_BEST = -0.5, -1.0, 0.1
NO_MOVES, PER_ILLEGAL = -0.3, -0.3
IN_ORDER = (0.1, 0.2 / 3, 0.1 / 3)
"""Bonus for the engine's first, second and third move in its place."""
NO_EVALUATIONS, WRONG_COUNT, ILLEGAL_LISTED = -0.2, -0.4, -0.5
WRONG_SIGN = -0.4
CLEAR = 0.2
"""Pawns; up to this a value has no sign that an evaluation must share."""


class Truth(Protocol):
    """Engine, as far as the reward needs it; values are in pawns from the side to move."""

    def top_moves(self, board: chess.Board, count: int) -> Sequence[tuple[str, float]]:
        """Return up to `count` best moves with their values, best first."""

    def value(self, board: chess.Board) -> float:
        """Return the value of a position."""


@dataclass(frozen=True)
class AnalysisScore:
    """Reward of an answer and its three parts before weighting."""

    total: float
    best: float = 0.0
    candidates: float = 0.0
    evaluations: float = 0.0


def score_analysis(prompt: str, answer: str, truth: Truth) -> AnalysisScore:
    """Score an answer to a prompt; never raises for any text. No engine is asked about an impossible position."""
    board = possible_position(read_analysis_prompt(prompt))
    if board is None:
        return AnalysisScore(BAD_PROMPT)
    found = read_analysis(collapse(answer))
    top = [move for move, _ in truth.top_moves(board, MOST_MOVES)]
    best, candidates = best_reward(board, found.best, top), candidates_reward(board, found.moves, top)
    evaluations = evaluations_reward(board, found, truth)
    total = BEST_SHARE * best + CANDIDATES_SHARE * candidates + EVALUATIONS_SHARE * evaluations
    return AnalysisScore(_clamp(total), best, candidates, evaluations)


def best_reward(board: chess.Board, best: str, top: Sequence[str]) -> float:
    """Return the reward of the best move, by its rank among the engine's `top` moves."""
    if not best:
        return MISSING_BEST
    if read_legal_move(board, best) is None:
        return ILLEGAL_BEST
    return RANKED[top.index(best)] if best in top else OTHER_BEST


def candidates_reward(board: chess.Board, moves: Sequence[str], top: Sequence[str]) -> float:
    """Return Jaccard similarity with `top` + bonus for the right order - penalty per illegal move.

    Only illegal moves give the penalty alone, which is not clamped: -1.5 at least.
    """
    if not moves:
        return NO_MOVES
    legal = [move for move in moves if read_legal_move(board, move)]
    penalty = PER_ILLEGAL * (len(moves) - len(legal))
    if not legal:
        return penalty
    jaccard = len(set(legal) & set(top)) / len(set(legal) | set(top))
    order = sum(bonus for bonus, mine, true in zip(IN_ORDER, legal, top, strict=False) if mine == true)
    return _clamp(jaccard + order + penalty)


def evaluations_reward(board: chess.Board, found: Analysis, truth: Truth) -> float:
    """Return 1 - mean absolute error in pawns, at least 0, less a penalty per wrong sign, at least -1 in all."""
    if not found.moves or not found.evaluations:
        return NO_EVALUATIONS
    if len(found.evaluations) != len(found.moves):
        return WRONG_COUNT
    legal = [read_legal_move(board, move) for move in found.moves]
    if not all(legal):
        return ILLEGAL_LISTED
    true = [_value_after(board, move, truth) for move in legal if move]
    pairs = list(zip(found.evaluations, true, strict=True))
    error = sum(abs(mine - value) for mine, value in pairs) / len(pairs)
    wrong = sum(abs(value) > CLEAR and _sign(mine) != _sign(value) for mine, value in pairs)
    return max(max(0.0, 1.0 - error) + WRONG_SIGN * wrong, -1.0)


def _value_after(board: chess.Board, move: chess.Move, truth: Truth) -> float:
    """Return the value of a move in pawns: of the position after it, for the player who made it."""
    after = board.copy(stack=False)
    after.push(move)
    return -truth.value(after)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _clamp(value: float) -> float:
    return min(max(value, -1.0), 1.0)
