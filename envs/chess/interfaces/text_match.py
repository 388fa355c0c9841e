"""A chess text task as a match of one prompt and one answer, for environment hubs.

Rewards are those of `analysis.py` and `arbiter.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from threading import Lock

from sparring.configs.core.errors import InputError
from sparring.envs.chess.config import ChessEnvConfig
from sparring.envs.chess.data.positions import HELD_OUT, TRAIN, VALIDATION, PositionRecord, new_positions
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER
from sparring.envs.chess.rollouts.sources import engine_of, positions_of, prompt_text
from sparring.envs.chess.rollouts.task import reward_of
from sparring.envs.hubs.matches import READ, TRUNCATED, CancellableMatch, MatchTurn, check_seed

MOST_POSITIONS = 20_000
"""Largest option of a match, which bounds the work of one call: about ten seconds on one core at the first use."""


class ChessMatch(CancellableMatch):
    """One text task of chess: `chess_analysis` of a position, or `chess_arbiter`, the board after a move.

    The position is number seed % `positions` of the project's training positions. The engine is the installed one, or
    the built-in search.
    """

    def __init__(self, task: str, *, positions: int = 2000) -> None:
        super().__init__()
        if isinstance(positions, bool) or not isinstance(positions, int) or not 1 <= positions <= MOST_POSITIONS:
            raise InputError(f"positions={positions!r}: must be a whole number in [1, {MOST_POSITIONS}]")
        self._task = ANALYSIS if task == "chess_analysis" else ARBITER
        self._positions = positions
        self._engine = engine_of(ChessEnvConfig()) if self._task == ANALYSIS else None
        self._name, self._prompt = task, ""

    def start(self, seed: int) -> MatchTurn:
        """Choose the position."""
        record = _drawn_positions().number(check_seed(seed) % self._positions, self._go_on)
        self._prompt = prompt_text(self._task, record)
        return MatchTurn(self._prompt, 0, facts={"task": self._name, "fen": record.fen})

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Score the answer."""
        if not self._prompt:
            raise InputError("the match is over, or has not started: start it with a seed")
        reward = reward_of((self._task, self._prompt, text), self._engine)
        self._prompt = ""
        status = TRUNCATED if cut else READ
        return MatchTurn("", -1, done=True, reward=reward, rewards={0: reward}, answer=status)

    def close(self) -> None:
        """Do nothing: the process closes the engine."""


class DrawnPositions:
    """The project's training positions, in their order, drawn as far as they are needed and shared by all matches."""

    def __init__(self) -> None:
        env = ChessEnvConfig()
        env.data.train = 1
        others = positions_of(env).positions
        seen = {record.fen for split in (HELD_OUT, VALIDATION) for record in others[split]}
        self._games = new_positions(env.data, TRAIN, seen)
        self._records: list[PositionRecord] = []
        self._drawing = Lock()

    def number(self, index: int, go_on: Callable[[], None]) -> PositionRecord:
        """Return position `index`; `go_on` is called before each game that is drawn, and may raise."""
        go_on()
        while index >= len(self._records):
            go_on()
            with self._drawing:
                self._records += next(self._games)
        return self._records[index]


_positions_lock = Lock()


def _drawn_positions() -> DrawnPositions:
    with _positions_lock:
        return _the_positions()


@cache
def _the_positions() -> DrawnPositions:
    return DrawnPositions()


analysis_match, arbiter_match = partial(ChessMatch, "chess_analysis"), partial(ChessMatch, "chess_arbiter")
