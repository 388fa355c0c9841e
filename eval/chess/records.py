"""Games as PGN, with the openings and illegal answers as comments."""

from __future__ import annotations

from collections.abc import Sequence

import chess.pgn

from sparring.eval.chess.games import ChessGame

EVENT = "Sparring evaluation"


def to_pgn(games: Sequence[ChessGame]) -> str:
    """Return all games; equal games give equal text."""
    return "\n\n".join(_game(game, number) for number, game in enumerate(games, 1)) + "\n"


def _game(game: ChessGame, number: int) -> str:
    record = chess.pgn.Game.from_board(game.board)
    record.headers.update({"Event": EVENT, "Site": "?", "Date": "????.??.??", "Round": str(number)})
    record.headers.update({"White": _tag(game.white), "Black": _tag(game.black), "Result": game.result})
    record.headers["Termination"] = game.ending
    nodes: list[chess.pgn.GameNode] = [record, *record.mainline()]
    if game.opening:
        nodes[game.opening].comment = "end of the random opening"
    for ply, answer in game.illegal_at.items():
        nodes[ply].comment = f"{nodes[ply].comment} illegal answer: {_tag(answer)}".strip()
    return record.accept(chess.pgn.StringExporter(headers=True, comments=True, variations=False))


def _tag(text: str) -> str:
    """Return a text without characters that end a tag or a comment in PGN."""
    return "".join("'" if char in '"\\{}' else char for char in text if char.isprintable())
