"""Text of the P task (policy): a position is answered with up to five moves, their evaluations and the best move.

Prompt `P: <FEN>`, answer `M: <moves> E: <evaluations> B: <best>`, items separated by spaces; evaluations are in pawns
from the side to move. In the padded form, which the published models use, each field has a fixed width. A reader
accepts any spacing, text around the fields, and fields that are missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparring.envs.chess.positions import FIELDS, UCI

MOST_MOVES = 5
FEN_WIDTH, MOVES_WIDTH, EVALUATIONS_WIDTH = 90, 30, 40
"""Characters of the padded fields; a longer field is not cut, and then no space precedes the next label."""
LONGEST_ANSWER = 4096
"""Characters; a longer answer is read as an empty one."""

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_MOVES = re.compile(r"M:([^E]*)(?:E:|\Z)")
_EVALUATIONS = re.compile(rf"E:\s*({_NUMBER}(?:\s+{_NUMBER})*)")
_BEST = re.compile(rf"B:\s*({UCI.pattern})")


@dataclass(frozen=True)
class Analysis:
    """Answer of the P task: moves in UCI, evaluations in pawns from the side to move, and the best move, "" if missing.

    The numbers of moves and of evaluations may differ in an answer of a model.
    """

    moves: tuple[str, ...]
    evaluations: tuple[float, ...]
    best: str


def analysis_prompt(fen: str, *, padded: bool = True) -> str:
    """Return the prompt of a position; the padded form ends where the label `M:` begins, the loose one in a space."""
    return f"P: {fen:<{FEN_WIDTH}}" if padded else f"P: {fen} "


def write_analysis(analysis: Analysis, *, padded: bool = True) -> str:
    """Return the answer's text; evaluations are written as Python prints a float."""
    moves, values = " ".join(analysis.moves), " ".join(str(value) for value in analysis.evaluations)
    if padded:
        return f"M: {moves:<{MOVES_WIDTH}}E: {values:<{EVALUATIONS_WIDTH}}B: {analysis.best}"
    return f"M: {moves} E: {values} B: {analysis.best}"


def read_analysis(text: str) -> Analysis:
    """Read an answer; each field is found independently of the others. Never raises.

    The moves are the first five UCI words between the first usable `M:` and the next `E:` or the end; a capital E that
    begins no `E:` makes the field unusable. The evaluations are all numbers after `E:`, not cut to five. A text with
    two best moves is two answers and is read as an empty one, as is one that is too long.
    """
    if len(text) > LONGEST_ANSWER or len(_BEST.findall(text)) > 1:
        return Analysis((), (), "")
    moves, values, best = _MOVES.search(text), _EVALUATIONS.search(text), _BEST.search(text)
    return Analysis(
        tuple(UCI.findall(moves[1])[:MOST_MOVES]) if moves else (),
        tuple(float(number) for number in values[1].split()) if values else (),
        best[1] if best else "",
    )


def read_analysis_prompt(prompt: str) -> str:
    """Return the FEN of a prompt: the first six fields after `P:`, "" if there is no `P:`."""
    _, label, rest = prompt.partition("P:")
    return " ".join(rest.split()[:FIELDS]) if label else ""
