"""A game of Diplomacy to watch: `python eval/diplomacy_replay.py --out game.html`; `--help` lists the options.

Plays one game of random legal orders and writes it as a page that needs nothing but a browser, and with --log as text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if not __package__:  # Run as a script: only this repository's packages are meant, whatever else is installed.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from configs.installed import check_installed

    check_installed("eval/diplomacy_replay.py")

from configs.files import write_atomically
from configs.names import InputError
from configs.waiting import COMPILING, LOADING, said_if_long, say
from envs.diplomacy.codes import NUM_POWERS
from envs.diplomacy.game_log import game_log, result
from envs.diplomacy.recording import Phase
from eval.command import make_folders, run_command, write
from eval.parser import SEED, Parser, add_results, check_number

LAST_YEAR = "[1901, 2000]"
PLAYERS = ("random",) * NUM_POWERS

_EXAMPLES = """\
examples:
  python eval/diplomacy_replay.py --out game.html --seed 3 --last-year 1910
  python eval/diplomacy_replay.py --out game.html --log game.txt      the orders and results as text, too

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class Options:
    """What is to be played and written; every value has been checked."""

    out: Path
    log: Path | None
    seed: int
    last_year: int
    quiet: bool
    command: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return run_command("eval/diplomacy_replay.py", _run, arguments)


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; raises `InputError` with one line naming what is wrong, and leaves after --help."""
    values = _parser().read(arguments)
    check_number("--seed", values["seed"], SEED)
    check_number("--last-year", values["last_year"], LAST_YEAR)
    if values["out"] is None:
        raise InputError("--out is missing: give the page's name, as in --out game.html")
    if values["out"] == values["log"]:
        raise InputError(f"--log {str(values['log'])!r}: is the page's name already; give another")
    return Options(**values)


def play(options: Options) -> list[Phase]:
    """A game of random legal orders, recorded."""
    say(LOADING, shown=not options.quiet)
    from envs.diplomacy.batch import DiplomacyBatch
    from envs.diplomacy.recording import record_game

    with said_if_long(COMPILING, shown=not options.quiet):
        batch = DiplomacyBatch(1, last_year=options.last_year, threads=1)
    phases = record_game(batch, lambda games: games.draw_orders(options.seed))
    batch.close()
    return phases


def write_replay(path: str | Path, phases: Sequence[Phase], *, players: Sequence[str], title: str = "") -> None:
    """Write the page of a recorded game to `path`, whole or not at all; its folder is made where it is missing."""
    from eval.diplomacy_page import page

    text = page(phases, players=players, title=title)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), text)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    files = [path for path in (options.out, options.log) if path is not None]
    make_folders([], files=files)
    phases = play(options)
    write(options.out, partial(write_replay, phases=phases, players=PLAYERS))
    if options.log is not None:
        write(options.log, partial(write_atomically, data=game_log(phases, players=PLAYERS)))
    if not options.quiet:
        print(f"{len(phases) - 1} phases, {result(phases)}")
        print("Wrote", ", ".join(map(str, files)))
    return 0


def _parser() -> Parser:
    parser = Parser(
        "eval/diplomacy_replay.py",
        "Play a game of Diplomacy with random legal orders and write it as a page to watch in a browser.",
        _EXAMPLES,
    )
    group = parser.add_argument_group("the game")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the orders (default: 0)")
    group.add_argument(
        "--last-year", type=int, default=1910, metavar="N", help="a draw after this year (default: 1910)"
    )
    results = add_results(parser, out="the page, such as game.html", metavar="HTML")
    results.add_argument("--log", type=Path, metavar="TXT", help="write the game as text, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
