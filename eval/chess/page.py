"""Games of chess as a self-contained HTML page: the board as SVG, and the games as JSON.

The page (`replay.html`) contains everything and makes no network requests. Pieces are drawn as python-chess draws them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chess
import chess.svg

from sparring.eval.chess.games import ChessGame

TEMPLATE = Path(__file__).with_name("replay.html")


def page(games: Sequence[ChessGame], *, title: str) -> str:
    """Return the page of several games. Titles and names cannot end their element or start another."""
    data = json.dumps({"title": title, "games": [_game(game) for game in games]}, separators=(",", ":"))
    # In a script element only "<" needs escaping; & and > are escaped as well, to be safe.
    inert = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    parts = {"title": html.escape(f"{title} · Sparring replay"), "data": inert, "pieces": _pieces()}
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"\{\{(title|data|pieces)\}\}", lambda mark: parts[mark[1]], template)


def _game(game: ChessGame) -> dict[str, Any]:
    """Return the page's data of a game: a position before and after every half-move, and the moves between."""
    board = game.board.root()
    positions, moves = [board.board_fen()], []
    for move in game.board.move_stack:
        moves.append([board.san(move), move.uci()])
        board.push(move)
        positions.append(board.board_fen())
    return {
        "white": game.white,
        "black": game.black,
        "result": game.result,
        "ending": game.ending,
        "opening": game.opening,
        "positions": positions,
        "moves": moves,
        "illegal": {str(ply): answer for ply, answer in game.illegal_at.items()},
    }


def _pieces() -> str:
    """Return the SVG definitions of all pieces, each under the id of its letter in a FEN."""
    found = []
    for side, letters in (("white", "PNBRQK"), ("black", "pnbrqk")):
        for letter in letters:
            shape = chess.svg.PIECES[letter]
            found.append(re.sub(r'id="[^"]*"', f'id="{side}-{letter.lower()}"', shape, count=1))
    return "\n".join(found)
