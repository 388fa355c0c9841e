"""Play one power of Diplomacy on a page of the local server, a new game or a saved one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sparring.agents.language.opponents import Settings
from sparring.configs.core.errors import InputError, choose, one_line
from sparring.configs.core.files import holds, write_atomically
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.schema import DEVICE
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.evaluation.lineup import HumanLineup, new_lineup, resumed_lineup
from sparring.envs.diplomacy.evaluation.options import LAST_YEAR, TEMPERATURE, YEARS, read_settings
from sparring.eval.browser import server
from sparring.eval.command import make_folders, use_machine, write_asked
from sparring.eval.options import SEED, THREADS, CommandText, Pairs, argument, check_page

_PAGE, _WHO, _GAME, _MACHINE = "the page", "who plays", "the game", "the machine, for language models"

_EXAMPLES = f"""\
examples:
  python eval/play.py --env diplomacy                                   a random power against six DumbBots
  python eval/play.py --opponents dumbbot --power FRANCE
  python eval/play.py --opponents GERMANY=my-run,RUSSIA=random,dumbbot --power ITALY
  python eval/play.py --env diplomacy --opponents tiny --temperature 0.8  language models, adapters or servers
  python eval/play.py --env diplomacy --opponents search:seconds=1      six players that search
  python eval/play.py --env diplomacy --opponents my_bots:Wall          an object with act(view) -> orders
  python eval/play.py --env diplomacy --static diplomacy.html           one file without a server: the student, DumbBots
  python eval/play.py --env diplomacy --resume replays/diplomacy-1.json   with the same opponents

