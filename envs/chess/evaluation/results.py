"""Results of a chess evaluation: markdown and JSON, the games as PGN, written and read again, and as an HTML page.

PGN has the openings and the answers of language models as comments. The page (`replay.html`) contains everything and
makes no network requests. Pieces are drawn as python-chess draws them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import chess
import chess.pgn
import chess.svg
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored, wilson
from sparring.envs.chess.analysis import read_analysis
from sparring.envs.chess.evaluation.games import ChessGame, short_answer
from sparring.envs.chess.evaluation.options import SELF, ChessOptions
from sparring.envs.chess.positions import check_position, read_legal_move, refuse_impossible
from sparring.eval.command import fill_page
from sparring.eval.options import WIDTH
from sparring.eval.stats.aggregate import mean_estimate
from sparring.eval.stats.tables import Pairs, percent, share_text, table

EVENT = "Sparring evaluation"
_ANSWER = re.compile(r"(?:^|; )answer: ?(.*)", re.DOTALL)
_TAG = r'\[\s*(?P<name>\w+)\s+"(?P<value>(?:[^"\\\n]|\\.)*)"\s*\]'
_RESULTS = {"1-0": "1-0", "0-1": "0-1", "*": "*"} | dict.fromkeys(("1/2-1/2", "½-½", "1/2"), "1/2-1/2")
"""Results as PGN has them, by how files write them."""
_WORD_GLYPHS = ("e.p.", "ep", "ch", "mate", "N", "TN", "D", "Δ", "zz", "ZZ", "RR", "BB")
"""Glyphs after a move that are letters: en passant, check, mate, novelty, diagram, idea, zugzwang, pairs of pieces."""
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
    | (?P<mark>\$[0-9]*|[!?]+)
    | (?P<result>(?:1-0|0-1|1/2-1/2|½-½|1/2)(?![^\s(){{}};])|\*)
    | (?P<number>[0-9]+(?:[.…]+|(?=\s|\Z))(?<!\b0000)|[.…]+)
    | (?P<glyph>(?:{"|".join(map(re.escape, _WORD_GLYPHS))}|(?:(?!--|@@@@)(?:_|[^\w\s(){{}};$!?*]))+)
        (?![^\s(){{}};$!?*]))
    | (?P<word>[^\s(){{}};$!?*]+|\S)
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Tokens of a file; a comment ends before the tags of the next game, where it is one without an end."""
_SUFFIX = re.compile(r"(?<=[\dO0QRBN+#])(?:e\.?p\.?|ch|mate|TN|D|Δ|zz)?(?:(?!--|@@@@)[\W_])*$")
"""En passant, check, and glyphs at the end of a move's word."""
_FIGURINES = str.maketrans("♔♕♖♗♘♚♛♜♝♞", "KQRBNKQRBN", "♙♟")
_PLAIN_ENDS = (chess.Termination.CHECKMATE, chess.Termination.STALEMATE)
"""Ends that leave no other result; in others a player may have lost on time."""
TEMPLATE = Path(__file__).with_name("replay.html")
SCHEMA_VERSION = 2
_HEADINGS = ("opponent", "score %", "decided %", "won %", "drawn %", "lost %", "legal half-moves", "illegal %")
_ABOUT = (
    "Shares are followed by 95 % intervals: the score, won, drawn, lost and illegal; legal half-moves by Student's t. "
    "Legal half-moves "
    "are the legal answers of the player in a game, illegal the share of its answers that are not legal moves."
)
_END = {"lose": "An illegal move loses the game.", "random": "A random legal move replaces an illegal one."}


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
    read whole, such as `Sf3`: python-chess reads it as `f3`. Variations, other comments, NAGs and glyphs such as ± are
    skipped, also where a glyph is part of a move's word.
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
            self._refuse(token[0], "is not a tag")
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
            game.result = _RESULTS[text]
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
        return ChessGame(board, white, black, chess.WHITE, 0, result=_RESULTS.get(self._tags.get("Result", ""), "*"))

    def _play(self, board: chess.Board, text: str) -> None:
        move = _SUFFIX.sub("", text.translate(_FIGURINES))
        try:
            played = board.parse_san(move)
        except chess.IllegalMoveError:
            return self._refuse(text, "is an illegal move")
        except chess.AmbiguousMoveError:
            return self._refuse(text, "is ambiguous")
        except ValueError:
            return self._refuse(text, "is not a move in SAN, whose pieces are K, Q, R, B and N")
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
        position = f", ply {len(self._game.board.move_stack) + 1}" if self._game else ""
        self._why = f"{position}: {token.strip()[:20]!r} {why}" if token else f": {why}"


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
        record.headers["Termination"] = _tag(game.ending)
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


