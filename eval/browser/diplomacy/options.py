"""Options of `eval/play.py` in Diplomacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.eval.browser.options import ServerOptions, check_server, play_parser
from sparring.eval.diplomacy.options import LAST_YEAR, TEMPERATURE, YEARS
from sparring.eval.diplomacy.settings import Settings, read_settings
from sparring.eval.parser import add_machine, check_machine, check_number, split_names

_EXAMPLES = f"""\
examples:
  python eval/play.py --env diplomacy                                   a power that is drawn, against six DumbBots
  python eval/play.py --opponents dumbbot --power FRANCE
  python eval/play.py --opponents GERMANY=my-run,RUSSIA=random,dumbbot --power ITALY
  python eval/play.py --env diplomacy --opponents tiny --temperature 0.8  language models, also adapters and servers
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
