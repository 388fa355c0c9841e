"""Chess on the server: opponents by name, the one game shown on every open page, and the pages' messages.

A page can be closed and opened again. The opponent thinks in a thread; its answer is dropped if the position was taken
back in the meantime. From the person's first move on, the game is written as PGN after every half-move, and as a replay
at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, NotRequired

import chess
import numpy as np
from pydantic import Strict, StringConstraints
from typing_extensions import TypedDict

from sparring.agents.opponents.players import Player, runs_of
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import CHECKPOINTS, write_atomically
from sparring.configs.core.serving import in_thread
from sparring.configs.core.typed import Count, Text, read, require
from sparring.envs.chess import BOTS, GAME
from sparring.envs.chess.analysis import read_analysis
from sparring.envs.chess.browser.person_game import MoveAnswer, PersonGame, name_players, new_game
from sparring.envs.chess.evaluation.games import ChessGame, ChessPlayer
from sparring.envs.chess.evaluation.models import ModelAnswers, ModelPlayer, MoveRequest
from sparring.envs.chess.evaluation.options import SIDES, BotName, find_chess_player
from sparring.envs.chess.evaluation.results import page, to_pgn
from sparring.envs.text import mix
from sparring.eval.browser.server import Send, free_path
from sparring.eval.browser.watched import WatchedGame, WatchingPage
from sparring.eval.command import fill_page, join_files, use_machine

OFFERED = ("random", "builtin", "stockfish:1", "stockfish:3", "stockfish:8")
"""Bots that the page offers."""


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

    `engine` is the path of a UCI engine, "" for Stockfish; the other fields are as in `eval.chess.players`.
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
        """Stop the engines; if an answer is still in progress after a second, leave it to the end of the process."""
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
        from sparring.envs.chess.evaluation.games import open_player

        how = ModelAnswers(temperature=self.temperature, tokens=self.tokens)
        return open_player(player, device, opened=self._opened, engine=self.engine, how=how)


def answer_of(player: ChessPlayer, request: MoveRequest) -> MoveAnswer:
    """Return a player's answer to one request."""
    if isinstance(player, ModelPlayer):
        (text,) = player.write([request])
        return MoveAnswer(read_analysis(text).best, text)
    (move,) = player.answer([request])
    return MoveAnswer(move)


EVENT = "Sparring play"


@dataclass(frozen=True)
class TableRules:
    """Conditions of all games of a server."""

    side: str
    """The person's: white, black or random."""
    fen: str
    """Starting position of the games."""
    lose: bool
    """True if an illegal answer loses the game; else a random move replaces it."""
    seed: int
    folder: Path
    """Folder of PGN files and replays."""


class ChessTable(WatchedGame):
    """The game of a server. `offered` are the names of opponents that the page may choose; the first one plays.

    Attributes:
        play: the game.
        opponent: name of the opponent, one of `offered`.
        thinking: True while the opponent is choosing a move.
        problem: why the opponent did not answer, or a file could not be written; empty if nothing failed.
        saved: path of the PGN, None before the first move.

    """

    def __init__(
        self, opponents: ChessOpponents, offered: tuple[str, ...], rules: TableRules, resumed: ChessGame | None = None
    ) -> None:
        super().__init__()
        self.offered, self._opponents, self.rules = offered, opponents, rules
        self.opponent = offered[0]
        self.thinking, self.problem = False, ""
        self.saved: Path | None = None
        self._games = 0
        """Previous games of this server."""
        self._asked: MoveRequest | None = None
        self.play = self._make(resumed or self._new(rules.side), opponents.load(self.opponent).name)

    @property
    def plies(self) -> int:
        """Half-moves of the game."""
        return len(self.play.board.move_stack)

    def replay(self) -> str:
        """Return the replay of the game so far as a page."""
        return page([self.play.game], title=_title(self.play.game))

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
        self.tell()
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
        """Write PGN and replay, and return the path of the PGN. Raises `InputError` if that fails."""
        return self._write(with_replay=True)

    def think(self) -> None:
        """Query the opponent in the background if it is to move and was not queried yet, or failed."""
        if not self.thinking and not self.play.game.over and not self.play.your_turn:
            self.thinking, self._asked, self.problem = True, self.play.request(), ""
            self.in_background(self._think(self._asked))
            self.tell()

    def message(self) -> dict[str, Any]:
        """Return the content of the page."""
        state = {"opponent": self.opponent, "thinking": self.thinking, "problem": self.problem}
        saved = str(self.saved) if self.saved else ""
        return {"kind": "game", "saved": saved, **state, **self.play.message()}

    async def _think(self, request: MoveRequest) -> None:
        problem, answer = "the opponent failed; see the terminal", None
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
        self.tell()

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
        self.tell()
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


def _title(game: ChessGame) -> str:
    return f"Chess: {game.white} – {game.black}"


MoveText = Annotated[str, Strict(), StringConstraints(min_length=1, max_length=16)]
_FOLDER = Path(__file__).parent


def live_page(opponents: Sequence[str], side: str, socket: str) -> str:
    """Return the page with a choice of `opponents`; it may connect to `socket` only. `side` is chosen at first."""
    data = {"opponents": list(opponents), "sides": list(SIDES), "side": side}
    script = join_files(_FOLDER, "pieces.js", "board.js", "page.js")
    return fill_page(_FOLDER / "page.html", title="Sparring · chess", data=data, script=script, connect=socket)


class ChessMessage(TypedDict):
    """A message from the page; the other keys depend on `kind`."""

    kind: Literal["begin", "move", "undo", "resign", "claim", "retry", "save"]
    opponent: NotRequired[Text]
    side: NotRequired[Text]
    text: NotRequired[MoveText]
    ply: NotRequired[Count]
    """Half-moves of the game to which the page adds a move."""


@dataclass(frozen=True)
class HostedChess:
    """The pages and connections of a server; all show the game of one table."""

    table: ChessTable

    def page(self, path: str, socket: str) -> str | None:
        """Return the game page at "/", and the replay of the game so far at "/replay"."""
        if path == "/replay":
            return self.table.replay()
        return live_page(self.table.offered, self.table.rules.side, socket) if path == "/" else None

    def connect(self, send: Send) -> ChessSession:
        """Return a new connection."""
        return ChessSession(self.table, send)


class ChessSession(WatchingPage[ChessTable]):
    """One open page."""

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for an invalid message, an illegal move, or a failing opponent."""
        action = read(ChessMessage, message, "message")
        table = self._table
        match action["kind"]:
            case "begin":
                await self._begin(action)
            case "move":
                require("text" in action, "message.text is missing")
                require(action.get("ply", table.plies) == table.plies, "the game has changed; look at the board again")
                table.move(action["text"])
            case "undo":
                table.undo()
            case "resign":
                table.resign()
            case "claim":
                table.claim()
            case "retry":
                table.think()
            case "save":
                await self._note(f"saved {table.save()} and .html")

    async def _begin(self, action: ChessMessage) -> None:
        name = action.get("opponent", self._table.opponent)
        await self._note(f"loading {name} ...")
        await self._table.begin(name, action.get("side", self._table.rules.side))
        await self._note("")

    async def _note(self, text: str) -> None:
        await self._send({"kind": "note", "text": text})
