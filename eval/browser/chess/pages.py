"""The page on which a person plays chess, for the local server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparring.eval.browser.chess.options import SIDES
from sparring.eval.chess.results import fill_page

_FOLDER = Path(__file__).parent
_SCRIPTS = ("pieces", "board", "page")
_TITLE = "Sparring · chess"


def live_page(opponents: Sequence[str], side: str, socket: str) -> str:
    """Return the page with a choice of `opponents`; it may connect to `socket` only. `side` is chosen at first."""
    data = {"opponents": list(opponents), "sides": list(SIDES), "side": side}
    script = "\n".join((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    return fill_page(_FOLDER / "page.html", title=_TITLE, data=data, script=script, connect=socket)
