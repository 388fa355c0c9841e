"""Games as PGN, with the openings and the answers of language models as comments: written, and read again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import chess
import chess.pgn

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis_text import read_analysis
from sparring.envs.chess.positions import check_position, read_legal_move, refuse_impossible
from sparring.eval.chess.games import ChessGame, short_answer

EVENT = "Sparring evaluation"
_ANSWER = re.compile(r"(?:^|; )answer: ?(.*)", re.DOTALL)
_TAG = r'\[\s*(?P<name>\w+)\s+"(?P<value>(?:[^"\\\n]|\\.)*)"\s*\]'
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<escape>^%[^\n]*)
    | (?P<tag>{_TAG})
    | (?P<broken>^\[[^\n]*)
    | (?P<comment>\{{(?:[^}}\n]|\n(?!\[\w+\s+"))*\}}|;[^\n]*)
    | (?P<unclosed>\{{(?:[^\n]|\n(?!\[\w+\s+"))*)
    | (?P<open>\()
    | (?P<close>\))
    | (?P<mark>\$[0-9]+|[!?]+)
    | (?P<result>(?:1-0|0-1|1/2-1/2)(?![^\s(){{}};])|\*)
    | (?P<number>[0-9]+(?:\.+|(?=\s|\Z))(?<!\b0000)|\.+|e\.p\.(?=\s))
    | (?P<word>[^\s(){{}};$!?*]+|\S)
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Tokens of a file; a comment ends before the tags of the next game, where it is one without an end."""
_FIGURINES = str.maketrans("♔♕♖♗♘♚♛♜♝♞", "KQRBNKQRBN", "♙♟")
_PLAIN_ENDS = (chess.Termination.CHECKMATE, chess.Termination.STALEMATE)
"""Ends that leave no other result; in others a player may have lost on time."""


def to_pgn(games: Sequence[ChessGame], *, event: str = EVENT) -> str:
    """Return all games; equal games give equal text."""
    return "\n\n".join(_game(game, number, event) for number, game in enumerate(games, 1)) + "\n"


@dataclass(frozen=True)
class PGNFile:
    """Games of a text, and a line for each that is refused, with its number, half-move and token."""

    games: tuple[ChessGame, ...]
    refused: tuple[str, ...]


def read_pgn(text: str) -> PGNFile:
    """Return the main lines of all games, with the answers of language models; White is the evaluated player.

    Moves are in English SAN, with figurines, zeros and long forms allowed. A game is refused for a token that is not
    read whole, such as `Sf3`: python-chess reads it as `f3`. Variations, other comments and NAGs are skipped.
    """
    reader = _PGNReader()
    for token in _TOKEN.finditer(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")):
        reader.take(str(token.lastgroup), token)
    reader.end()
    return PGNFile(tuple(reader.games), tuple(reader.refused))


class _PGNReader:
    """Reads tokens in order: `games` are complete ones; a refused game is skipped to its end."""

    def __init__(self) -> None:
        self.games: list[ChessGame] = []
        self.refused: list[str] = []
        self._moves_began = False
        self._begin()

    def take(self, kind: str, token: re.Match[str]) -> None:
        """Read a token of `_TOKEN`, of the group `kind`."""
        if kind == "tag":
            if self._moves_began:
                self.end()
            self._tags[token["name"]] = re.sub(r"\\(.)", r"\1", token["value"])
        elif kind == "broken" and not self._moves_began:
            self._refuse(token[0], "is no tag")
        elif kind not in ("space", "escape"):
            self._moves_began = True
            self._depth += (kind == "open") - (kind == "close")
            if not self._why:
                self._take_movetext(kind, token[0])
            if kind == "result" and self._depth <= 0:
                self.end()

    def end(self) -> None:
        """End the game under way, if there is one."""
        game = self._game
        if not self._why and self._depth > 0:
            self._refuse("(", "is a variation without an end")
        if game and not self._why:
            self._check_result(game)
        if not self._why and self._tags and not (game and game.board.move_stack):
            self._refuse("", "has no moves")
        if self._why:
            self.refused.append(f"game {len(self.games) + len(self.refused) + 1}{self._why}")
        elif game and game.board.move_stack:
            self.games.append(game)
        self._begin()

    def _begin(self) -> None:
        self._tags: dict[str, str] = {}
        self._game: ChessGame | None = None
        self._why, self._depth, self._moves_began = "", 0, False

    def _take_movetext(self, kind: str, text: str) -> None:
        game = self._game = self._game or self._opened()
        if game is None:
            return
        if self._depth < 0:
            self._refuse(text, "ends no variation")
        elif kind == "unclosed":
            self._refuse(text, "is a comment without an end")
        elif self._depth:
            return
        elif kind == "comment" and (answer := _ANSWER.search(text[1:-1].strip())):
            _keep_answer(game, len(game.board.move_stack), game.board, answer[1])
        elif kind == "result" and game.result == "*":
            game.result = text
        elif kind in ("word", "broken"):
            self._play(game.board, text)

    def _opened(self) -> ChessGame | None:
        """Return the game of the tags, refused if they are not of standard chess."""
        try:
            if "FEN" in self._tags:
                check_position(self._tags["FEN"], "FEN")
            board, variant = chess.pgn.Headers(self._tags).board(), f"Variant {self._tags.get('Variant')!r}"
            if type(board) is not chess.Board:
                raise InputError(f"{variant}: is a variant; give standard chess")
            refuse_impossible(board, variant)
        except ValueError as error:
            self._why = f": {error}"
            return None
        white, black = self._tags.get("White", "?"), self._tags.get("Black", "?")
        return ChessGame(board, white, black, chess.WHITE, 0, result=self._tags.get("Result", "*"))

    def _play(self, board: chess.Board, text: str) -> None:
        move = text.translate(_FIGURINES).removesuffix("e.p.")
        try:
            played = board.parse_san(re.sub(r"[+#]+$", "", move))
        except chess.IllegalMoveError:
            return self._refuse(text, "is an illegal move")
        except chess.AmbiguousMoveError:
            return self._refuse(text, "is ambiguous")
        except ValueError:
            return self._refuse(text, "is no move in SAN, whose pieces are K, Q, R, B and N")
        if not played:
            return self._refuse(text, "is a null move")
        board.push(played)
        return None

    def _check_result(self, game: ChessGame) -> None:
        game.ending = self._tags.get("Termination", "") if game.over else ""
        outcome = game.board.outcome()
        if outcome and game.over and outcome.termination in _PLAIN_ENDS and outcome.result() != game.result:
            self._refuse(game.result, f"is not the result of {outcome.termination.name.lower()}, {outcome.result()}")

    def _refuse(self, token: str, why: str) -> None:
        place = f", ply {len(self._game.board.move_stack) + 1}" if self._game else ""
        self._why = f"{place}: {token.strip()[:20]!r} {why}" if token else f": {why}"


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
