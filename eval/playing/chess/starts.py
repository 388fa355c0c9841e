"""Where a game begins: a position as FEN, or an unfinished game as PGN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import chess

from sparring.configs.core.errors import InputError
from sparring.configs.core.regular_file import open_regular
from sparring.envs.chess.positions import read_position
from sparring.eval.chess.games import ChessGame
from sparring.eval.chess.records import read_pgn
from sparring.eval.playing.chess.person_game import YOU

LARGEST_FILE = 1_000_000
"""Bytes of a PGN file."""


def read_fen(fen: str) -> str:
    """Return the FEN of the position in which games begin, the usual one for ""; raises `InputError`."""
    board = read_position(fen) if fen else chess.Board()
    if board is None or not board.is_valid() or board.is_game_over():
        raise InputError(f"--fen {fen!r}: give a possible position with a legal move, as FEN")
    return board.fen()


def resume_game(path: Path, side: str) -> ChessGame:
    """Return the unfinished game in a PGN file, with the person on `side`.

    Without a side, that of the player called You. Raises `InputError` for a file without such a game.
    """
    try:
        with open(open_regular(path, follow=True), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise InputError(f"is larger than {LARGEST_FILE} bytes; give a file with this game only")
        game = read_pgn(data.decode())
    except UnicodeDecodeError:
        raise InputError(f"--resume {path}: is no text in UTF-8") from None
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
