"""Games played for their positions, and splits of these.

Moves are random, the engine's against random ones, or the engine's against itself; game number n of a split depends on
the seed, the split and n only. Every split has games of its own, and no position (FEN) is in two splits or twice in
one. The held-out and validation positions are chosen first and do not depend on the number of training positions, so a
longer training never includes them. Positions of the first plies, which most games share, are for training only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import chess
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import Truth
from sparring.envs.chess.arbiter import HISTORY
from sparring.envs.chess.config import ChessDataConfig

TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held_out"
SPLITS = (HELD_OUT, VALIDATION, TRAIN)
"""In the order in which they are filled."""
SHARED_PLIES = 3
"""Half-moves after which a position may be held out."""
MOST_EMPTY_GAMES = 2000
"""Games in a row without a new position, after which drawing stops."""
RANDOM, ENGINE, SELF_PLAY = "random", "engine", "self_play"
SOURCES = (RANDOM, ENGINE, SELF_PLAY)
CHOICES = 4
"""Best moves among which self-play draws, uniformly, so that its games differ."""


@dataclass(frozen=True)
class ChessPositions:
    """Positions by split."""

    splits: Mapping[str, tuple[PositionRecord, ...]]

    def __getitem__(self, split: str) -> tuple[PositionRecord, ...]:
        return self.splits[split]

    def summary(self) -> list[str]:
        """Return one line per split: positions, games, and games by source."""
        return [self._line(split) for split in reversed(SPLITS)]

    def _line(self, split: str) -> str:
        records = self.splits[split]
        games = {record.game: record.source for record in records}
        sources = ", ".join(f"{count} {name}" for name, count in sorted(Counter(games.values()).items()))
        return f"{split}: {len(records)} positions of {len(games)} games ({sources})"


def needs_engine(config: ChessDataConfig) -> bool:
    """Return whether some of the games are played by the engine."""
    return config.engine_share + config.self_play_share > 0


def draw_positions(config: ChessDataConfig, engine: Truth | None = None) -> ChessPositions:
    """Play games until all splits have their number of positions; equal arguments give equal positions.

    Raises `InputError` if fewer different positions exist.
    """
    drawn: set[str] = set()
    sizes = {HELD_OUT: config.held_out, VALIDATION: config.validation, TRAIN: config.train}
    return ChessPositions({split: _fill(config, split, sizes[split], drawn, engine) for split in SPLITS})


def _fill(
    config: ChessDataConfig, split: str, size: int, drawn: set[str], engine: Truth | None
) -> tuple[PositionRecord, ...]:
    records: list[PositionRecord] = []
    games = new_positions(config, split, drawn, engine)
    while len(records) < size:
        fresh = next(games, None)
        if fresh is None:
            raise InputError(
                f"env.data.{split}={size}: games of env.data.plies={config.plies} half-moves gave only {len(records)}"
                f" different positions; ask for fewer, or for longer games"
            )
        records += fresh[: size - len(records)]
    drawn.update(record.fen for record in records)
    return tuple(records)


def new_positions(
    config: ChessDataConfig, split: str, drawn: Collection[str], engine: Truth | None = None
) -> Iterator[list[PositionRecord]]:
    """Yield the positions of one game after another that are neither `drawn` nor in a game before.

    Ends after `MOST_EMPTY_GAMES` games in a row without one.
    """
    before, number, since = set(drawn), 0, 0
    while since <= MOST_EMPTY_GAMES:
        fresh = [
            record for record in play_game(config, SPLITS.index(split), number, engine) if record.fen not in before
        ]
        fresh = [record for record in fresh if split == TRAIN or record.ply >= SHARED_PLIES]
        before.update(record.fen for record in fresh)
        yield fresh
        number, since = number + 1, 0 if fresh else since + 1


@dataclass(frozen=True)
class PositionRecord:
    """A position of a game and the move that was played: `history` are the last moves, that one included."""

    game: int
    source: str
    ply: int
    fen: str
    move: str
    history: tuple[str, ...]


def play_game(config: ChessDataConfig, split: int, number: int, engine: Truth | None) -> list[PositionRecord]:
    """Play the first `config.plies` half-moves of a game, fewer if it ends; one record for each.

    `engine` may be None if no share of the games needs it.
    """
    rng = np.random.default_rng([config.seed, split, number])
    drawn = 1.0 - config.engine_share - config.self_play_share
    shares = np.array([max(drawn, 0.0), config.engine_share, config.self_play_share])
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


def _choices(board: chess.Board, source: str, engine_side: bool, engine: Truth | None) -> list[str]:
    """Return the moves from which to draw, in a fixed order."""
    if source == RANDOM or (source == ENGINE and board.turn != engine_side):
        return sorted(move.uci() for move in board.legal_moves)
    assert engine is not None
    return [move for move, _ in engine.top_moves(board, 1 if source == ENGINE else CHOICES)]
