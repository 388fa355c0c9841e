"""Options of `eval/play.py`, validated without torch so that errors appear at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.suggestions import RELEASED
from sparring.eval.parser import Parser, check_page

DEFAULT_OPPONENT = f"{RELEASED}/dogfight_quickstart"

_EXAMPLES = """\
examples:
  python eval/play.py --static play.html                       one file, to open in any browser
  python eval/play.py --static play.html --opponent my-run     against the final policy of a run

exit codes: 0 done, 2 bad input or a package missing, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class PlayingOptions:
    """Options of the command; the opponent has not been located."""

    opponent: str
    static: Path | None
    quiet: bool


def read_options(arguments: Sequence[str]) -> PlayingOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    parser = Parser("eval/play.py", "Fly the dogfight against a policy, on a page in the browser.", _EXAMPLES)
    parser.add_argument("--opponent", default=DEFAULT_OPPONENT, metavar="O", help="a checkpoint, a run or a bot")
    parser.add_argument("--static", type=Path, metavar="HTML", help="write a page that needs no server, and stop")
    parser.add_argument("--quiet", action="store_true", help="print no more than errors")
    values = parser.read(arguments)
    check_page(values["static"], option="--static")
    return PlayingOptions(values["opponent"], values["static"], values["quiet"])
