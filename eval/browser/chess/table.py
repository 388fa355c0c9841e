"""The game of one server: every open page shows it and may act, so that a page can be closed and opened again.

The opponent thinks in a thread. What it answers is dropped if the position it was asked about was taken back meanwhile.
From the person's first move on, the game is written as PGN after every half-move, and as a replay at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.envs.text import mix
from sparring.eval.browser.chess.opponents import ChessOpponents, MoveAnswer
from sparring.eval.browser.chess.person_game import PersonGame, name_players, new_game
from sparring.eval.browser.connection import free_path, in_thread
from sparring.eval.chess.games import ChessGame, MoveRequest
from sparring.eval.chess.options import SIDES
from sparring.eval.chess.results import page, to_pgn

EVENT = "Sparring play"


@dataclass(frozen=True)
class TableRules:
    """Conditions of all games of a server."""

    side: str
    """The person's: white, black or random."""
    fen: str
    """Position in which games begin."""
    lose: bool
    """True if an illegal answer loses the game; else a random move replaces it."""
    seed: int
    folder: Path
    """Folder of PGN files and replays."""


class ChessTable:
    """The game of a server. `offered` are the names of opponents that the page may choose; the first one plays.

    Attributes:
        play: the game.
        opponent: name of the opponent, one of `offered`.
        thinking: True while the opponent is asked.
        problem: why the opponent did not answer, or a file could not be written; empty if nothing failed.
        saved: path of the PGN, None before the first move.

    """

    def __init__(
        self, opponents: ChessOpponents, offered: tuple[str, ...], rules: TableRules, resumed: ChessGame | None = None
    ) -> None:
        self.offered, self._opponents, self.rules = offered, opponents, rules
        self.opponent = offered[0]
        self.thinking, self.problem = False, ""
        self.saved: Path | None = None
        self._games = 0
        """Games of this server before the present one."""
        self._asked: MoveRequest | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: set[Callable[[], None]] = set()
        self.play = self._make(resumed or self._new(rules.side), opponents.load(self.opponent).name)

    @property
    def plies(self) -> int:
        """Half-moves of the game."""
        return len(self.play.board.move_stack)

    def replay(self) -> str:
        """Return the replay of the game so far as a page."""
        return page([self.play.game], title=_title(self.play.game))

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after every change of the game, until the returned function is called."""
        self._watchers.add(changed)
        return lambda: self._watchers.discard(changed)

    async def begin(self, opponent: str, side: str) -> None:
        """Start a game. Raises `InputError` for a name that is not offered, or an opponent that cannot play."""
        choose("opponent", opponent, self.offered)
        choose("side", side, SIDES)
        player = await in_thread(lambda: self._opponents.load(opponent))
        self.opponent = opponent
        self._games += 1
        self.saved = None
        self.play = self._make(self._new(side), player.name)
        self._forget()
        self._tell()
        self.think()

    def move(self, text: str) -> None:
        """Play a move of the person; raises `InputError` as `PersonGame.move`, as do the next three."""
        self.play.move(text)
        self._changed()

    def undo(self) -> None:
        """Take back a move of the person."""
        self.play.undo()
        self._changed()

    def resign(self) -> None:
        """End the game with a win of the opponent."""
        self.play.resign()
        self._changed()

    def claim(self) -> None:
        """End the game with a draw."""
        self.play.claim()
        self._changed()

    def save(self) -> Path:
        """Write PGN and replay, and return the path of the PGN. Raises `InputError` where that is not possible."""
        return self._write(with_replay=True)

    def think(self) -> None:
        """Ask the opponent in the background if it is to move and was not asked, or failed, before."""
        if not self.thinking and not self.play.game.over and not self.play.your_turn:
            self.thinking, self._asked, self.problem = True, self.play.request(), ""
            task = asyncio.get_running_loop().create_task(self._think(self._asked))
            self._tasks.add(task)  # the loop holds weak references only
            task.add_done_callback(self._tasks.discard)
            self._tell()

    def message(self) -> dict[str, Any]:
        """Return what the page shows."""
        state = {"opponent": self.opponent, "thinking": self.thinking, "problem": self.problem}
        saved = str(self.saved) if self.saved else ""
        return {"kind": "game", "saved": saved, **state, **self.play.message()}

    async def _think(self, request: MoveRequest) -> None:
        problem, answer = "the opponent failed; the terminal says how", None
        try:
            name = self.opponent
            answer = await in_thread(lambda: self._opponents.answer(name, request))
        except InputError as error:
            problem = str(error)
        finally:
            if self._asked is request:
                self._settle(answer, problem)

    def _settle(self, answer: MoveAnswer | None, problem: str) -> None:
        """Play the opponent's answer, or keep the problem."""
        self._forget()
        if answer:
            self.play.answer(answer)
            self._store()
        else:
            self.problem = problem
        self._tell()

    def _new(self, side: str) -> ChessGame:
        draw = np.random.default_rng(mix(self.rules.seed, self._games))
        color = bool(draw.integers(2)) if side == "random" else side == "white"
        return new_game(self.rules.fen, color)

    def _make(self, game: ChessGame, opponent: str) -> PersonGame:
        return PersonGame(name_players(game, opponent), lose=self.rules.lose, seed=mix(self.rules.seed, self._games))

    def _changed(self) -> None:
        """Store the game after an action of the person, and let the opponent answer."""
        self._forget()
        self._store()
        self._tell()
        self.think()

    def _forget(self) -> None:
        """Drop the answer that the opponent may be thinking about, and the last problem."""
        self.thinking, self._asked, self.problem = False, None, ""

    def _store(self) -> None:
        try:
            if self.play.moved or self.saved:
                self._write(with_replay=self.play.game.over)
        except InputError as error:
            self.problem = str(error)

    def _write(self, *, with_replay: bool) -> Path:
        game, path = self.play.game, self.saved or free_path(self.rules.folder, "game", ".pgn", ".html")
        try:
            write_atomically(path, to_pgn([game], event=EVENT))
            self.saved = path
            if with_replay:
                write_atomically(path.with_suffix(".html"), self.replay())
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}); give another --replays") from error
        return path

    def _tell(self) -> None:
        for changed in list(self._watchers):
            changed()


def _title(game: ChessGame) -> str:
    return f"Chess: {game.white} – {game.black}"
