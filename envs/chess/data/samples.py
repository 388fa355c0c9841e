"""Samples of the two tasks: a prompt and its reference answer, by the rules (A) or by an engine (P)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import chess
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis_text import MOST_MOVES, Analysis, analysis_prompt, write_analysis
from sparring.envs.chess.arbiter_text import ArbiterQuestion, arbiter_prompt, true_transition, write_transition
from sparring.envs.chess.data.games import PositionRecord
from sparring.envs.chess.positions import check_position, read_legal_move

ANALYSIS, ARBITER = "P", "A"


class Labeller(Protocol):
    """Engine, as far as labels need it."""

    def batch_top_moves(self, boards: Sequence[chess.Board], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        """Return up to `count` best moves of each position with their values, best first."""


@dataclass(frozen=True)
class ChessSample:
    """A prompt of a task ("P" or "A") and its reference answer."""

    task: str
    prompt: str
    answer: str
    record: PositionRecord


def arbiter_sample(record: PositionRecord) -> ChessSample:
    """Return the A sample of a position and the move played in it."""
    question = ArbiterQuestion(record.fen, record.move, record.history)
    answer = write_transition(true_transition(record.fen, record.move))
    return ChessSample(ARBITER, arbiter_prompt(question), answer, record)


def analysis_sample(record: PositionRecord, analysis: Analysis, *, padded: bool) -> ChessSample:
    """Return the P sample of a position."""
    prompt, answer = analysis_prompt(record.fen, padded=padded), write_analysis(analysis, padded=padded)
    return ChessSample(ANALYSIS, prompt, answer, record)


def label(records: Sequence[PositionRecord], engine: Labeller, *, seed: int) -> list[Analysis]:
    """Return the engine's analysis of every position: its five best moves, in an order drawn from `seed`.

    Raises `InputError` for an analysis that `check_analysis` refuses.
    """
    found = engine.batch_top_moves([chess.Board(record.fen) for record in records], MOST_MOVES)
    analyses = []
    for record, lines in zip(records, found, strict=True):
        order = np.random.default_rng([seed, record.game, record.ply]).permutation(len(lines))
        best = lines[0][0] if lines else ""  # of equal values the engine's first
        shown = [lines[place] for place in order]
        analysis = Analysis(tuple(move for move, _ in shown), tuple(value for _, value in shown), best)
        check_analysis(record.fen, analysis)
        analyses.append(analysis)
    return analyses


def check_analysis(fen: str, analysis: Analysis) -> None:
    """Refuse a label whose best move has not the largest evaluation, or whose moves are illegal or repeated.

    Raises `InputError` naming the position.
    """
    board = check_position(fen)
    moves, values = analysis.moves, analysis.evaluations
    illegal = [move for move in moves if read_legal_move(board, move) is None]
    if illegal:
        raise InputError(f"position {fen!r}: the label's move {illegal[0]} is illegal; label it again")
    if not 1 <= len(moves) == len(values) <= MOST_MOVES or len(set(moves)) < len(moves):
        raise InputError(f"position {fen!r}: a label has 1 to {MOST_MOVES} different moves, each with a value")
    if analysis.best not in moves or values[moves.index(analysis.best)] < max(values):
        raise InputError(f"position {fen!r}: the label's best move {analysis.best} has not the best value")
