"""Play one power of Diplomacy on a page of the local server, a new game or a saved one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import holds
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.eval.browser.connection import free_path
from sparring.eval.browser.diplomacy.lineup import HumanLineup, new_lineup, resumed_lineup
from sparring.eval.browser.diplomacy.options import DiplomacyPlayOptions, read_options
from sparring.eval.browser.server import HostedGame, serve_game
from sparring.eval.command import make_folders, use_machine

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
    from sparring.eval.browser.diplomacy.live_game import HumanSeat, LiveDiplomacy
    from sparring.eval.browser.diplomacy.opponents import load_opponents

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
