"""Texts and pieces for a tokenizer of the chess tasks: nearly characters, so that every position is written alike.

Longer tokens are runs of pawns, two other men beside each other, a square of a move, and results: half as many tokens
as characters, and about a thousand kinds. Whole rows would be shorter still, but one in ten positions has a row that
thousands of games do not show.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparring.configs.games.chess import ChessDataConfig
from sparring.envs.chess.analysis_text import EVALUATIONS_WIDTH, FEN_WIDTH, MOVES_WIDTH
from sparring.envs.chess.arbiter_text import DRAW, ILLEGAL, LEGAL, MATE
from sparring.envs.chess.data.games import play_game
from sparring.envs.chess.data.samples import arbiter_sample

GAMES, SEED, PLIES = 300, 64, 60
PIECES = "|".join(
    (
        "A: ",
        r" [wb](?= )",
        r" [KQkq]+(?= )",
        r"[ +]?[a-h][1-8]",  # squares: a move is two
        r"[+]-?[0-9]+(?:\.[0-9]+)?",  # reward and flags
        r" -(?= )",
        r" -?[0-9]{1,2}|(?<=\.)[0-9]{1,2}",  # numbers, and the decimals of an evaluation
        r" {2,}",
        r"[PMEB]:",
        r"p+/?",
        r"P+/?",
        r"[1-8]/?",
        r"[rnbqkRNBQK]{1,2}/?",
        r"[\s\S]",
    )
)
"""Regular expression of a tokenizer's pieces."""
WORDS = ("P:", "M:", "E:", "B:", "A: ", " ", ".", "+", "q", "r", "b", "n")


def corpus() -> Iterator[str]:
    """Yield all squares, numbers and results, then the texts of random games."""
    squares = [f"{file}{rank}" for file in "abcdefgh" for rank in range(1, 9)]
    yield from (f"{before}{square}" for square in squares for before in ("", " ", "+"))
    yield from WORDS
    yield from (f"+{value}" for value in (LEGAL, MATE, DRAW, ILLEGAL, "0", "1"))
    yield from (f"{before}{number}" for number in range(100) for before in (" ", " -", "."))
    yield from (f".{number:02}" for number in range(10))
    yield from (" " * width for width in range(2, max(FEN_WIDTH, MOVES_WIDTH, EVALUATIONS_WIDTH) + 1))
    yield from (f"{turn} {rights} - 0 1" for turn in (" w", " b") for rights in _castling())
    games = ChessDataConfig(seed=SEED, plies=PLIES)
    for number in range(GAMES):
        for record in play_game(games, 0, number, None):
            sample = arbiter_sample(record)
            yield sample.prompt
            yield sample.answer


def _castling() -> list[str]:
    """Return all castling fields."""
    rights = ("".join(right for bit, right in enumerate("KQkq") if mask >> bit & 1) for mask in range(16))
    return [right or "-" for right in rights]
