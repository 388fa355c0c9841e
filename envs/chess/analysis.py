"""The P task (policy): a position is answered with up to five moves, their evaluations and the best move.

Prompt `P: <FEN>`, answer `M: <moves> E: <evaluations> B: <best>`, items separated by spaces; evaluations are in pawns
from the side to move. Each field has a fixed width, as in the published models. A reader accepts any spacing, text
around the fields, and missing fields.

The reward is verifiable: 0.5 best move + 0.3 candidates + 0.2 evaluations, clamped to [-1, 1]. The reference is an
engine: its five best moves, and its value of the position after each listed move.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import chess

from sparring.envs.chess.positions import FIELDS, UCI, collapse, position_after, possible_position, read_legal_move

MOST_MOVES = 5
FEN_WIDTH, MOVES_WIDTH, EVALUATIONS_WIDTH = 90, 30, 40
"""Characters of the padded fields; a longer field is not cut, and then no space precedes the next label."""
LONGEST_ANSWER = 4096
"""Characters; a longer answer is read as an empty one."""

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_MOVES = re.compile(r"M:([^E]*)(?:E:|\Z)")
_EVALUATIONS = re.compile(rf"E:\s*({_NUMBER}(?:\s+{_NUMBER})*)")
_BEST = re.compile(rf"B:\s*({UCI.pattern})")
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
"""Pawns; up to this the sign of an evaluation does not count."""


@dataclass(frozen=True)
class Analysis:
    """Answer of the P task: moves in UCI, evaluations in pawns from the side to move, and the best move, "" if missing.

    The numbers of moves and of evaluations may differ in an answer of a model.
    """

    moves: tuple[str, ...]
    evaluations: tuple[float, ...]
    best: str


def analysis_prompt(fen: str) -> str:
    """Return the prompt of a position, which ends where the label `M:` begins."""
    return f"P: {fen:<{FEN_WIDTH}}"


def write_analysis(analysis: Analysis) -> str:
    """Return the answer's text; evaluations are written as Python prints a float."""
    moves, values = " ".join(analysis.moves), " ".join(str(value) for value in analysis.evaluations)
    return f"M: {moves:<{MOVES_WIDTH}}E: {values:<{EVALUATIONS_WIDTH}}B: {analysis.best}"


def read_analysis(text: str) -> Analysis:
    """Read an answer; each field is found independently of the others. Never raises.

    The moves are the first five UCI words between the first usable `M:` and the next `E:` or the end. A capital E
    without a colon makes the field unusable. The evaluations are all numbers after `E:`, not cut to five. A text that
    is too long or has two best moves is read as an empty answer.
    """
    if len(text) > LONGEST_ANSWER or len(_BEST.findall(text)) > 1:
        return Analysis((), (), "")
    moves, values, best = _MOVES.search(text), _EVALUATIONS.search(text), _BEST.search(text)
    return Analysis(
        tuple(UCI.findall(moves[1])[:MOST_MOVES]) if moves else (),
        tuple(float(number) for number in values[1].split()) if values else (),
        best[1] if best else "",
    )


def read_analysis_prompt(prompt: str) -> str:
    """Return the FEN of a prompt: the first six fields after `P:`, "" without `P:`."""
    _, label, rest = prompt.partition("P:")
    return " ".join(rest.split()[:FIELDS]) if label else ""


class Truth(Protocol):
    """Engine interface of the reward; values are in pawns from the side to move."""

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
    """Score an answer to a prompt; never raises for any text. The engine is not queried for an impossible position."""
    board = possible_position(read_analysis_prompt(prompt))
    if board is None:
        return AnalysisScore(BAD_PROMPT)
    analysis = read_analysis(collapse(answer))
    top = [move for move, _ in truth.top_moves(board, MOST_MOVES)]
    best, candidates = best_reward(board, analysis.best, top), candidates_reward(board, analysis.moves, top)
    evaluations = evaluations_reward(board, analysis, truth)
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
    order = sum(bonus for bonus, listed, true in zip(IN_ORDER, legal, top, strict=False) if listed == true)
    return _clamp(jaccard + order + penalty)


def evaluations_reward(board: chess.Board, analysis: Analysis, truth: Truth) -> float:
    """Return 1 - mean absolute error in pawns, at least 0, less a penalty per wrong sign, at least -1 in all."""
    if not analysis.moves or not analysis.evaluations:
        return NO_EVALUATIONS
    if len(analysis.evaluations) != len(analysis.moves):
        return WRONG_COUNT
    legal = [read_legal_move(board, move) for move in analysis.moves]
    if not all(legal):
        return ILLEGAL_LISTED
    true = [-truth.value(position_after(board, move)) for move in legal if move]
    pairs = list(zip(analysis.evaluations, true, strict=True))
    error = sum(abs(written - value) for written, value in pairs) / len(pairs)
    wrong = sum(abs(value) > CLEAR and _sign(written) != _sign(value) for written, value in pairs)
    return max(max(0.0, 1.0 - error) + WRONG_SIGN * wrong, -1.0)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _clamp(value: float) -> float:
    return min(max(value, -1.0), 1.0)