def page(games: Sequence[ChessGame], *, title: str) -> str:
    """Return the page of several games. Titles and names cannot end their element or start another."""
    data = {"title": title, "games": [page_data(game) for game in games]}
    return fill_page(TEMPLATE, title=f"{title} · Sparring replay", data=data, pieces=_pieces())


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
    pieces = []
    for side, letters in (("white", "PNBRQK"), ("black", "pnbrqk")):
        for letter in letters:
            shape = chess.svg.PIECES[letter]
            pieces.append(re.sub(r'id="[^"]*"', f'id="{side}-{letter.lower()}"', shape, count=1))
    return "\n".join(pieces)


@dataclass(frozen=True)
class OpponentResult(Scored):
    """Games against one opponent; `opponent` is its name on the command line, `name` the player's."""

    opponent: str
    name: str
    played: Sequence[ChessGame]
    player: str = ""
    """Name of the evaluated player on the command line."""
    regime: str = ""
    """All games are of one kind."""

    @property
    def pairs(self) -> Pairs:
        """Pairs of games of one opening, with both colours, by the player's points in them."""
        points = np.array([round(2 * game.points) for game in self.played])
        lost, behind, level, ahead, won = np.bincount(points[::2] + points[1::2], minlength=5).tolist()
        return lost, behind, level, ahead, won

    def other_side(self) -> tuple[OpponentResult, ...]:
        """Return no record from the opponent's side, whose answers are not counted."""
        return ()

    def plain(self) -> dict[str, Any]:
        """Return the record as data, for a JSON file."""
        return _plain(self.player, self)

    @property
    def counts(self) -> Result:
        """Games won, drawn and lost."""
        points = Counter(game.points for game in self.played)
        return points[1.0], points[0.5], points[0.0]

    def endings(self) -> dict[str, int]:
        """Return the numbers of games by ending, most frequent first."""
        return dict(Counter(game.ending for game in self.played).most_common())


def stated_illegal(illegal: str) -> str:
    """Describe the effect of an illegal move."""
    return _END[illegal]


def to_markdown(options: ChessOptions, player: str, results: Sequence[OpponentResult], more: Sequence[str] = ()) -> str:
    """Return the table of results, how the games ended, and `more` lines on a language model."""
    conditions = (
        f"{options.games} games per opponent, each opening of {options.opening_plies} random half-moves with both "
        f"colours, a draw after {options.plies} half-moves, seed {options.seed}. {_END[options.illegal]} {_ABOUT}"
    )
    parts = [f"# Chess: {player}", fill(conditions, WIDTH), table(_HEADINGS, map(_row, results))]
    if any(result.opponent == SELF for result in results):
        parts.append("Against itself, won and lost are White's, and half-moves and answers those of both sides.")
    ends = [[result.name, ", ".join(f"{n} {ending}" for ending, n in result.endings().items())] for result in results]
    return "\n\n".join([*parts, table(("opponent", "endings"), ends), *more, f"Command: `{options.command}`"]) + "\n"


def to_json(
    options: ChessOptions, player: str, results: Sequence[OpponentResult], about: dict[str, Any] | None = None
) -> str:
    """Return results and conditions; equal input gives equal bytes."""
    names = ("games", "plies", "opening_plies", "illegal", "temperature", "seed", "device", "command")
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "chess", "player": player}
    content |= {name: getattr(options, name) for name in names}
    content["records"] = [_plain(player, result) for result in results]
    content |= about or {}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _plain(player: str, result: OpponentResult) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "player": player,
        "opponent": result.opponent,
        "name": result.name,
        "endings": result.endings(),
    }
    plain |= result.figures()
    for name, count in zip(("won", "drawn", "lost"), result.counts, strict=True):
        plain[name] = {"games": count, "share": count / result.games, "interval": wilson(count, result.games)}
    games = result.played
    legal = mean_estimate(np.array([float(game.answers - game.illegal) for game in games]), least=0.0)
    answers, illegal = (sum(getattr(game, name) for game in games) for name in ("answers", "illegal"))
    plain["points"] = {"mean": result.score, "interval": result.score_interval}
    plain["legal_half_moves"] = {"mean": legal.value, "interval": legal.interval}
    plain["illegal"] = {"answers": answers, "count": illegal, "share": illegal / max(answers, 1)}
    plain["illegal"]["interval"] = wilson(illegal, answers)
    return plain


def _row(result: OpponentResult) -> list[str]:
    plain = _plain("", result)
    score = [share_text(result.score, result.score_interval), percent(result.decided)]
    shares = [share_text(plain[name]["share"], plain[name]["interval"]) for name in ("won", "drawn", "lost")]
    legal, illegal = plain["legal_half_moves"], plain["illegal"]
    low, high = legal["interval"]
    half_moves = f"{legal['mean']:.1f} ({low:.1f} to {high:.1f})"
    return [result.name, *score, *shares, half_moves, share_text(illegal["share"], illegal["interval"])]
