"""Opponents by name, as in `eval/run.py --env chess`, and their answers with the text of a language model."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import chess

from sparring.agents.opponents.players import Player, runs_of
from sparring.configs.core.files import CHECKPOINTS
from sparring.envs.chess import BOTS, GAME
from sparring.envs.chess.analysis import read_analysis
from sparring.eval.chess.games import ChessGame, ChessPlayer, ModelPlayer, MoveRequest
from sparring.eval.chess.options import BotName, find_chess_player
from sparring.eval.command import use_machine

OFFERED = ("random", "builtin", "stockfish:1", "stockfish:3", "stockfish:8")
"""Bots that the page offers."""


@dataclass(frozen=True)
class MoveAnswer:
    """An opponent's move in UCI, which may be illegal, and what a language model wrote; None for others."""

    move: str
    text: str | None = None


def saved_opponent(game: ChessGame) -> str:
    """Return the opponent of a saved game, "" unless it is a bot or a run that the page offers.

    A name in a file reaches neither other folders nor servers.
    """
    name = (game.white if game.player_is == chess.WHITE else game.black).partition(" ")[0]
    return name if name.partition(":")[0] in BOTS or name in runs_of(GAME, CHECKPOINTS) else ""


def known_chess_opponents(first: str) -> tuple[str, ...]:
    """Return the names that the page offers: `first`, bots, and runs with a final model."""
    return tuple(dict.fromkeys((first, *OFFERED, *runs_of(GAME, CHECKPOINTS))))


@dataclass
class ChessOpponents:
    """Loads opponents by name and keeps them until `close`. Its methods may be called from any thread.

    `engine` is the path of a UCI engine, "" for Stockfish; the other fields are those of `eval.chess.players`.
    """

    device: str = "cpu"
    engine: str = ""
    temperature: float = 0.0
    tokens: int | None = None
    quiet: bool = True
    loaded: dict[str, ChessPlayer] = field(default_factory=dict)
    _opened: ExitStack = field(default_factory=ExitStack)
    _lock: Lock = field(default_factory=Lock)

    def load(self, name: str) -> ChessPlayer:
        """Return the opponent `name`. Raises `InputError` for an unusable one."""
        with self._lock:
            if name not in self.loaded:
                self.loaded[name] = self._load(find_chess_player(name))
            return self.loaded[name]

    def answer(self, name: str, request: MoveRequest) -> MoveAnswer:
        """Return the answer of the opponent `name`. Raises `InputError` for a failing engine."""
        player = self.load(name)
        with self._lock:  # neither a model nor an engine serves two threads
            return answer_of(player, request)

    def close(self) -> None:
        """End the engines; with an answer in progress after a second, leave that to the end of the process."""
        if not self._lock.acquire(timeout=1.0):
            return
        try:
            self.loaded.clear()
            self._opened.close()
        finally:
            self._lock.release()

    def _load(self, player: BotName | Player) -> ChessPlayer:
        device = "cpu"
        if not isinstance(player, BotName):
            device, _ = use_machine(self.device, 0, quiet=self.quiet)
        from sparring.eval.chess.players import open_player

        how: dict[str, Any] = {"temperature": self.temperature, "tokens": self.tokens}
        return open_player(player, device, opened=self._opened, engine=self.engine, **how)


def answer_of(player: ChessPlayer, request: MoveRequest) -> MoveAnswer:
    """Return a player's answer to one request."""
    if isinstance(player, ModelPlayer):
        (text,) = player.write([request])
        return MoveAnswer(read_analysis(text).best, text)
    (move,) = player.answer([request])
    return MoveAnswer(move)
