"""Best response in chess: an engine's search that queries the player's answers.

At a decision the engine lists its best moves. For each of them it queries the player's answer, and the engine values
the resulting position. It plays the move with the highest value. The attack is therefore at least as strong as the
engine, and exploits the player's mistakes. It does not train: random games take 332 half-moves (mean of ten), so two
million moves are 6,000 games.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import chess
import numpy as np

from sparring.agents.opponents.players import BOT_PREFIX
from sparring.configs.core.errors import InputError
from sparring.curriculum.opponents import label_of
from sparring.envs.chess.engines.engine import Engine, open_engine
from sparring.envs.chess.evaluation.games import ChessPlayer, GameConditions, MoveRequest, open_player, play_games
from sparring.envs.chess.evaluation.options import OPENING_PLIES, BotName, ChessMatchOptions, find_chess_player
from sparring.envs.chess.positions import read_legal_move
from sparring.envs.text import mix
from sparring.eval.command import use_machine
from sparring.eval.paired.response_game import SEARCH, STOCHASTIC, ResponseGame, ResponseOptions, Target

DEPTH = 8
"""Half-moves that Stockfish looks ahead; the built-in search, where Stockfish is missing, always has 2."""
WIDTH = 4
"""Number of moves per position for which the player is queried."""
WON = 100.0
"""Pawns: the engine's value of a position with a mated opponent."""
ABOUT = (
    "\n\nA win returns 1, a draw 0, a loss -1; an illegal move loses. Games begin with "
    f"{OPENING_PLIES} random half-moves, which both seats play; seat 0 is White. `search` looks at an engine's {WIDTH} "
    "best moves and asks the player for its answer to each. The engine is {engine}.\n"
)


def read(responses: ResponseGame, text: str, options: Any) -> Target:
    """Read a player of chess. Raises `InputError` for attacks and outputs that chess does not have."""
    player = find_chess_player(text)
    if other := next((word for word in options.start if word != SEARCH), ""):
        raise InputError(f"--attacker {other}: chess has the attack {SEARCH} alone; leave it out")
    for option, path in (("--save", options.save), ("--replay", options.replay)):
        if path:
            raise InputError(f"{option} {path}: applies only to responses in OpenSpiel games; leave it out")
    if options.divided:
        budget = f"--moves {options.moves}" if options.moves else f"--minutes {options.minutes:g}"
        raise InputError(f"{budget}: applies only to attacks that learn, not to chess; leave it out")
    if STOCHASTIC in options.target:
        raise InputError(f"{text}: chess players act as they are; leave out --target {STOCHASTIC}")
    against = player.text.removeprefix(BOT_PREFIX) if isinstance(player, BotName) else str(player)
    name = against if isinstance(player, BotName) else label_of(against)
    digest = _digest(player) if isinstance(player, Path) else ""
    return Target(against, name, digest, responses)


def _digest(player: Path) -> str:
    """Return the hash of a language model's file, or of all files of its folder."""
    files = sorted(path for path in player.rglob("*") if path.is_file()) if player.is_dir() else [player]
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in files)).hexdigest()


@dataclass(frozen=True)
class SearchedMoves:
    """A chess player that queries the members of the opposing mixture."""

    members: Sequence[ChessPlayer]
    engine: Engine
    name: str = SEARCH

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return for each request the move with the worst average outcome for the members."""
        listed = self.engine.batch_top_moves([request.board for request in requests], WIDTH)
        tried = [
            (number, move, MoveRequest(_after(request.board, move), mix(request.seed, rank)))
            for number, (request, lines) in enumerate(zip(requests, listed, strict=True))
            for rank, (move, _) in enumerate(lines)
        ]
        values = np.mean([self._values(member, [asked for _, _, asked in tried]) for member in self.members], axis=0)
        best = [(-np.inf, "")] * len(requests)
        for (number, move, _), value in zip(tried, values, strict=True):
            if value > best[number][0]:  # of equal ones the engine's own order decides
                best[number] = (value, move)
        return [move for _, move in best]

    def _values(self, member: ChessPlayer, asked: Sequence[MoveRequest]) -> np.ndarray:
        """Return the values [N] in pawns, for the attacker, of positions in which a member is to move."""
        values = np.zeros(len(asked))
        going = [number for number, request in enumerate(asked) if not request.board.outcome()]
        for number, request in enumerate(asked):
            values[number] = WON if request.board.is_checkmate() else 0.0
        following: dict[int, chess.Board] = {}
        for number, answer in zip(going, member.answer([asked[number] for number in going]), strict=True):
            move = read_legal_move(asked[number].board, answer)
            if move is None:
                values[number] = WON
            else:
                following[number] = _after(asked[number].board, move.uci())
        values[[*following]] = self.engine.batch_values([*following.values()])
        return values


def _after(board: chess.Board, move: str) -> chess.Board:
    following = board.copy(stack=False)
    following.push_uci(move)
    return following


def play(options: ResponseOptions, targets: Sequence[Target], sampled: bool, response: Any, seed: int) -> np.ndarray:
    """Return the returns [G, 2] of White and Black, the response as White in even games; None: the policy has both.

    A mixture plays as many games as the options say with each of its members.
    """
    device, _ = use_machine(options.device, options.threads, quiet=True)
    conditions = GameConditions(
        options.games + options.games % 2, ChessMatchOptions.plies, OPENING_PLIES, lose=True, seed=seed
    )
    with ExitStack() as opened:
        members = [open_player(target.against, str(device), opened=opened) for target in targets]
        attacker = response and SearchedMoves(members, opened.enter_context(open_engine(depth=DEPTH)))
        games = [
            game
            for member in members
            for game in (play_games(attacker, member, conditions) if attacker else play_games(member, None, conditions))
        ]
    white = np.array([{"1-0": 1.0, "0-1": -1.0}.get(game.result, 0.0) for game in games])
    return np.stack([white, -white], axis=1)


def facts(*_: Any) -> tuple[dict[str, Any], str]:
    """Return the game, the engine, and an explanation of the figures."""
    with open_engine(depth=DEPTH) as engine:
        return {"env": "chess", "engine": engine.name}, ABOUT.format(engine=engine.name)


RESPONSES = {"read": read, "attacks": {SEARCH: lambda *_: SEARCH}, "play": play, "bounds": (-1.0, 1.0), "facts": facts}
"""Fields of the `ResponseGame`."""
