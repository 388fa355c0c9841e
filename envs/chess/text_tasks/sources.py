"""Engine and positions of a run, opened once in a process: several parts of a run share the engine's values."""

from __future__ import annotations

import atexit
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

from sparring.configs.games.chess import ChessDataConfig
from sparring.configs.schema import ChessEnvConfig
from sparring.envs.chess.data.files import StoredPositions, read_positions
from sparring.envs.chess.data.splits import draw_positions, needs_engine
from sparring.envs.chess.engines.engine import Engine, open_engine


def engine_of(env: ChessEnvConfig) -> Engine:
    """Return the engine of a run; raises `InputError` if it cannot be used."""
    return _opened(*astuple(env.engine))


def positions_of(env: ChessEnvConfig) -> StoredPositions:
    """Return the positions of `env.data`, read or drawn; raises `InputError`."""
    data = env.data
    if data.folder:
        return _stored(data.folder)
    return _drawn(astuple(data), astuple(env.engine) if needs_engine(data) else None)


@cache
def _opened(path: str, depth: int, processes: int, file: str) -> Engine:
    engine = open_engine(path, depth=depth, processes=processes, cache=Path(file) if file else None)
    atexit.register(engine.close)
    return engine


@cache
def _stored(folder: str) -> StoredPositions:
    return read_positions(Path(folder))


@cache
def _drawn(data: tuple[Any, ...], engine: tuple[Any, ...] | None) -> StoredPositions:
    positions = draw_positions(ChessDataConfig(*data), _opened(*engine) if engine else None)
    return StoredPositions(positions)
