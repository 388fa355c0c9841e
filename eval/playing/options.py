"""Options of `eval/play.py`, validated without torch so that errors appear at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.suggestions import RELEASED
from sparring.configs.core.errors import InputError, choose
from sparring.envs.dogfight.rules import RULES
from sparring.eval.parser import SEED, Parser, check_number, check_page

DEFAULT_OPPONENT = f"{RELEASED}/dogfight_quickstart"
PORT = 8760
PORTS = "[0, 65535]"

_EXAMPLES = """\
examples:
  python eval/play.py                                          against the released policy
  python eval/play.py --opponent ace                           a bot; the page offers all others, and your runs
  python eval/play.py --opponent my-run --rules challenge
  python eval/play.py --static fly.html                        one file, to open in any browser
  python eval/play.py --static fly.html  --opponent my-run     against the final policy of a run

The page is for the browser of this machine: the address works once. On another machine, forward the port with
ssh -L 8760:127.0.0.1:8760 and open the address there.

exit codes: 0 done, 2 bad input or a package missing, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class PlayingOptions:
    """Options of the command; the opponent has not been located."""

    opponent: str
    rules: str | None
    seed: int
    port: int
    replays: Path
    browser: bool
    static: Path | None
    quiet: bool


def read_options(arguments: Sequence[str]) -> PlayingOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    values = _parser().read(arguments)
    check_page(values["static"], option="--static")
    check_number("--port", values["port"], PORTS)
    check_number("--seed", values["seed"], SEED)
    if values["rules"] is not None:
        choose("rules", values["rules"], RULES)
        if values["static"]:
            raise InputError("--rules does not go with --static: a page without a server knows only classic rules")
    return PlayingOptions(browser=not values.pop("no_browser"), **{k: v for k, v in values.items() if k != "command"})


def _parser() -> Parser:
    parser = Parser("eval/play.py", "Fly the dogfight against a policy or a bot, in the browser.", _EXAMPLES)
    opponent = f"a bot, a path (.pt, .onnx or .zip), a run's name or final.pt (default: {DEFAULT_OPPONENT})"
    parser.add_argument("--opponent", default=DEFAULT_OPPONENT, metavar="O", help=opponent)
    parser.add_argument("--rules", metavar="|".join(RULES), help="default: those the policy was trained under")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first match (default: 0)")
    parser.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"of 127.0.0.1; 0 takes any free one (default: {PORT})"
    )
    folder = "folder of the replays saved on the page (default: replays)"
    parser.add_argument("--replays", type=Path, default=Path("replays"), metavar="DIR", help=folder)
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening it")
    parser.add_argument("--static", type=Path, metavar="HTML", help="write a page that needs no server, and stop")
    parser.add_argument("--quiet", action="store_true", help="print only the address, and errors")
    return parser
