"""Play an OpenSpiel game on a page of the local server: `python eval/play.py --env openspiel --id connect_four`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sparring.agents.opponents.players import find_checkpoint
from sparring.configs.core.errors import ConfigError, InputError, require_packages
from sparring.configs.opponents import named_module
from sparring.eval.browser.server import AFTER_EXAMPLES, SCRIPT, BrowserGame, HostedGame, ServerOptions, serve_game
from sparring.eval.options import CommandText, argument

OPENSPIEL = "openspiel"
UNIFORM = "openspiel:uniform"

_EXAMPLES = """\
examples:
  python eval/play.py --env openspiel --id connect_four --opponent openspiel:mcts:1000
  python eval/play.py --env openspiel --id leduc_poker --opponent openspiel:cfr:100 --seat 1
  python eval/play.py --opponent leduc-run                               a policy of this project, in its game
  python eval/play.py --env openspiel --id "goofspiel(num_cards=4)"      against random play

opponents, as in `sparring exploit --id`: openspiel:uniform, openspiel:cfr:N, openspiel:mcts:N, a run, a zip of
Stable-Baselines3, an ONNX model, a saved response, module:Name or an address. It plays every seat except yours."""


@dataclass(frozen=True, kw_only=True)
class OpenSpielPlayOptions(ServerOptions):
    """Options of an OpenSpiel game; the opponent is not loaded yet."""

    NEEDS: ClassVar = {**ServerOptions.NEEDS, "pyspiel": "open-spiel"}
    TEXT = CommandText(
        SCRIPT,
        "Play an OpenSpiel game against any player in the browser.",
        _EXAMPLES + AFTER_EXAMPLES,
        env=OPENSPIEL,
    )
    id: str = argument("", metavar="GAME")
    """The game, such as leduc_poker or goofspiel(num_cards=4) (default: the game of --opponent, a run)."""
    opponent: str = argument(UNIFORM, metavar="O")
    """Player of the other seats (default: openspiel:uniform)."""
    seat: int = argument(0, "[0, 99]", metavar="N")
    """Your seat, counted from 0."""
    modules: tuple[str, ...] = argument((), metavar="MODULE", flags=["--import"])
    """Module to import for a game of your own."""


def play(options: OpenSpielPlayOptions) -> None:
    """Serve the page until the process is interrupted."""
    require_packages(options.NEEDS)
    game = open_game(options)
    from sparring.envs.imported.browser.table import HostedTable, PersonTable

    if options.seat >= game.num_players():
        raise InputError(f"--seat {options.seat}: must be in [0, {game.num_players() - 1}], the seats of {game}")

    def host() -> HostedGame:
        return HostedTable(PersonTable(game, options.opponent, options.seat, options.seed))

    serve_game(options, host)


def open_game(options: OpenSpielPlayOptions) -> Any:
    """Return the `pyspiel.Game` of the options. Raises `InputError` without a game, or for one that has no text."""
    from sparring.envs.imported.evaluation.policy import load_policy
    from sparring.envs.imported.match import make_match
    from sparring.envs.imported.states import has_text, is_open

    for module in options.modules:
        named_module(module, f"--import {module}")  # registers a game in Python
    if options.id:
        try:
            match: Any = make_match(OPENSPIEL, options.id, {})
        except ConfigError as error:
            raise InputError(str(error).replace("env.id=", "--id ")) from error
    elif options.opponent == UNIFORM:
        raise InputError("no game was given: name an OpenSpiel game, as in --id connect_four")
    else:
        _, trained = load_policy(find_checkpoint(options.opponent), "cpu", options.modules)
        if trained.package != OPENSPIEL:
            raise InputError(f"{options.opponent}: plays {trained.name}; the page plays only OpenSpiel games")
        match = trained.match()
    game = match.game
    if not (is_open(game) or has_text(game) or game.get_type().provides_observation_string):
        raise InputError(f"--id {options.id}: OpenSpiel has no text observations for {game}; choose another game")
    return game


BROWSER = BrowserGame(OpenSpielPlayOptions, play)
