"""Reference answers for imitation: endless passes over the training positions, each shuffled.

`corpus` and `PIECES` are the texts and pieces for a tokenizer of the tasks. Tokens are nearly characters: every
position is written in the same way. Longer tokens are runs of pawns, two other adjacent men, a square of a move, and
results. There are half as many tokens as characters, and about a thousand kinds. Whole rows would be shorter still, but
one in ten positions has a row that does not occur in thousands of games.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import EVALUATIONS_WIDTH, FEN_WIDTH, MOVES_WIDTH, Analysis
from sparring.envs.chess.arbiter import DRAW, ILLEGAL, LEGAL, MATE
from sparring.envs.chess.config import ChessCloneRunConfig, ChessDataConfig, ChessEnvConfig
from sparring.envs.chess.data.positions import PositionRecord, play_game
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, ChessSample, analysis_sample, arbiter_sample, label
from sparring.envs.chess.rollouts.sources import engine_of, free_text, positions_of
from sparring.envs.text import FreeText, Option

SEED, PLIES = 64, 60
GAMES = (
    1, 9, 10, 14, 24, 26, 29, 34, 37, 41, 42, 54, 68, 69, 76, 90, 91, 95, 106, 116, 117, 130, 141, 142, 144, 149, 152,
    153, 155, 157, 160, 165, 169, 179, 180, 182, 185, 188, 192, 208, 214, 218, 223, 225, 232, 249, 254, 259, 261, 264,
    273, 292,
)  # fmt: skip
"""Games that together have every word of the first 300."""
PIECES = "|".join(
    (
        "A: ",
        r" [wb](?= )",
        r" [KQkq]+(?= )",
        r"[ +]?[a-h][1-8]",  # squares: a move is two
        r"[+]-?[0-9]+(?:\.[0-9]+)?",  # reward and flags
        r" -(?= )",
        r" -?[0-9]{1,2}|(?<=\.)[0-9]{1,2}",  # numbers, and the decimals of an evaluation
        r" {2,}",
        r"[PMEB]:",
        r"p+/?",
        r"P+/?",
        r"[1-8]/?",
        r"[rnbqkRNBQK]{1,2}/?",
        r"[\s\S]",
    )
)
"""Regular expression of a tokenizer's pieces."""
WORDS = ("P:", "M:", "E:", "B:", "A: ", " ", ".", "+", "q", "r", "b", "n")


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
        """Return the next samples, each a group of its own; reference answers are not random, so `twice` is ignored."""
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
        passed, index = divmod(number, len(pool))
        if index == 0 or task not in self._orders:
            rng = np.random.default_rng([self._seed, passed, task == ANALYSIS])
            self._orders[task] = rng.permutation(len(pool))
        return ReferenceAnswer(self._sample(task, pool[self._orders[task][index]]), free_text(self._tasks, task))

    def _sample(self, task: str, record: PositionRecord) -> ChessSample:
        if task == ARBITER:
            return arbiter_sample(record)
        return analysis_sample(record, self._analyses[record.fen])


def labelled(env: ChessEnvConfig, records: tuple[PositionRecord, ...], share: float) -> dict[str, Analysis]:
    """Return analyses by FEN: those of the folder, else the engine's of the first `share` of the records.

    Raises `InputError` if the folder holds none for these records.
    """
    stored = positions_of(env).analyses
    in_folder = {record.fen: stored[record.fen] for record in records if record.fen in stored}
    if in_folder:
        return in_folder
    if env.data.folder:
        raise InputError(
            f"env.data.folder={env.data.folder}: has no analyses for the P task; create it again with"
            " `python -m sparring.envs.chess.data labelled=N ...`"
        )
    chosen = records[: max(1, round(share * len(records)))]
    analyses = label(chosen, engine_of(env), seed=env.data.seed)
    return {record.fen: analysis for record, analysis in zip(chosen, analyses, strict=True)}


def corpus() -> Iterator[str]:
    """Yield all squares, numbers and results, then the texts of random games."""
    squares = [f"{file}{rank}" for file in "abcdefgh" for rank in range(1, 9)]
    yield from (f"{before}{square}" for square in squares for before in ("", " ", "+"))
    yield from WORDS
    yield from (f"+{value}" for value in (LEGAL, MATE, DRAW, ILLEGAL, "0", "1"))
    yield from (f"{before}{number}" for number in range(100) for before in (" ", " -", "."))
    yield from (f".{number:02}" for number in range(10))
    yield from (" " * width for width in range(2, max(FEN_WIDTH, MOVES_WIDTH, EVALUATIONS_WIDTH) + 1))
    castling = ["".join(right for bit, right in enumerate("KQkq") if mask >> bit & 1) for mask in range(16)]
    yield from (f"{turn} {rights or '-'} - 0 1" for turn in (" w", " b") for rights in castling)
    for number in GAMES:
        for record in play_game(ChessDataConfig(seed=SEED, plies=PLIES), 0, number):
            sample = arbiter_sample(record)
            yield sample.prompt
            yield sample.answer
