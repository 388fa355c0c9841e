"""Options of `eval/play.py` in the dogfight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.players import RELEASED
from sparring.configs.core.errors import InputError, choose
from sparring.envs.dogfight.rules import RULES
from sparring.eval.browser.options import ServerOptions, check_server, play_parser
from sparring.eval.parser import check_page

DEFAULT_OPPONENT = f"{RELEASED}/dogfight_strong"

_EXAMPLES = """\
examples:
  python eval/play.py                                          against the released policy
  python eval/play.py --opponent ace                           a bot; the page offers all others, and your runs
  python eval/play.py --opponent my-run --rules challenge
  python eval/play.py --static fly.html                        one file, to open in any browser
  python eval/play.py --static fly.html  --opponent my-run     against the final policy of a run"""


@dataclass(frozen=True, kw_only=True)
class DogfightPlayOptions(ServerOptions):
    """Options of the command; the opponent has not been located."""

    opponent: str
    rules: str | None
    replays: Path
    static: Path | None


def read_options(arguments: Sequence[str]) -> DogfightPlayOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    parser = play_parser("dogfight", "Fly the dogfight against a policy or a bot, in the browser.", _EXAMPLES)
    opponent = (
        "a bot, a path (.pt, .onnx or .zip), a run's name, final.pt, or a Python object as my_bots:Mine "
        f"(default: {DEFAULT_OPPONENT})"
    )
    parser.add_argument("--opponent", default=DEFAULT_OPPONENT, metavar="O", help=opponent)
    parser.add_argument("--rules", metavar="|".join(RULES), help="default: those the policy was trained under")
    folder = "folder of the replays saved on the page (default: replays)"
    parser.add_argument("--replays", type=Path, default=Path("replays"), metavar="DIR", help=folder)
    parser.add_argument("--static", type=Path, metavar="HTML", help="write a page that needs no server, and stop")
    values = check_server(parser.read(arguments))
    check_page(values["static"], option="--static")
    if values["rules"] is not None:
        choose("rules", values["rules"], RULES)
        if values["static"]:
            raise InputError("--rules does not go with --static: a page without a server knows only classic rules")
    return DogfightPlayOptions(**values)
