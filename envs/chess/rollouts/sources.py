"""Sources of a run's prompts and answers: positions and engine, the task of each group, and the sampling of answers.

Engine and positions are opened once in a process; several parts of a run share the engine's values. Tasks are first all
steps of P, then all of A, or both in every step.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import chess

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import MOST_MOVES, analysis_prompt, read_analysis, read_analysis_prompt
from sparring.envs.chess.config import AnalysisConfig, ArbiterConfig, ChessDataConfig, ChessEnvConfig, ChessTasksConfig
from sparring.envs.chess.data.positions import PositionRecord, draw_positions
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, StoredPositions, arbiter_sample, read_positions
from sparring.envs.chess.engines.engine import Engine, open_engine
from sparring.envs.chess.positions import collapse, position_after, possible_position, read_legal_move
from sparring.envs.text import FreeText

Answer = tuple[str, str, str]
"""Task, prompt and answer."""
NAMES = {ANALYSIS: "the analysis", ARBITER: "the arbiter"}


def engine_of(env: ChessEnvConfig) -> Engine:
    """Return the engine of a run; raises `InputError` if it cannot be used."""
    return _opened(*astuple(env.engine))


def positions_of(env: ChessEnvConfig) -> StoredPositions:
    """Return the positions of `env.data`, read or drawn; raises `InputError`."""
    data = env.data
    if data.folder:
        return _stored(data.folder)
    return _drawn(astuple(data))


@cache
def _opened(path: str, depth: int, processes: int, file: str) -> Engine:
    engine = open_engine(path, depth=depth, processes=processes, cache=Path(file) if file else None)
    atexit.register(engine.close)
    return engine


@cache
def _stored(folder: str) -> StoredPositions:
    return read_positions(Path(folder))


@cache
def _drawn(data: tuple[Any, ...]) -> StoredPositions:
    return StoredPositions(draw_positions(ChessDataConfig(*data)))


@dataclass(frozen=True)
class TaskPhase:
    """Steps with the same tasks; `tasks` is "P", "A" or "P+A"."""

    tasks: str
    steps: int


def phases(tasks: ChessTasksConfig, steps: int) -> list[TaskPhase]:
    """Return the phases of `steps` steps, without empty ones."""
    if tasks.mixed:
        return [TaskPhase(f"{ANALYSIS}+{ARBITER}", steps)]
    first = _part(tasks.analysis_share, steps)
    parts = (TaskPhase(ANALYSIS, first), TaskPhase(ARBITER, steps - first))
    return [phase for phase in parts if phase.steps]


def task_of_group(tasks: ChessTasksConfig, *, step: int, steps: int, group: int, groups: int) -> str:
    """Return the task of group number `group` in step number `step`."""
    index, total = (group, groups) if tasks.mixed else (step, steps)
    return ANALYSIS if index < _part(tasks.analysis_share, total) else ARBITER


def sampling(tasks: ChessTasksConfig, task: str) -> AnalysisConfig | ArbiterConfig:
    """Return the options of a task's answers."""
    return tasks.analysis if task == ANALYSIS else tasks.arbiter


def free_text(tasks: ChessTasksConfig, task: str) -> FreeText:
    """Return how answers to a task are sampled."""
    options = sampling(tasks, task)
    return FreeText(options.max_tokens, NAMES[task], temperature=options.temperature, top_p=options.top_p)


def prompt_text(task: str, record: PositionRecord) -> str:
    """Return the prompt of a task for a position."""
    if task == ARBITER:
        return arbiter_sample(record).prompt
    return analysis_prompt(record.fen)


def search_ahead(answers: Sequence[Answer], engine: Engine) -> None:
    """Search all positions that the rewards of `answers` need, in parallel; failures appear when they are used."""
    boards, after = list[chess.Board](), list[chess.Board]()
    for task, prompt, text in answers:
        board = possible_position(read_analysis_prompt(prompt)) if task == ANALYSIS else None
        if board is not None:
            boards.append(board)
            legal = (read_legal_move(board, move) for move in read_analysis(collapse(text)).moves)
            after += [position_after(board, move) for move in legal if move]
    try:
        engine.batch_top_moves(boards, MOST_MOVES)
        engine.batch_values(after)
    except InputError:
        return


def _part(share: float, total: int) -> int:
    """Return the share of `total`, at least 1 and at most all but 1 if both tasks have a share."""
    part = round(share * total)
    return min(max(part, 1), total - 1) if 0 < share < 1 and total > 1 else part
