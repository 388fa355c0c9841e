"""Replay of a Diplomacy game: `python eval/diplomacy_replay.py --out game.html`; `--help` lists the options.

Bots and policies play one game, or a saved game is read (this project's format or that of the package `diplomacy`).
Writes a self-contained HTML page, text, or a saved game. Exit codes: 0 done, 2 bad input (one line on stderr), 130
stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/diplomacy_replay.py")

from sparring.agents.opponents.players import BOT_PREFIX, Player, display_name
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import holds, write_atomically
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.records.game_log import game_log, result
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.command import announce_loading, make_folders, run_command, write
from sparring.eval.diplomacy.lineup import FALLBACK_BOT, find_lineup, load_seats, read_lineup
from sparring.eval.diplomacy.page import UNKNOWN, write_replay
from sparring.eval.stats.parser import SEED, Parser, add_results, check_number

if TYPE_CHECKING:
    from sparring.envs.diplomacy.records.history import PhaseRecord

LAST_YEAR = "[1901, 2000]"
PLAYED = {"players": ["random"], "seed": 0, "last_year": 1910}
"""Options of a played (not saved) game, and their defaults."""

_EXAMPLES = f"""\
examples:
  python eval/diplomacy_replay.py --out game.html --players dumbbot --seed 3
  python eval/diplomacy_replay.py --out game.html --players FRANCE=final.pt,dumbbot --last-year 1920
  python eval/diplomacy_replay.py --out game.html --players RUSSIA=chaos,TURKEY=chaos,dumbbot
  python eval/diplomacy_replay.py --out game.html --players FRANCE=search:seconds=0.5,dumbbot
  python eval/diplomacy_replay.py --log game.txt --save game.json      the game as text, and to be read again
  python eval/diplomacy_replay.py --game game.json --out game.html     a saved game, ours or of the package diplomacy

