"""Games as PGN, with the openings and the answers of language models as comments: written, and read again."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import chess.pgn

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis_text import read_analysis
from sparring.envs.chess.engines.lines import refuse_impossible
from sparring.envs.chess.positions import read_legal_move
from sparring.eval.chess.games import ChessGame, short_answer

EVENT = "Sparring evaluation"
_ANSWER = re.compile(r"(?:^|; )answer: ?(.*)", re.DOTALL)


def to_pgn(games: Sequence[ChessGame], *, event: str = EVENT) -> str:
    """Return all games; equal games give equal text."""
    return "\n\n".join(_game(game, number, event) for number, game in enumerate(games, 1)) + "\n"


def read_pgn(text: str) -> ChessGame:
    """Return the main line of the first game, with the answers of language models; White is the evaluated player.

    Raises `InputError` for a text without a move of standard chess, or with one that is not legal.
    """
    try:
        record = chess.pgn.read_game(io.StringIO(text), Visitor=_PGNBuilder)
        board = record.end().board() if record else chess.Board()
    except ValueError as error:
        raise InputError(f"is no game of chess in PGN ({error})") from error
    if record is None or not (record.variations or record.errors):
        raise InputError("is no game of chess in PGN, or one without moves")
    if record.errors or not all(board.move_stack):  # a null move is false
        raise InputError(f"holds a game that cannot be played ({(*record.errors, 'a null move')[0]})")
    if type(board) is not chess.Board or board.chess960:
        raise InputError("is a game of a variant; give one of standard chess")
    refuse_impossible(board.root())
    headers = record.headers
    game = ChessGame(board, headers["White"], headers["Black"], chess.WHITE, 0, result=headers["Result"])
    game.ending = headers.get("Termination", "") if game.over else ""
    for ply, node in enumerate([record, *record.mainline()]):
        if found := _ANSWER.search(node.comment):
            _keep_answer(game, ply, node.board(), found[1])
    return game


class _PGNBuilder(chess.pgn.GameBuilder):  # type: ignore[type-arg]
    """Builds a game and keeps its errors, without the log of python-chess."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


def _keep_answer(game: ChessGame, ply: int, board: chess.Board, text: str) -> None:
    game.texts[ply] = text
    best = read_analysis(text).best
    if read_legal_move(board, best) is None:
        game.illegal_at[ply] = short_answer(best)


def _game(game: ChessGame, number: int, event: str) -> str:
    record = chess.pgn.Game.from_board(game.board)
    record.headers.update({"Event": event, "Site": "?", "Date": "????.??.??", "Round": str(number)})
    record.headers.update({"White": _tag(game.white), "Black": _tag(game.black), "Result": game.result})
    if game.over:
        record.headers["Termination"] = game.ending
    nodes: list[chess.pgn.GameNode] = [record, *record.mainline()]
    if game.opening:
        nodes[game.opening].comment = "end of the random opening"
    for ply, answer in game.illegal_at.items():
        nodes[ply].comment = f"{nodes[ply].comment} illegal answer: {_tag(answer)}".strip()
    for ply, text in game.texts.items():
        nodes[ply].comment = "; ".join(part for part in (nodes[ply].comment, f"answer: {_tag(text)}") if part)
    return record.accept(chess.pgn.StringExporter(headers=True, comments=True, variations=False))


def _tag(text: str) -> str:
    """Return a text without characters that end a tag or a comment in PGN."""
    return "".join("'" if char in '"\\{}' else char for char in text if char.isprintable())
