"""Fly the dogfight: on a page of the local server, or on one file that needs no server (`--static fly.html`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sparring.agents.opponents.players import Player
from sparring.configs.core.files import write_atomically
from sparring.eval.browser.dogfight.opponents import find_opponent, known_opponents, load_opponent
from sparring.eval.browser.dogfight.options import DogfightPlayOptions, read_options
from sparring.eval.browser.server import HostedGame, serve_game
from sparring.eval.command import announce_loading, make_folders, use_machine, write_asked


def play(arguments: Sequence[str]) -> None:
    """Serve the page until the process is interrupted, or write the one that needs no server."""
    options = read_options(arguments)
    found = find_opponent(options.opponent)
    if options.static:
        _write_static(options, found, options.static)
    else:
        serve_game(options, partial(_stage, options, found))


def _write_static(options: DogfightPlayOptions, found: Player, path: Path) -> None:
    make_folders([], files=[path])
    announce_loading(quiet=options.quiet)
    from sparring.eval.browser.dogfight.pages import static_page

    text = static_page(load_opponent(found).contestant)
    write_asked(path, lambda file: write_atomically(file, text), quiet=options.quiet)


def _stage(options: DogfightPlayOptions, found: Player) -> HostedGame:
    use_machine("cpu", 1, quiet=options.quiet)
    from sparring.eval.browser.dogfight.live_match import LiveMatch
    from sparring.eval.browser.dogfight.session import Stage

    # Played once here, so that an opponent that cannot play ends the command, and the kernels are compiled.
    LiveMatch(load_opponent(found), regime="default", seed=options.seed, rules=options.rules).close()
    return Stage(known_opponents(options.opponent), options.rules, options.seed, options.replays)