bots: {", ".join(BOTS)}
A policy orders movements; its retreats and winters are left to the bot of the powers that are not named, or
else to {FALLBACK_BOT}. Language models do not play here, but in eval/run.py --ckpt C --replay game.html.
exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class ReplayOptions:
    """Options of the command. The values have been validated; players and files have not been located."""

    players: tuple[str, ...]
    """Seven names in the order of the powers."""
    rest: str
    """The player given without a power."""
    seed: int
    last_year: int
    game: Path | None
    out: Path | None
    log: Path | None
    save: Path | None
    quiet: bool
    command: str

    @property
    def files(self) -> list[Path]:
        """Output paths."""
        return [path for path in (self.out, self.log, self.save) if path is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/diplomacy_replay.py", _run, arguments)


def write_game(arguments: Sequence[str]) -> tuple[Path, ...]:
    """Play or read the game that a command line says, write it, and return the files. Raises `InputError`."""
    options = read_options(arguments)
    lineup = find_lineup(options.players)
    if options.game is not None and not holds(options.game.is_file):
        raise InputError(f"--game {str(options.game)!r}: no such file")
    make_folders([], files=options.files)
    announce_loading(quiet=options.quiet)
    if options.game is None:
        game, players = play(options, lineup), [display_name(player) for player in lineup]
        _publish(options, game, phases_of(game), players)
    else:
        _publish(options, *_read(options.game, quiet=options.quiet))
    return tuple(options.files)


def read_options(arguments: Sequence[str]) -> ReplayOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    values = _parser().read(arguments)
    _check_source(values)
    for name, default in PLAYED.items():
        values[name] = default if values[name] is None else values[name]
    values["players"], values["rest"] = read_lineup(values["players"])
    check_number("--seed", values["seed"], SEED)
    check_number("--last-year", values["last_year"], LAST_YEAR)
    options = ReplayOptions(**values)
    _check_files(options)
    return options


def play(options: ReplayOptions, lineup: Sequence[Player]) -> list[PhaseRecord]:
    """Play one game to its end and return its phases."""
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.envs.diplomacy.rollouts.games import play_to_end

    rest = options.rest.removeprefix(BOT_PREFIX)
    seats = load_seats(lineup, bot=rest if rest in BOTS else FALLBACK_BOT)
    with said_if_long(COMPILING, shown=not options.quiet):
        batch = WatchedBatch(1, last_year=options.last_year, threads=1)
        batch.load_kernels()  # Compile now, under the message, not silently during the game.
    play_to_end(batch, seats, seed=options.seed)
    batch.close()
    return batch.past()


def _run(arguments: Sequence[str]) -> int:
    write_game(arguments)
    return 0


def _read(path: Path, *, quiet: bool) -> tuple[list[PhaseRecord], list[Phase], list[str]]:
    """Return a saved game, its phases and its players. Raises `InputError` if it cannot be shown."""
    from sparring.envs.diplomacy.records.saved_game import load, load_players

    with said_if_long(COMPILING, shown=not quiet):
        game, players = load(path), list(load_players(path))
    try:
        return game, phases_of(game), players
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _publish(
    options: ReplayOptions, game: Sequence[PhaseRecord], phases: Sequence[Phase], players: Sequence[str]
) -> None:
    """Write the requested outputs and print their paths."""
    from sparring.envs.diplomacy.records.saved_game import save, summary

    ended = result(phases)
    if options.out is not None:
        nameless = f"Diplomacy: {options.game.name} · {ended}" if options.game and not any(players) else ""
        write(options.out, partial(write_replay, phases=phases, players=players, title=nameless))
    if options.log is not None:
        names = [name or UNKNOWN for name in players] if any(players) else []
        write(options.log, partial(write_atomically, data=game_log(phases, players=names)))
    if options.save is not None:
        write(options.save, partial(save, game=game, players=players))
    if not options.quiet:
        print(*summary(game), f"{len(phases) - 1} phases, {ended}", sep="\n")
        print("Wrote", ", ".join(map(str, options.files)))


def _check_source(values: dict[str, Any]) -> None:
    """Raise `InputError` for options of a played game together with --game."""
    for name in PLAYED:
        if values["game"] is not None and values[name] is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} does not go with --game, which has been played; leave one of them out")


def _check_files(options: ReplayOptions) -> None:
    if not options.files:
        raise InputError("--out is missing: give the page's name, as in --out game.html, or --log or --save")
    if options.out is not None and options.out.suffix.lower() != ".html":
        raise InputError(
            f"--out {str(options.out)!r}: is a page for a browser; give a name that ends in .html, or --log or --save"
        )
    named = {option: getattr(options, option) for option in ("game", "out", "log", "save")}
    first: dict[Path, str] = {}
    for option, path in named.items():
        if path is not None and (other := first.setdefault(path, option)) != option:
            raise InputError(f"--{option} {str(path)!r}: is the file of --{other} already; give another")


def _parser() -> Parser:
    parser = Parser(
        "eval/diplomacy_replay.py",
        "Let bots and policies play a game of Diplomacy, or read a saved one, and write it as a page to watch in a "
        "browser, as text, or as a saved game.",
        _EXAMPLES,
    )
    group = parser.add_argument_group("the game")
    group.add_argument(
        "--players", nargs="+", metavar="P", help="a bot or a policy for all powers, POWER=P for one (default: random)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="seed of the bots (default: 0)")
    group.add_argument("--last-year", type=int, metavar="Y", help="then it is a draw (default: 1910)")
    group.add_argument("--game", type=Path, metavar="JSON", help="show this saved game instead of playing one")
    results = add_results(parser, out="the page, such as game.html", metavar="HTML")
    results.add_argument("--log", type=Path, metavar="TXT", help="write the game as text")
    results.add_argument("--save", type=Path, metavar="JSON", help="write the game to be read again, as by --game")
    return parser


if __name__ == "__main__":
    sys.exit(main())
