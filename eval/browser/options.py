"""Options of `eval/play.py` in every game, validated without torch so that errors appear at once."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sparring.envs.game import games
from sparring.eval.parser import SEED, Parser, check_number

SCRIPT = "eval/play.py"
PORT = 8760
PORTS = "[0, 65535]"
AFTER_EXAMPLES = """

The page is for the browser of this machine: the address works once. On another machine, forward the port with
ssh -L 8760:127.0.0.1:8760 and open the address there.

exit codes: 0 done, 2 bad input or a package missing, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of a game on the local server."""

    seed: int
    port: int
    browser: bool
    """True if the address is opened."""
    quiet: bool


def play_parser(env: str, description: str, examples: str, *, seed: int | None = 0) -> Parser:
    """Return the parser of the game `env` with the shared options; the game adds its own. Seed None is drawn."""
    parser = Parser(SCRIPT, description, examples + AFTER_EXAMPLES)
    parser.prog = f"python {SCRIPT} --env {env}"
    names = ", ".join(game.name for game in games() if game.play)
    group = parser.add_argument_group("the page")
    group.add_argument("--env", metavar="G", help=f"the game: {names} (default: that of the opponent)")
    first = f"seed of the first match (default: {'drawn' if seed is None else seed})"
    group.add_argument("--seed", type=int, default=seed, metavar="N", help=first)
    group.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"of 127.0.0.1; 0 takes any free one (default: {PORT})"
    )
    group.add_argument("--no-browser", action="store_true", help="print the address without opening it")
    group.add_argument("--quiet", action="store_true", help="print only the address, and errors")
    return parser


def check_server(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a command line by fields of `ServerOptions` and of the game. Raises `InputError`."""
    check_number("--port", values["port"], PORTS)
    if values["seed"] is None:
        values["seed"] = secrets.randbelow(2**31)
    check_number("--seed", values["seed"], SEED)
    others = {name: value for name, value in values.items() if name not in ("no_browser", "command")}
    return others | {"browser": not values["no_browser"]}
