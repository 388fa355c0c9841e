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

from sparring.configs.core.errors import printable
from sparring.eval.chess.games import ChessGame

TEMPLATE = Path(__file__).with_name("replay.html")


def page(games: Sequence[ChessGame], *, title: str) -> str:
    """Return the page of several games. Titles and names cannot end their element or start another."""
    data = {"title": title, "games": [page_data(game) for game in games]}
    return fill_page(TEMPLATE, title=f"{title} · Sparring replay", data=data, pieces=_pieces())


def fill_page(template: Path, *, title: str, data: Any, **parts: str) -> str:
    """Return the text of `template` with every {{name}} replaced, in one pass.

    Names are `title` and `data` (JSON), both escaped, and those of `parts`.
    """
    plain = json.dumps(data, separators=(",", ":"))
    # In a script element only "<" needs escaping; & and > are escaped as well, to be safe.
    inert = plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    known = {"title": html.escape(printable(title)), "data": inert} | parts
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: known[mark[1]], template.read_text(encoding="utf-8"))


def page_data(game: ChessGame) -> dict[str, Any]:
    """Return the page's data of a game: a position before and after every half-move, and the moves between.

    `before` is the number of half-moves before the first position, as its FEN counts them.
    """
    board = game.board.root()
    positions, moves, before = [board.board_fen()], [], board.ply()
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
        "before": before,
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
