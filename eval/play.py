"""Play a game against an agent in the browser: `python eval/play.py`; `--help` lists every option.

Entry point for all games. `--env` sets the game; the default is the game of --opponent or --opponents, else the
dogfight. Each game has its own options and page, served on 127.0.0.1 (extra `play`): see `eval/browser/`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/play.py")

from sparring.agents.opponents.players import BOT_PREFIX, find_player
from sparring.configs.core.errors import InputError, choose
from sparring.configs.games import PACKAGES
from sparring.envs.game import games, load
from sparring.eval.browser.server import SCRIPT, BrowserGame
from sparring.eval.command import run_command
from sparring.eval.options import CommandOptions, CommandText, Pairs, argument, parse, parse_known
from sparring.eval.run import env_of_player

COMMANDS = {game.name: game.play for game in games() if game.play}
COMMANDS |= {name: f"sparring.envs.imported.browser.command:{name.upper()}_GAME" for name in PACKAGES}
"""Allowed values of `--env`, each with its playable game."""
FIRST = next(iter(COMMANDS))


@dataclass(frozen=True, kw_only=True)
class PlayChoice(CommandOptions):
    """Options that determine the game."""

    TEXT = CommandText(SCRIPT, "")
    env: str = argument("")
    opponent: str = argument("")
    opponents: Pairs = argument((), split=True, nargs="*")

    @property
    def game(self) -> BrowserGame:
        """The playable game. Raises `InputError` for an unknown `--env`."""
        game: BrowserGame = load(COMMANDS[choose("game", self.env, COMMANDS) if self.env else self._of_opponents()])
        return game

    def _of_opponents(self) -> str:
        names = [name for name in (self.opponent, *(name for _, name in self.opponents)) if name]
        return next((game for game in map(_game_of, names) if game in COMMANDS), FIRST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command(SCRIPT, _serve, arguments)


def _serve(words: Sequence[str]) -> int:
    game = parse_known(PlayChoice, words).game
    game.play(parse(game.options, words))
    return 0


def _game_of(opponent: str) -> str:
    """Return the game of an opponent, empty for an unknown name; the game then lists the choices."""
    bot = opponent.removeprefix(BOT_PREFIX).partition(":")[0]  # stockfish:3 is stockfish at depth 3
    if bot in COMMANDS:
        return bot  # openspiel:mcts:100
    if named := [game.name for game in games() if bot in game.bots]:
        return named[0]
    try:
        return env_of_player(find_player(opponent))
    except InputError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
