"""Reference answers for imitation: endless passes over the training positions, each in an order of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.configs.schema import ChessCloneRunConfig, ChessEnvConfig
from sparring.envs.chess.analysis_text import Analysis
from sparring.envs.chess.data.games import PositionRecord
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, ChessSample, analysis_sample, arbiter_sample, label
from sparring.envs.chess.text_tasks.schedule import free_text
from sparring.envs.chess.text_tasks.sources import engine_of, positions_of
from sparring.envs.text import FreeText, Option


@dataclass(frozen=True)
class ReferenceAnswer:
    """A sample as a demonstration."""

    sample: ChessSample
    menu: FreeText
    chosen: tuple[Option, ...] = ()
    again: tuple[Option, ...] = ()

    @property
    def text(self) -> str:
        """Prompt text."""
        return self.sample.prompt

    @property
    def answer(self) -> str:
        """Text of the answer."""
        return self.sample.answer


class ChessDemonstrations:
    """`games` samples in every step, a constant share of them of the P task; `seed` decides the order."""

    def __init__(self, config: ChessCloneRunConfig, split: str, *, games: int, seed: int) -> None:
        self._tasks, self._seed = config.tasks, seed
        records = positions_of(config.env).positions[split]
        share = config.tasks.analysis_share
        self._analyses = labelled(config.env, records, share) if share else {}
        analysed = tuple(record for record in records if record.fen in self._analyses)
        self._pools = {ANALYSIS: analysed, ARBITER: records}
        first = round(share * games)
        self._sizes = {ANALYSIS: first, ARBITER: games - first}
        self._drawn = {ANALYSIS: 0, ARBITER: 0}
        self._orders: dict[str, np.ndarray] = {}
        sizes = (f"{len(self._pools[task])} positions of {task}" for task, size in self._sizes.items() if size)
        self.source = ", ".join(sizes)

    def next(self, *, twice: bool = False) -> list[list[ReferenceAnswer]]:
        """Return the next samples, each a group of its own; reference answers have no random draws to repeat."""
        return [[self._next(task)] for task, size in self._sizes.items() for _ in range(size)]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of samples drawn of each task."""
        return dict(self._drawn)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._drawn = {task: int(state[task]) for task in self._drawn}

    def close(self) -> None:
        """Do nothing: the process closes the engine."""

    def _next(self, task: str) -> ReferenceAnswer:
        """Return the next sample of a task; every pass over its positions has an order of its own."""
        pool, number = self._pools[task], self._drawn[task]
        self._drawn[task] += 1
        passed, place = divmod(number, len(pool))
        if place == 0 or task not in self._orders:
            rng = np.random.default_rng([self._seed, passed, task == ANALYSIS])
            self._orders[task] = rng.permutation(len(pool))
        return ReferenceAnswer(self._sample(task, pool[self._orders[task][place]]), free_text(self._tasks, task))

    def _sample(self, task: str, record: PositionRecord) -> ChessSample:
        if task == ARBITER:
            return arbiter_sample(record)
        return analysis_sample(record, self._analyses[record.fen], padded=self._tasks.analysis.padded)


def labelled(env: ChessEnvConfig, records: tuple[PositionRecord, ...], share: float) -> dict[str, Analysis]:
    """Return analyses by FEN: those of the folder, else the engine's of the first `share` of the records.

    Raises `InputError` if the folder has none for these records.
    """
    stored = positions_of(env).analyses
    known = {record.fen: stored[record.fen] for record in records if record.fen in stored}
    if known:
        return known
    if env.data.folder:
        raise InputError(
            f"env.data.folder={env.data.folder}: has no analyses for the P task; make it again with"
            " `python -m sparring.envs.chess.data labelled=N ...`"
        )
    chosen = records[: max(1, round(share * len(records)))]
    analyses = label(chosen, engine_of(env), seed=env.data.seed)
    return {record.fen: analysis for record, analysis in zip(chosen, analyses, strict=True)}
