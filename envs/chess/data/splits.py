"""Splits of positions: every split has games of its own, and no position (FEN) is in two splits or twice in one.

The held-out and validation positions are chosen first and do not depend on the number of training positions, so a
longer training never includes them. Positions of the first plies, which most games share, are for training only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sparring.configs.core.errors import InputError
from sparring.configs.games.chess import ChessDataConfig
from sparring.envs.chess.data.games import MoveSource, PositionRecord, play_game

TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held_out"
SPLITS = (HELD_OUT, VALIDATION, TRAIN)
"""In the order in which they are filled."""
SHARED_PLIES = 3
"""Half-moves after which a position may be held out."""
PATIENCE = 2000
"""Games in a row without a new position after which there are none left."""


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


def draw_positions(config: ChessDataConfig, engine: MoveSource | None = None) -> ChessPositions:
    """Play games until all splits have their number of positions; equal arguments give equal positions.

    Raises `InputError` if there are not as many different positions.
    """
    seen: set[str] = set()
    sizes = {HELD_OUT: config.held_out, VALIDATION: config.validation, TRAIN: config.train}
    return ChessPositions({split: _fill(config, split, sizes[split], seen, engine) for split in SPLITS})


def _fill(
    config: ChessDataConfig, split: str, size: int, seen: set[str], engine: MoveSource | None
) -> tuple[PositionRecord, ...]:
    found: list[PositionRecord] = []
    number, since = 0, 0
    while len(found) < size:
        fresh = [record for record in play_game(config, SPLITS.index(split), number, engine) if record.fen not in seen]
        fresh = [record for record in fresh if split == TRAIN or record.ply >= SHARED_PLIES][: size - len(found)]
        seen.update(record.fen for record in fresh)
        found += fresh
        number, since = number + 1, 0 if fresh else since + 1
        if since > PATIENCE:
            raise InputError(
                f"env.data.{split}={size}: games of env.data.plies={config.plies} half-moves gave only {len(found)}"
                f" different positions; ask for fewer, or for longer games"
            )
    return tuple(found)
