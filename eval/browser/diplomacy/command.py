"""Play one power of Diplomacy on a page of the local server, a new game or a saved one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from sparring.agents.opponents.language import Settings
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import holds
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.eval.browser.connection import free_path
from sparring.eval.browser.server import HostedGame, ServerOptions, check_server, play_parser, serve_game
from sparring.eval.command import make_folders, use_machine
from sparring.eval.diplomacy.lineup import HumanLineup, new_lineup, resumed_lineup
from sparring.eval.diplomacy.options import LAST_YEAR, TEMPERATURE, YEARS
from sparring.eval.diplomacy.settings import read_settings
from sparring.eval.stats.parser import add_machine, check_machine, check_number, split_names

_EXAMPLES = f"""\
examples:
  python eval/play.py --env diplomacy                                   a power that is drawn, against six DumbBots
  python eval/play.py --opponents dumbbot --power FRANCE
  python eval/play.py --opponents GERMANY=my-run,RUSSIA=random,dumbbot --power ITALY
  python eval/play.py --env diplomacy --opponents tiny --temperature 0.8  language models, also adapters and servers
  python eval/play.py --env diplomacy --opponents search:seconds=1      six that search their moves
  python eval/play.py --env diplomacy --opponents my_bots:Wall          an object with act(view) -> orders
  python eval/play.py --env diplomacy --resume replays/diplomacy-1.json   with the same opponents

bots: {", ".join(BOTS)}
Opponents without a power take the powers that are left in turn. The game is saved after every phase."""


@dataclass(frozen=True, kw_only=True)
class DiplomacyPlayOptions(ServerOptions):
    """Options of the command; players and files have not been located."""

    power: str | None
    """None if it is drawn, or that of the resumed game."""
    opponents: tuple[str, ...] | None
    """Words such as dumbbot and GERMANY=dumbbot; None if not given."""
    last_year: int
    resume: Path | None
    save: Path | None
    """None for that of --resume, else a new file."""
    temperature: float | None
    settings: Settings
    device: str
    threads: int


def read_options(arguments: Sequence[str]) -> DiplomacyPlayOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    parser = play_parser("diplomacy", "Play one power of Diplomacy on the map, in the browser.", _EXAMPLES, seed=None)
    who = parser.add_argument_group("who plays")
    who.add_argument("--power", metavar="P", help=f"yours: {', '.join(POWERS)} (default: drawn)")
    opponents = "bots, policies, language models, servers, Python objects; POWER=O for one power (default: dumbbot)"
    who.add_argument("--opponents", nargs="+", metavar="O", help=opponents)
    temperature = "of language models (default: 0, always the likeliest token)"
    who.add_argument("--temperature", type=float, metavar="T", help=temperature)
    settings = "options of a model or server: model.compact=false"
    who.add_argument("--set", nargs="+", default=[], metavar="K=V", help=settings)
    game = parser.add_argument_group("the game")
    year = f"then it is a draw (default: {LAST_YEAR})"
    game.add_argument("--last-year", type=int, default=LAST_YEAR, metavar="Y", help=year)
    game.add_argument("--resume", type=Path, metavar="JSON", help="go on with a saved game, ours or of the package")
    save = "file of the game, written after every phase (default: ours of --resume, else replays/diplomacy-N.json)"
    game.add_argument("--save", type=Path, metavar="JSON", help=save)
    add_machine(parser.add_argument_group("the machine, for language models"))
    return _checked(check_server(parser.read(arguments)))


def _checked(values: dict[str, object]) -> DiplomacyPlayOptions:
    settings, words = values.pop("set"), values.pop("opponents")
    assert isinstance(settings, list)
    options = DiplomacyPlayOptions(
        **values,  # type: ignore[arg-type]
        settings=read_settings(settings),
        opponents=_split(words) if isinstance(words, list) else None,
    )
    check_number("--last-year", options.last_year, YEARS)
    if options.temperature is not None:
        check_number("--temperature", options.temperature, TEMPERATURE)
    check_machine(values)
    if options.power is not None:
        choose("power", options.power.upper(), POWERS)
    if options.save is not None and options.save != options.resume and options.save.exists():
        raise InputError(f"--save {options.save}: is there already; go on with it by --resume, or give another name")
    return options


def _split(words: list[str]) -> tuple[str, ...]:
    """Return names separated by spaces, commas or both; a name may be repeated."""
    names = tuple(split_names(words))
    if not names:
        raise InputError("--opponents is empty: name at least one")
    return names


FOLDER = Path("replays")
"""Folder of games that have no file."""


def play(arguments: Sequence[str]) -> None:
    """Serve the game until the process is interrupted."""
    options = read_options(arguments)
    serve_game(options, partial(host, options, find_players(options)))


def find_players(options: DiplomacyPlayOptions) -> HumanLineup | None:
    """Locate the players of a new game; None for a saved one, which names them. Raises `InputError` without loading."""
    if options.resume is None:
        return new_lineup(options.power, options.opponents, options.seed)
    if not holds(options.resume.is_file):
        raise InputError(f"--resume {str(options.resume)!r}: no such file")
    return None


def host(options: DiplomacyPlayOptions, lineup: HumanLineup | None) -> HostedGame:
    """Load the players and the game. Raises `InputError` for unusable ones."""
    make_folders([], files=[options.save or FOLDER / "any"])
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    from sparring.envs.diplomacy.records.saved_game import load, load_players, summary
    from sparring.eval.browser.diplomacy.hosted import HostedDiplomacy
    from sparring.eval.browser.diplomacy.live_game import HumanSeat, LiveDiplomacy, load_opponents

    with said_if_long(COMPILING, shown=not options.quiet):
        past = load(options.resume) if options.resume else []
    if not options.quiet:
        print(*(f"{line}\n" for line in summary(past)), sep="", end="")
    if options.resume:
        lineup = resumed_lineup(options.resume, load_players(options.resume), options.power, options.opponents)
    assert lineup is not None
    opponents = load_opponents(
        lineup.players, temperature=options.temperature, settings=options.settings, device=device
    )
    saved = options.save or _own_file(options.resume) or free_path(FOLDER, "diplomacy", ".json")
    seat = HumanSeat(lineup.power, lineup.names, saved)
    with said_if_long(COMPILING, shown=not options.quiet):
        game = LiveDiplomacy(seat, opponents, seed=options.seed, last_year=options.last_year, past=past)
    game.save()  # now, so that a place that cannot be written ends the command, and no other game takes the name
    seeds = count(options.seed + 1)

    def renew() -> LiveDiplomacy:
        again = replace(seat, file=free_path(saved.parent, "diplomacy", ".json"))
        other = LiveDiplomacy(again, opponents, seed=next(seeds) % 2**31, last_year=options.last_year)
        other.save()
        return other

    return HostedDiplomacy(game, renew)


def _own_file(resumed: Path | None) -> Path | None:
    """Return the file of the resumed game if it is this project's; one of the package `diplomacy` is not replaced."""
    if resumed is None:
        return None
    from sparring.envs.diplomacy.records.saved_game import FORMAT

    return resumed if json.loads(resumed.read_bytes()).get("format") == FORMAT else None
