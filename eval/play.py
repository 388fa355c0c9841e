"""Play a game against an agent in the browser: `python eval/play.py`; `--help` lists every option.

Entry point for all games. The game is that of --opponent or --opponents, the dogfight without either, unless `--env` is
given. Each game has its own options and its own page, on a server on 127.0.0.1 (extra `play`): see `eval/browser/`.
Exit codes: 0 done, 2 bad input or a package missing (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/play.py")

from sparring.agents.opponents.players import BOT_PREFIX, find_player
from sparring.configs.core.errors import InputError, choose
from sparring.envs.game import games, load
from sparring.eval.browser.server import SCRIPT
from sparring.eval.command import run_command
from sparring.eval.run import HELP, env_of_player
from sparring.eval.stats.parser import Parser, keyed_name, split_names

COMMANDS = {game.name: game.play for game in games() if game.play}
"""Allowed values of `--env`, each with its game for people."""
FIRST = next(iter(COMMANDS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command(SCRIPT, serve_opponent, arguments)


def serve_opponent(arguments: Sequence[str]) -> int:
    """Serve the game that a command line says until the process is interrupted. Raises `InputError` for bad input."""
    load(COMMANDS[env_of(arguments)])(arguments)
    return 0


def env_of(arguments: Sequence[str]) -> str:
    """Return the game of a command line, a key of `COMMANDS`. Raises `InputError` for an unknown `--env`."""
    parser = Parser(SCRIPT, "")
    parser.add_argument("--env", default="")
    parser.add_argument("--opponent", default="")
    parser.add_argument("--opponents", nargs="*", default=[])
    known, _ = parser.parse_known_args([word for word in arguments if word not in HELP])
    if known.env:
        return choose("game", known.env, COMMANDS)
    names = [keyed_name(word)[1] for word in [known.opponent, *split_names(known.opponents)] if word]
    return next((game for game in map(_game_of, names) if game in COMMANDS), FIRST)


def _game_of(opponent: str) -> str:
    """Return the game of an opponent; that of an unknown name is empty, for the game's own list of choices."""
    bot = opponent.removeprefix(BOT_PREFIX).partition(":")[0]  # stockfish:3 is stockfish at depth 3
    for game in games():
        if bot in game.bots:
            return game.name
    try:
        return env_of_player(find_player(opponent))
    except InputError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
