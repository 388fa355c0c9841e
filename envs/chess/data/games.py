"""Games played for their positions: random moves, the engine against random moves, and the engine against itself.

Game number n of a split depends on the seed, the split and n only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import chess
import numpy as np

from sparring.configs.games.chess import ChessDataConfig
from sparring.envs.chess.arbiter_text import HISTORY

RANDOM, ENGINE, SELF_PLAY = "random", "engine", "self_play"
SOURCES = (RANDOM, ENGINE, SELF_PLAY)
CHOICES = 4
"""Best moves among which self-play draws, uniformly, so that its games differ."""


class MoveSource(Protocol):
    """Engine, as far as games need it."""

    def top_moves(self, board: chess.Board, count: int) -> Sequence[tuple[str, float]]:
        """Return up to `count` best moves in UCI with their values, best first."""


@dataclass(frozen=True)
class PositionRecord:
    """A position of a game and the move that was played: `history` are the last moves, that one included."""

    game: int
    source: str
    ply: int
    fen: str
    move: str
    history: tuple[str, ...]


def play_game(config: ChessDataConfig, split: int, number: int, engine: MoveSource | None) -> list[PositionRecord]:
    """Play the first `config.plies` half-moves of a game, fewer if it ends; one record for each.

    `engine` may be None if no share of the games needs it.
    """
    rng = np.random.default_rng([config.seed, split, number])
    shares = np.array([config.random_share, config.engine_share, config.self_play_share])
    source = SOURCES[int(rng.choice(len(SOURCES), p=shares / shares.sum()))]
    engine_side = bool(rng.integers(2))
    board, moves, records = chess.Board(), list[str](), list[PositionRecord]()
    while len(records) < config.plies and not board.is_game_over():
        choices = _choices(board, source, engine_side, engine)
        fen, move = board.fen(), choices[int(rng.integers(len(choices)))]
        moves.append(move)
        records.append(PositionRecord(number, source, len(records), fen, move, tuple(moves[-HISTORY:])))
        board.push_uci(move)
    return records


def _choices(board: chess.Board, source: str, engine_side: bool, engine: MoveSource | None) -> list[str]:
    """Return the moves from which to draw, in a fixed order."""
    if source == RANDOM or (source == ENGINE and board.turn != engine_side):
        return sorted(move.uci() for move in board.legal_moves)
    assert engine is not None
    return [move for move, _ in engine.top_moves(board, 1 if source == ENGINE else CHOICES)]
