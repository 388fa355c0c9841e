"""The page of a game of Diplomacy with a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparring.envs.diplomacy.board.board import standard_board
from sparring.eval.diplomacy.page import board_data, fill_page

_FOLDER = Path(__file__).parent


def play_page(power: int, players: Sequence[str], file: str) -> str:
    """Return the page for the person who plays `power`; `file` is where the game is saved."""
    board = standard_board()
    codes = [board.provinces[province] for province in board.province_of]
    data = board_data() | {"power": power, "players": list(players), "file": file, "codes": codes}
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("choose.js", "play.js"))
    return fill_page(_FOLDER / "page.html", title="Sparring · Diplomacy", data=data, script=script)
