"""Where a game begins: a position as FEN, or an unfinished game as PGN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import chess

from sparring.configs.core.errors import InputError
from sparring.configs.core.regular_file import open_regular
from sparring.configs.core.status import say
from sparring.envs.chess.positions import check_position
from sparring.eval.browser.chess.person_game import YOU
from sparring.eval.chess.games import ChessGame
from sparring.eval.chess.results import read_pgn

LARGEST_FILE = 1_000_000
"""Bytes of a PGN file."""


def read_fen(fen: str) -> str:
    """Return the FEN of the position in which games begin, the usual one for ""; raises `InputError`."""
    return check_position(fen or chess.STARTING_FEN, "--fen", playable=True).fen()


def resume_game(path: Path, side: str) -> ChessGame:
    """Return the unfinished game in a PGN file, with the person on `side`.

    Without a side, that of the player called You. Raises `InputError` for a file without such a game.
    """
    try:
        with open(open_regular(path, follow=True), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise InputError(f"is larger than {LARGEST_FILE} bytes; give a file with this game only")
        game = _first_game(path, data)
    except OSError as error:
        raise InputError(f"--resume {path}: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"--resume {path}: {error}") from error
    if game.over or game.board.is_game_over():
        raise InputError(f"--resume {path}: the game is over ({game.board.result()}); give an unfinished one")
    sides = {"white": chess.WHITE, "black": chess.BLACK}
    named = next(
        (color for color, name in zip(chess.COLORS, (game.white, game.black), strict=True) if name == YOU), None
    )
    person = sides.get(side, named)
    if person is None:
        raise InputError(f"--resume {path}: names no player {YOU}; say which side you play, as in --side white")
    return replace(game, player_is=not person)


def _first_game(path: Path, data: bytes) -> ChessGame:
    """Return the first game of a file in UTF-8 or Latin-1, and say how many others are refused."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    file = read_pgn(text)
    count = len(file.games) + len(file.refused)
    why = f"{len(file.refused)} of {count} games refused; {file.refused[0]}" if file.refused else ""
    if not file.games:
        raise InputError(f"holds no game that can be played: {why or 'none with moves in PGN'}")
    if why:
        say(f"--resume {path}: {why}")
    return file.games[0]
