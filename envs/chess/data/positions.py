"""Play games for their positions, and split these.

Moves are random; game number n of a split depends on the seed, the split and n only. Splits do not share games, and a
position (FEN) occurs only once in all splits. The held-out and validation positions are chosen first and do not depend
on the number of training positions, so more training positions never include them. Positions of the first plies, which
most games share, are for training only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import chess
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.chess.arbiter import HISTORY
from sparring.envs.chess.config import ChessDataConfig

TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held_out"
SPLITS = (HELD_OUT, VALIDATION, TRAIN)
"""In the order in which they are filled."""
SHARED_PLIES = 3
"""Half-moves after which a position may be held out."""
MOST_EMPTY_GAMES = 2000
"""Games in a row without a new position, after which drawing stops."""
RANDOM = "random"
"""Source of a game in a file of positions."""


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


def draw_positions(config: ChessDataConfig) -> ChessPositions:
    """Play games until all splits have their number of positions; equal arguments give equal positions.

    Raises `InputError` if fewer different positions exist.
    """
    drawn: set[str] = set()
    sizes = {HELD_OUT: config.held_out, VALIDATION: config.validation, TRAIN: config.train}
    return ChessPositions({split: _fill(config, split, sizes[split], drawn) for split in SPLITS})


def _fill(config: ChessDataConfig, split: str, size: int, drawn: set[str]) -> tuple[PositionRecord, ...]:
    records: list[PositionRecord] = []
    games = new_positions(config, split, drawn)
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


def new_positions(config: ChessDataConfig, split: str, drawn: Collection[str]) -> Iterator[list[PositionRecord]]:
    """Yield the positions of one game after another that are neither `drawn` nor in a game before.

    Ends after `MOST_EMPTY_GAMES` games in a row without one.
    """
    before, number, since = set(drawn), 0, 0
    while since <= MOST_EMPTY_GAMES:
        fresh = [record for record in play_game(config, SPLITS.index(split), number) if record.fen not in before]
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


def play_game(config: ChessDataConfig, split: int, number: int) -> list[PositionRecord]:
    """Play the first `config.plies` half-moves of a game, fewer if it ends; one record for each."""
    rng = np.random.default_rng([config.seed, split, number])
    _ = rng.random(), rng.integers(2)  # earlier versions drew who plays; positions stay the same
    board, moves, records = chess.Board(), list[str](), list[PositionRecord]()
    while len(records) < config.plies and not board.is_game_over():
        choices = sorted(move.uci() for move in board.legal_moves)
        fen, move = board.fen(), choices[int(rng.integers(len(choices)))]
        moves.append(move)
        records.append(PositionRecord(number, RANDOM, len(records), fen, move, tuple(moves[-HISTORY:])))
        board.push_uci(move)
    return records
