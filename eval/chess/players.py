"""Players of a chess evaluation: each answers many positions at once with a move in UCI, or with text that is none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import chess
import numpy as np

from sparring.agents.llm.backend import Backend
from sparring.agents.opponents.python_source import OpponentError, asked
from sparring.agents.opponents.suggestions import BOT_PREFIX
from sparring.configs.opponents import named_source, registered_name
from sparring.envs.chess.analysis_text import analysis_prompt, read_analysis
from sparring.envs.chess.engines.engine import BUILT_IN, Engine, open_engine
from sparring.envs.chess.positions import collapse
from sparring.envs.chess.random_games import random_move
from sparring.envs.text import FreeText, Prompt
from sparring.eval.chess.options import PYTHON, RANDOM, STOCKFISH, BotName


@dataclass(frozen=True)
class MoveRequest:
    """A position with a legal move, and the seed of its draws."""

    board: chess.Board
    seed: int


class ChessPlayer(Protocol):
    """A player; its answer to a request does not depend on the other requests."""

    @property
    def name(self) -> str:
        """Name in tables, with version and depth of an engine."""

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return a move in UCI for each request; it may be illegal, and empty if there is none."""


@dataclass(frozen=True)
class RandomPlayer:
    """Plays every legal move with equal probability."""

    name: str = "random"

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return a random legal move for each request."""
        moves = (random_move(one.board, np.random.default_rng(one.seed)) for one in requests)
        return [move.uci() if move else "" for move in moves]


@dataclass(frozen=True)
class EnginePlayer:
    """Plays an engine's best move."""

    name: str
    engine: Engine

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the best moves; the engine's processes search in parallel."""
        return [lines[0][0] for lines in self.engine.batch_top_moves([one.board for one in requests], 1)]


class PythonPlayer:
    """A Python object, `act(observation) -> move`, with the observations of the PettingZoo environment."""

    def __init__(self, source: Any, name: str) -> None:
        self.name, self._ask = registered_name(source) or name, asked(source, name)

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return what the object answers to each request. Raises `InputError` for an answer that is no text."""
        return [self._answer(one.board) for one in requests]

    def _answer(self, board: chess.Board) -> str:
        answer = self._ask(
            {"fen": board.fen(), "legal_moves": " ".join(sorted(move.uci() for move in board.legal_moves))}
        )
        if not isinstance(answer, str):
            kind = type(answer).__name__
            raise OpponentError(f"player {self.name}: act returned a {kind}; a move in UCI is a text, such as 'e2e4'")
        return answer.strip()


@dataclass(frozen=True)
class ModelPlayer:
    """Plays the best move `B:` that a language model writes as an answer to the P task."""

    name: str
    backend: Backend
    padded: bool
    tokens: int
    """Most tokens of an answer."""

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the best moves of the model's analyses."""
        return [read_analysis(text).best for text in self.write(requests)]

    def write(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the model's analyses as text, with runs of white space as one space."""
        menu = FreeText(self.tokens, self.name)
        prompts = [Prompt(analysis_prompt(one.board.fen(), padded=self.padded), menu, one.seed) for one in requests]
        return [collapse(decision.text) for decision in self.backend.decide(prompts)]


def open_bot(bot: BotName, opened: ExitStack, *, engine: str = "", cache: Path | None = None) -> ChessPlayer:
    """Return a bot or a Python object, whose module is imported; `opened` closes a bot's engine.

    The name of an engine has its version and depth, and says if another stands in for it. `engine` is the path of a
    UCI engine, "" for Stockfish on the PATH, and `cache` the file that keeps what it finds.
    Raises `InputError` for a path that is no engine.
    """
    if bot.kind == PYTHON:
        return PythonPlayer(named_source(bot.text), bot.text)
    if bot.kind == RANDOM:
        return RandomPlayer()
    path, depth = (engine, bot.depth) if bot.kind == STOCKFISH else (BUILT_IN, 1)
    found = opened.enter_context(open_engine(path, depth=depth, cache=cache))
    return EnginePlayer(f"{bot.text.removeprefix(BOT_PREFIX)} ({found.name})", found)
