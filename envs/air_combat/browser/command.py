"""Fly air combat on a page of the local server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents.players import check_game, find_player
from sparring.envs.air_combat import GAME
from sparring.envs.air_combat.evaluation.command import matches_of
from sparring.envs.air_combat.rules import GROUND_LIMIT, GUNS, MODELS, CombatOptions
from sparring.eval.browser.flying import known_opponents
from sparring.eval.browser.server import AFTER_EXAMPLES, SCRIPT, BrowserGame, HostedGame, ServerOptions, serve_game
from sparring.eval.command import use_machine
from sparring.eval.options import CommandText, argument

if TYPE_CHECKING:
    from sparring.agents.opponents.duelists import Duelist

_EXAMPLES = """\
examples:
  python eval/play.py --env air_combat                         in the F-16 against a scripted pilot
  python eval/play.py --env air_combat --opponent ace --model point_mass
  python eval/play.py --env air_combat --missiles 2 --flares 30 --opponent ace
  python eval/play.py --env air_combat --opponent my-run       against the final policy of a run"""


@dataclass(frozen=True, kw_only=True)
class AirPlayOptions(ServerOptions):
    """Options of the command; the opponent is not located yet."""

    TEXT = CommandText(
        SCRIPT,
        "Fly air combat in three dimensions against a policy or a scripted pilot, in the browser.",
        _EXAMPLES + AFTER_EXAMPLES,
        env="air_combat",
    )
    opponent: str = argument("dogfighter", metavar="O")
    """A scripted pilot, a path (.pt), a run's name, final.pt, or a Python object as my_bots:Mine."""
    model: str = argument("", ("", *MODELS), metavar="|".join(MODELS), noun="model")
    """Flight model of both aircraft (default: the opponent's, from its run, else f16); the page offers the other."""
    gun: str = argument("", ("", *GUNS), metavar="|".join(GUNS), noun="gun")
    """Gun of both (default: the opponent's in its flight model, else rounds for the F-16, cone for others)."""
    missiles: int = argument(0, "[0, 8]", metavar="N")
    """Infrared missiles per aircraft; the page offers matches with and without."""
    flares: int = argument(0, "[0, 120]", metavar="N")
    """Flares per aircraft."""
    ground_limit: float | None = argument(None, GROUND_LIMIT, metavar="M")
    """Minimum height in m of you and a policy, enforced by a pull-out (default: the policy's; 0: no limit)."""
    replays: Path = argument(Path("replays"), metavar="DIR")
    """Folder of the replays saved on the page."""


def load_opponent(name: str) -> Duelist:
    """Load an opponent by its name on the CPU. Raises `InputError` for an unusable policy."""
    from sparring.envs.air_combat.training.opponents import open_player

    return open_player(name, "cpu")


def play(options: AirPlayOptions) -> None:
    """Serve the page until the process is interrupted."""
    check_game(GAME, find_player(options.opponent, GAME, bare=GAME.bots))
    serve_game(options, partial(_stage, options))


def _stage(options: AirPlayOptions) -> HostedGame:
    use_machine("cpu", 1, quiet=options.quiet)
    from sparring.envs.air_combat.browser.session import GUNS_ALONE, MISSILES, WEAPONS, AirStage, trained_with

    loads = CombatOptions(missiles=options.missiles, flares=options.flares)
    opponent = load_opponent(options.opponent)
    model, gun = matches_of(opponent, options.model, options.gun) if opponent.training else (options.model, options.gun)
    model = model or MODELS[1]
    trained = trained_with(opponent)
    weapons = MISSILES if loads.armed or (trained and trained.armed) else GUNS_ALONE
    offered = known_opponents(GAME, options.opponent)
    carried = loads if loads.armed else WEAPONS[MISSILES]
    how = (model, gun, weapons, carried, options.ground_limit)
    stage = AirStage(offered, options.seed, options.replays, load_opponent, *how)
    # Play one match to compile the kernels and to fail early for an opponent that cannot play.
    flight, _, _ = stage.start(opponent, model, options.seed)
    flight.tick([0.0, 0.0, 0.0, 0.0])
    flight.close()
    return stage


BROWSER = BrowserGame(AirPlayOptions, play)
