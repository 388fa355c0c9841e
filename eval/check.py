"""Check a game of PettingZoo or OpenSpiel before it is learned: `python eval/check.py my_package.my_game`.

Runs PettingZoo's own tests of the interface, plays random matches, and learns for half a minute in a run that is thrown
away. Prints what fits, what is good to know, and what to change. The module of the game is imported: the command line
names it. Exit codes: 0 nothing has to be changed, 1 something has, 2 bad input (one line on stderr), 130 stopped with
Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/check.py")

from sparring.configs.core.errors import InputError
from sparring.configs.games import PACKAGES
from sparring.configs.serialization import read_yaml
from sparring.eval.command import FAILED, CommandReport, announce_loading, make_folders, publish, run_command
from sparring.eval.stats.parser import SEED, Parser, check_number

if TYPE_CHECKING:
    from sparring.eval.imported.conformance import CheckLine
    from sparring.eval.imported.policy import ImportedGame

GAMES = "[16, 1000000]"
TRIAL = "[0, 3600]"

_EXAMPLES = """\
examples:
  python eval/check.py my_package.my_game                   a module with env, parallel_env or raw_env
  python eval/check.py my_package.games:make_duel rounds=5  a function that makes the game, with its own options
  python eval/check.py pettingzoo.classic.connect_four_v3 --trial 0
  python eval/check.py openspiel:leduc_poker

exit codes: 0 nothing has to be changed, 1 something has, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of the command; the game has not been made."""

    package: str
    id: str
    kwargs: dict[str, Any]
    games: int
    seed: int
    trial: float
    outcome: str
    observation: str
    out: Path | None
    quiet: bool
    command: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/check.py", _run, arguments)


def check(arguments: Sequence[str]) -> CommandReport:
    """Check the game that a command line names. Raises `InputError` for bad input, and for what is no game."""
    options = read_options(arguments)
    make_folders([], files=[options.out])
    announce_loading(quiet=options.quiet)
    from sparring.eval.imported.conformance import FIX, check_game
    from sparring.eval.imported.policy import ImportedGame
    from sparring.eval.imported.trial import try_training

    game = ImportedGame(
        options.package, options.id, options.kwargs, observation=options.observation, outcome=options.outcome
    )
    lines = check_game(game, options.games, options.seed)
    broken = any(line.check == "random play" for line in lines)
    if options.trial and not broken:
        lines += try_training(game, options.trial, options.seed)
    faults = sum(line.level == FIX for line in lines)
    about = {"game": game.name, "kwargs": options.kwargs, "games": options.games, "seed": options.seed}
    content = {"kind": "check", **about, "command": options.command, "faults": faults}
    content["lines"] = [asdict(line) for line in lines]
    data = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    files = {options.out: data} if options.out else {}
    return CommandReport(_markdown(game, lines, faults), data, files, options.quiet)


def read_options(arguments: Sequence[str]) -> CheckOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    values = _parser().read(arguments)
    package, colon, name = values.pop("game").partition(":")
    if not (colon and package in PACKAGES):
        package, name = PACKAGES[0], f"{package}{colon}{name}"
    if not name:
        raise InputError("GAME is missing: give a module, module:function, or openspiel:NAME")
    check_number("--games", values["games"], GAMES)
    check_number("--seed", values["seed"], SEED)
    check_number("--trial", values["trial"], TRIAL)
    if values["out"] is not None and values["out"].suffix != ".json":
        raise InputError(f"--out {str(values['out'])!r}: must end in .json")
    kwargs = dict(_option(word) for word in values.pop("options"))
    return CheckOptions(package=package, id=name, kwargs=kwargs, **values)


def _option(word: str) -> tuple[str, Any]:
    """Return an option of the game, KEY=VALUE, with a value of YAML."""
    key, equals, text = word.partition("=")
    if not equals or not key.isidentifier():
        raise InputError(f"{word}: is no option of the game; write KEY=VALUE, such as board_size=5")
    return key, read_yaml(text)


def _run(arguments: Sequence[str]) -> int:
    report = check(arguments)
    publish(report.markdown, report.files, quiet=report.quiet)
    return FAILED if report.data["faults"] else 0


def _markdown(game: ImportedGame, lines: Sequence[CheckLine], faults: int) -> str:
    """Return the report: a table, what must be changed first."""
    from sparring.eval.imported.conformance import FIX, NOTE, OK

    order = {FIX: 0, NOTE: 1, OK: 2}
    rows = [(line.check, line.level, line.text) for line in sorted(lines, key=lambda line: order[line.level])]
    verdict = f"{faults} thing{'s' * (faults != 1)} to change" if faults else "nothing has to be changed"
    start = f"python train.py env={game.package} env.id={game.id}"
    options = "".join(f" env.kwargs.{key}={value}" for key, value in game.kwargs.items())
    wide = max(len(name) for name, _, _ in rows)
    body = "\n".join(f"- {level.ljust(4)} {name.ljust(wide)}  {text}" for name, level, text in rows)
    return f"# {game.name}: {verdict}\n\n{body}\n\nTrain: `{start}{options}`\n"


def _parser() -> Parser:
    parser = Parser(
        "eval/check.py",
        "Check a game of PettingZoo or OpenSpiel: its interface, seeds, masks, seats, rewards, spaces and speed, and "
        "half a minute of learning.",
        _EXAMPLES,
    )
    parser.usage = "python eval/check.py GAME [KEY=VALUE ...] [options]"
    parser.add_argument("game", metavar="GAME", help="a module, module:function, or openspiel:NAME")
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="options of the game itself")
    parser.add_argument("--games", type=int, default=200, metavar="N", help="random matches (default: 200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the matches (default: 0)")
    parser.add_argument(
        "--trial", type=float, default=30.0, metavar="S", help="seconds of learning (default: 30); 0 for none"
    )
    parser.add_argument("--outcome", default="", metavar="F", help="env.outcome of training, module:function")
    parser.add_argument("--observation", default="auto", metavar="O", help="env.observation of training")
    parser.add_argument("--out", type=Path, metavar="JSON", help="write the report there as data")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
