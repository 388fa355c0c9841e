"""The page of Diplomacy without a server: rules, DumbBot and the released student in one file.

The rules are the simulator's kernels, translated (`kernel_script.py`); board, opening and drawing come from the Python
board. The page does not fetch anything, so it works from disk and from any host.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.opponents.players import RELEASED, find_checkpoint
from sparring.configs.core.archive import read_arrays
from sparring.configs.core.errors import InputError
from sparring.configs.core.manifest import read_listed
from sparring.envs.diplomacy import observation
from sparring.envs.diplomacy.adjudicator.phase import process_kernel
from sparring.envs.diplomacy.batch import FIRST_YEAR, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.state import board_tables
from sparring.envs.diplomacy.board.tensors import board_tensors
from sparring.envs.diplomacy.bots.dumbbot import dumbbot_kernel
from sparring.envs.diplomacy.browser.kernel_script import script_of
from sparring.envs.diplomacy.evaluation.page import board_data, map_parts
from sparring.envs.diplomacy.orders.listing_kernel import list_kernel
from sparring.eval.command import fill_page, join_files

STUDENT = f"{RELEASED}/diplomacy_student"
LAST_YEAR = 1910
LINEUPS = {"mixed": "student and DumbBots", "students": "six students", "dumbbots": "six DumbBots"}
"""Choices of opponents by their name in the page's address."""
KERNELS = (process_kernel, dumbbot_kernel, list_kernel, observation.observe_kernel)
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:\">\n"
)
"""Content security policy of the page, in a meta tag, since it is opened without a server."""
_CLOSED = "const {{ openGame, ABOUT }} = (() => {{\n{}\nreturn {{ openGame, ABOUT }};\n}})();"
"""The game in a closure, since its functions have the names of the kernels."""
_FOLDER = Path(__file__).parent


def static_page(policy: str = STUDENT) -> str:
    """Return the page for playing a power against `policy` and DumbBots. Raises `InputError` for another kind."""
    board = standard_board()
    data = board_data() | {"locations": list(board.locations), "lastYear": LAST_YEAR}
    data |= {"rules": board_rules(), "student": stored_student(policy), "file": ""}
    game = "\n".join([rules_script(), join_files(_FOLDER, "student.js", "marks.js", "local.js")])
    script = f"{_CLOSED.format(game)}\n{join_files(_FOLDER, 'choose.js', 'play.js')}"
    parts = map_parts() | {"script": script, "extra": _choices(), "policy": _POLICY}
    return fill_page(_FOLDER / "page.html", title="Sparring · Diplomacy", data=data, **parts)


def _choices() -> str:
    """Return the controls for the power and the lineup of a new game."""
    powers = "".join(f'<option value="{name}">{name.title()}</option>' for name in POWERS)
    lineups = "".join(f'<option value="{name}">{text}</option>' for name, text in LINEUPS.items())
    return (
        f'<select id="seat" aria-label="Your power, in a new game">{powers}</select>'
        f'<select id="lineup" aria-label="Opponents, in a new game">{lineups}</select>'
    )


def rules_script() -> str:
    """Return the rules as JavaScript; it expects the constant `B`, the content of `board_rules`."""
    return f"const B = G.rules;\n{script_of(KERNELS)}\n{join_files(_FOLDER, 'rules.js')}"


def board_rules() -> dict[str, Any]:
    """Return board and opening in the script's format."""
    near = board_tensors(torch.device("cpu")).near
    neighbours = [{"list": row.nonzero()[:, 0].tolist(), "share": float(row.max())} for row in near]
    return {
        "tables": {name: values.tolist() for name, values in board_tables(standard_board()).items()},
        "near": neighbours,
        "opening": {name: values[0].tolist() for name, values in opening().items()},
        "dumbbot": codes.BOTS.index("dumbbot"),
        "columns": observation.SHAPE[1],
        "firstYear": FIRST_YEAR,
    }


def stored_student(policy: str) -> dict[str, Any]:
    """Return an order network in the format of `student.js`. Raises `InputError` for another kind of policy."""
    path = find_checkpoint(policy)
    if path.suffix != ".pt":
        raise InputError(f"{policy}: the page needs an order network of this project (.pt)")
    content = read_arrays(read_listed(path, follow=True))
    shape = content.get("shape", {})
    if shape.get("family") != "orders":
        raise InputError(f"{policy}: is not an order network of Diplomacy, which the page needs; leave it out")
    if shape.get("all_phases"):
        raise InputError(f"{policy}: was trained with network.all_phases=true, unsupported by the page; name another")
    arrays = {name: array for name, array in content["weights"].items() if name.startswith(("actor.", "turns."))}
    weights = {name: [list(array.shape), _floats(array)] for name, array in arrays.items()}
    about = {"name": policy, "hidden": shape["hidden"], "rounds": shape["blocks"], "inTurn": bool(shape.get("in_turn"))}
    return about | {"weights": weights}


def _floats(array: np.ndarray) -> str:
    return base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")
