"""Play a game of PettingZoo or OpenSpiel on a page: `python eval/play.py --env openspiel --id connect_four`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sparring.agents.opponents.players import find_checkpoint
from sparring.configs.core.errors import ConfigError, InputError, require_packages
from sparring.configs.games import PACKAGES
from sparring.configs.opponents import named_module
from sparring.eval.browser.server import AFTER_EXAMPLES, SCRIPT, BrowserGame, HostedGame, ServerOptions, serve_game
from sparring.eval.options import CommandText, argument

PETTINGZOO, OPENSPIEL = PACKAGES
UNIFORM, RANDOM = "openspiel:uniform", "random"

_SPIEL_EXAMPLES = """\
examples:
  python eval/play.py --env openspiel --id connect_four --opponent openspiel:mcts:1000
  python eval/play.py --env openspiel --id leduc_poker --opponent openspiel:cfr:100 --seat 1
  python eval/play.py --opponent leduc-run                               a policy of this project, in its game
  python eval/play.py --env openspiel --id "goofspiel(num_cards=4)"      against random play

opponents, as in `sparring exploit --id`: openspiel:uniform, openspiel:cfr:N, openspiel:mcts:N, a run, a zip of
Stable-Baselines3, an ONNX model, a saved response, module:Name or an address. It plays every seat except yours."""
_MATCH_EXAMPLES = """\
examples:
  python eval/play.py --env pettingzoo --id pettingzoo.classic.connect_four_v3
  python eval/play.py --opponent my-run                                  a policy of this project, in its game
  python eval/play.py --env pettingzoo --id my_game --opponent my_bots:Mine --open

opponents: random, a run, stochastic:RUN, a zip of Stable-Baselines3, an ONNX model, or module:Name of a Python object.
It plays every seat except yours."""


@dataclass(frozen=True, kw_only=True)
class ImportedPlayOptions(ServerOptions):
    """Options of a game of either package; the opponent is not loaded yet."""

    id: str = argument("", metavar="GAME")
    """The game, as env.id of a run (default: the game of --opponent, a run)."""
    opponent: str = argument("", metavar="O")
    """Player of the other seats."""
    seat: int = argument(0, "[0, 99]", metavar="N")
    """Your seat, counted from 0."""
    modules: tuple[str, ...] = argument((), metavar="MODULE", flags=["--import"])
    """Module to import for a game of your own."""


@dataclass(frozen=True, kw_only=True)
class OpenSpielPlayOptions(ImportedPlayOptions):
    """Options of an OpenSpiel game."""

    NEEDS: ClassVar = {**ServerOptions.NEEDS, "pyspiel": "open-spiel"}
    TEXT = CommandText(
        SCRIPT,
        "Play an OpenSpiel game against any player in the browser.",
        _SPIEL_EXAMPLES + AFTER_EXAMPLES,
        env=OPENSPIEL,
    )
    opponent: str = argument(UNIFORM, metavar="O")
    """Player of the other seats (default: openspiel:uniform)."""


@dataclass(frozen=True, kw_only=True)
class PettingZooPlayOptions(ImportedPlayOptions):
    """Options of a PettingZoo game."""

    TEXT = CommandText(
        SCRIPT,
        "Play a PettingZoo game against any player in the browser.",
        _MATCH_EXAMPLES + AFTER_EXAMPLES,
        env=PETTINGZOO,
    )
    opponent: str = argument(RANDOM, metavar="O")
    """Player of the other seats (default: random)."""
    open: bool = argument(False)
    """Show the game's picture and all actions during play: the game hides nothing."""


def play_openspiel(options: OpenSpielPlayOptions) -> None:
    """Serve the page until the process is interrupted."""
    require_packages(options.NEEDS)
    game = open_game(options)
    from sparring.envs.imported.browser.table import HostedTable

    check_seat(options, game.num_players(), game)

    def host() -> HostedGame:
        from sparring.envs.imported.browser.spiel_table import SpielTable

        return HostedTable(SpielTable(game, options.opponent, options.seat, options.seed))

    serve_game(options, host)


def play_pettingzoo(options: PettingZooPlayOptions) -> None:
    """Serve the page until the process is interrupted."""
    from sparring.envs.imported.browser.match_table import MatchTable
    from sparring.envs.imported.browser.table import HostedTable
    from sparring.envs.imported.evaluation.matches import seats_of
    from sparring.envs.imported.evaluation.policy import ImportedGame

    import_modules(options)
    try:
        game = ImportedGame(PETTINGZOO, options.id) if options.id else game_of_opponent(options, RANDOM)
        check_seat(options, len(seats_of(game)), game.id)
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error

    def host() -> HostedGame:
        return HostedTable(MatchTable(game, options.opponent, options.seat, options.seed, open_game=options.open))

    serve_game(options, host)


def check_seat(options: ImportedPlayOptions, seats: int, game: object) -> None:
    """Raise `InputError` for a seat that the game lacks."""
    if options.seat >= seats:
        raise InputError(f"--seat {options.seat}: must be in [0, {seats - 1}], the seats of {game}")


def import_modules(options: ImportedPlayOptions) -> None:
    """Import the modules of --import, which may register a game."""
    for module in options.modules:
        named_module(module, f"--import {module}")


def game_of_opponent(options: ImportedPlayOptions, default: str) -> Any:
    """Return the game of --opponent, an `ImportedGame`. Raises `InputError` for `default` and for another package."""
    from sparring.envs.imported.evaluation.policy import load_policy

    package = options.TEXT.env
    if options.opponent == default:
        example = "connect_four" if package == OPENSPIEL else "pettingzoo.classic.connect_four_v3"
        raise InputError(f"no game was given: name one, as in --id {example}")
    _, trained = load_policy(find_checkpoint(options.opponent), "cpu", options.modules)
    if trained.package != package:
        raise InputError(f"{options.opponent}: plays {trained.name}; write --env {trained.package}")
    return trained


def open_game(options: OpenSpielPlayOptions) -> Any:
    """Return the `pyspiel.Game` of the options. Raises `InputError` without a game, or for one that has no text."""
    from sparring.envs.imported.match import make_match
    from sparring.envs.imported.states import has_text, is_open

    import_modules(options)
    if options.id:
        try:
            match: Any = make_match(OPENSPIEL, options.id, {})
        except ConfigError as error:
            raise InputError(str(error).replace("env.id=", "--id ")) from error
    else:
        match = game_of_opponent(options, UNIFORM).match()
    game = match.game
    if not (is_open(game) or has_text(game) or game.get_type().provides_observation_string):
        raise InputError(f"--id {options.id}: OpenSpiel has no text observations for {game}; choose another game")
    return game


OPENSPIEL_GAME = BrowserGame(OpenSpielPlayOptions, play_openspiel)
PETTINGZOO_GAME = BrowserGame(PettingZooPlayOptions, play_pettingzoo)