bots: {", ".join(BOTS)}
Opponents without a power take the remaining powers in turn. The game is saved after every phase."""


@dataclass(frozen=True, kw_only=True)
class DiplomacyPlayOptions(server.ServerOptions):
    """Options of the command; players and files are not located yet."""

    TEXT = CommandText(
        server.SCRIPT,
        "Play one power of Diplomacy on the map, in the browser.",
        _EXAMPLES + server.AFTER_EXAMPLES,
        env="diplomacy",
    )
    seed: int = argument(None, SEED, metavar="N", group=_PAGE)
    """Seed of the first match (default: random)."""
    power: str | None = argument(None, metavar="P", group=_WHO, text=f"yours: {', '.join(POWERS)} (default: random)")
    """None if it is random, or set by the resumed game."""
    opponents: Pairs = argument((), metavar="O", group=_WHO, split=True, unique=False)
    """Bots, policies, language models, servers, Python objects; POWER=O for one power (default: dumbbot)."""
    temperature: float | None = argument(None, TEMPERATURE, metavar="T", group=_WHO)
    """Sampling temperature of language models (default: 0, greedy)."""
    set: Pairs = argument((), metavar="K=V", group=_WHO)
    """Options of a model or server, such as model.compact=false."""
    last_year: int = argument(LAST_YEAR, YEARS, metavar="Y", group=_GAME)
    """Last year, after which the game is a draw."""
    resume: Path | None = argument(None, metavar="JSON", group=_GAME)
    """Continue a saved game, from Sparring or the package diplomacy."""
    save: Path | None = argument(None, metavar="JSON", group=_GAME)
    """File of the game, written after every phase (default: as in --resume, else replays/diplomacy-N.json)."""
    static: Path | None = argument(None, metavar="HTML", group=_PAGE)
    """Write a page that works without a server, and exit; --opponents is then one order network."""
    device: str = argument("auto", DEVICE, metavar="D", group=_MACHINE)
    """Device of the models: auto, cpu, cuda, cuda:1 and so on."""
    threads: int = argument(0, THREADS, metavar="N", group=_MACHINE)
    """CPU threads; 0 is every core (default)."""
    settings: Settings = field(default_factory=dict)
    """Options of `set`."""

    def implied(self) -> dict[str, Any]:
        """Return the settings, and a seed, drawn if not set."""
        seed = secrets.randbelow(2**31) if self.seed is None else self.seed
        return {"seed": seed, "settings": read_settings(self.set)}

    def check(self) -> None:
        """Raise `InputError` for an unknown power, an existing file, or opponents that a page cannot hold."""
        check_page(self.static, option="--static")
        if self.static and (self.resume or self.save or self.power or len(self.opponents) > 1):
            raise InputError("--static: takes one order network as --opponents; the power is chosen on the page")
        if self.power is not None:
            choose("power", self.power.upper(), POWERS)
        if self.save is not None and self.save != self.resume and self.save.exists():
            raise InputError(f"--save {self.save}: exists already; continue it with --resume, or give another name")


FOLDER = Path("replays")
"""Folder of games that have no file."""


def play(options: DiplomacyPlayOptions) -> None:
    """Serve the game until the process is interrupted, or write the page without a server."""
    if options.static:
        from sparring.envs.diplomacy.browser.static_page import STUDENT, static_page

        make_folders([], files=[options.static])
        text = static_page(options.opponents[0][1] if options.opponents else STUDENT)
        write_asked(options.static, lambda file: write_atomically(file, text), quiet=options.quiet)
        return
    server.serve_game(options, partial(host, options, find_players(options)))


def find_players(options: DiplomacyPlayOptions) -> HumanLineup | None:
    """Locate the players of a new game; None for a saved one, which names them. Raises `InputError` without loading."""
    if options.resume is None:
        return new_lineup(options.power, options.opponents, options.seed)
    if not holds(options.resume.is_file):
        raise InputError(f"--resume {str(options.resume)!r}: no such file")
    return None


def host(options: DiplomacyPlayOptions, lineup: HumanLineup | None) -> server.HostedGame:
    """Load the players and the game. Raises `InputError` for unusable ones."""
    make_folders([], files=[options.save or FOLDER / "any"])
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    from sparring.envs.diplomacy.browser.hosted import HostedDiplomacy
    from sparring.envs.diplomacy.browser.live_game import HumanSeat, LiveDiplomacy, load_opponents
    from sparring.envs.diplomacy.records.saved_game import load, load_players
    from sparring.envs.diplomacy.records.verification import summary

    with said_if_long(COMPILING, enabled=not options.quiet):
        past = load(options.resume) if options.resume else []
    if not options.quiet:
        print(*(f"{one_line(line)}\n" for line in summary(past)), sep="", end="")
    if options.resume:
        lineup = resumed_lineup(options.resume, load_players(options.resume), options.power, options.opponents)
    assert lineup is not None
    opponents = load_opponents(
        lineup.players, temperature=options.temperature, settings=options.settings, device=device
    )
    saved = options.save or _own_file(options.resume) or server.free_path(FOLDER, "diplomacy", ".json")
    seat = HumanSeat(lineup.power, lineup.names, saved)
    with said_if_long(COMPILING, enabled=not options.quiet):
        game = LiveDiplomacy(seat, opponents, seed=options.seed, last_year=options.last_year, past=past)
    game.save()  # now, to fail early if it cannot be written, and to reserve the name
    seeds = count(options.seed + 1)

    def renew() -> LiveDiplomacy:
        next_seat = replace(seat, file=server.free_path(saved.parent, "diplomacy", ".json"))
        other = LiveDiplomacy(next_seat, opponents, seed=next(seeds) % 2**31, last_year=options.last_year)
        other.save()
        return other

    return HostedDiplomacy(game, renew)


def _own_file(resumed: Path | None) -> Path | None:
    """Return the file of the resumed game, unless it is in the format of the package `diplomacy`."""
    if resumed is None:
        return None
    from sparring.envs.diplomacy.records.saved_game import FORMAT

    return resumed if json.loads(resumed.read_bytes()).get("format") == FORMAT else None


BROWSER = server.BrowserGame(DiplomacyPlayOptions, play)
