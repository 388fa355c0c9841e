"""Evaluate a policy in air combat: `python eval/run.py --ckpt final.pt`; see `--help` for options and examples.

Plays seat-swapped pairs of games against each opponent, every start to its end, prints wins, draws and losses with 95 %
intervals, and writes eval.json and eval.md next to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sparring.agents.opponents import players
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.games import PROBABILITY
from sparring.envs.air_combat import GAME
from sparring.envs.air_combat.evaluation.replay import write_air_replay
from sparring.envs.air_combat.rules import BOTS, GROUND_LIMIT, GUNS, HELD_OUT, MATCH_REGIMES, MODELS, CombatOptions
from sparring.envs.air_combat.tacview import write_acmi
from sparring.eval.command import GameEvaluation, GamePayoff
from sparring.eval.options import CONDITIONS, RESULTS, WHO, CommandText, argument, check_page
from sparring.eval.paired import duels
from sparring.eval.paired.duels import DuelEvaluationOptions
from sparring.eval.paired.evaluation import PairedGame, PairedPlayers, evaluate, saved
from sparring.eval.paired.options import ALL, PairedOptions
from sparring.eval.payoff import PayoffOptions, payoff, payoff_text
from sparring.eval.stats.tables import LENGTH_AND_HP, PairConditions, length_and_hp

if TYPE_CHECKING:
    from sparring.agents.opponents.duelists import Duelist
    from sparring.envs.air_combat.evaluation.matches import AirMatches
    from sparring.eval.paired.evaluation import Plan, Played

_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                             the newest run against every pilot
  python eval/run.py --ckpt final.pt --opponents ace,evader --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --model f16                 a policy of the point mass in the F-16
  python eval/run.py --ckpt final.pt --low-start 1               all starts at 60 to 1500 m
  python eval/run.py --ckpt final.pt --regimes none full low_start f16    four kinds of matches in one table
  python eval/run.py --ckpt final.pt --opponents other-run,stochastic:third-run,my_package.bots:Mine
  python eval/run.py --ckpt final.pt --require "chaser>=0.95" --require "score:ace>=0.9"
  python eval/run.py --env air_combat --ckpt bot:dogfighter      a pilot as the player
  python eval/run.py --ckpt final.pt --opponents ace --replay match.html --acmi match.acmi
  python eval/run.py --env air_combat --ladder                   the pilots against each other, with ratings
  python eval/run.py --ckpt final.pt --opponents other-run --sprt elo0=0 elo1=20

pilots: {", ".join(BOTS)}
held out of training: {", ".join(HELD_OUT)}
regimes: {", ".join(MATCH_REGIMES)}; none, narrow and full draw the physics of each match
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input, 130 stopped with Ctrl-C"""


_PAYOFF_EXAMPLES = """\
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and all pilots
  python eval/payoff.py --ckpt RUN --snapshots 20 --games 400 --opponents ace,evader
  python eval/payoff.py --env air_combat --model f16           the pilots among themselves, in the F-16
  python eval/payoff.py --opponents released/air_combat_quickstart,ace,evader --out air.png"""


@dataclass(frozen=True, kw_only=True)
class AirOptions(PairedOptions):
    """Options of every command that plays air combat."""

    SETS: ClassVar[Mapping[str, Sequence[str]]] = {"bots": tuple(BOTS), "held_out": HELD_OUT}
    REGIMES: ClassVar[Mapping[str, Mapping[str, Any]]] = MATCH_REGIMES
    opponents: tuple[str, ...] = argument(("bots",), metavar="O", group=WHO, split=True)
    """Pilots, checkpoints, ONNX agents, stochastic:CHECKPOINT, module:Name of a Python object, and the sets bots and
    held_out."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in ace or ace=1000 (default: dogfighter, or the first player, at 0)."""
    regimes: tuple[str, ...] = argument(
        (), (*MATCH_REGIMES, ALL), metavar="R", group=CONDITIONS, noun="regime", split=True
    )
    """Regimes to compare, each a change of these conditions, or all (default: only these conditions)."""
    model: str = argument("", ("", *MODELS), metavar="|".join(MODELS), group=CONDITIONS, noun="model")
    """Flight model of the matches (default: as in the policy's run)."""
    gun: str = argument("", ("", *GUNS), metavar="|".join(GUNS), group=CONDITIONS, noun="gun")
    """The gun (default: as in the policy's run, or the flight model's if --model differs)."""
    low_start: float = argument(0.0, PROBABILITY, metavar="P", group=CONDITIONS)
    """Probability that a match starts near the ground, at 60 to 1500 m."""
    ground_limit: float | None = argument(None, GROUND_LIMIT, metavar="M", group=CONDITIONS)
    """Minimum height in m, enforced by a pull-out (default: the highest of the policies' runs; 0: no limit)."""


@dataclass(frozen=True, kw_only=True)
class AirCombatOptions(AirOptions, DuelEvaluationOptions):
    """Options of the command; the players are not located yet."""

    TEXT = CommandText(
        "eval/run.py",
        "Play an air combat policy against opponents in seat-swapped pairs of games with common starts, and "
        "print wins, draws and losses with intervals. Write eval.json and eval.md next to final.pt.",
        _EXAMPLES,
        env="air_combat",
    )
    OUTPUTS: ClassVar[Sequence[str]] = ("replay", "acmi")
    ckpt: str = argument("", metavar="C", group=WHO)
    """A path (.pt, .onnx or .zip), a run's name, final.pt (the newest run's) or bot:NAME."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """Write a 3D page with the first game against each opponent."""
    acmi: Path | None = argument(None, metavar="ACMI", group=RESULTS)
    """Write a Tacview file of the first game against the first opponent."""

    @property
    def filmed(self) -> int:
        """Number of opponents whose first game is filmed."""
        return len(self.opponents) if self.replay else int(self.acmi is not None)

    def check(self) -> None:
        """Raise `InputError` for incompatible files and options."""
        check_page(self.replay, " or --acmi match.acmi for Tacview")
        if self.acmi and self.acmi.suffix.lower() != ".acmi":
            raise InputError(f"--acmi '{self.acmi}': a Tacview file must have a name that ends in .acmi")
        super().check()


@dataclass(frozen=True, kw_only=True)
class AirPayoffOptions(PayoffOptions, AirOptions):
    """Options of a payoff matrix."""

    TEXT = payoff_text(_PAYOFF_EXAMPLES, GAME.name)


def open_players(
    options: AirOptions,
    player: players.Player | None,
    opponents: Sequence[players.Player],
    device: str,
    like: Any = None,
) -> PairedPlayers:
    """Load the players."""
    from sparring.envs.air_combat.training.opponents import open_player

    return duels.open_players(open_player, options, player, opponents, device)


def matches_of(pilot: Duelist, model: str, gun: str) -> tuple[str, str]:
    """Return the requested flight model and gun, else those of the policy's training.

    With another flight model, the gun is that model's default, an empty name.
    """
    from sparring.envs.air_combat.training.opponents import trained_matches

    own_model, own_gun = trained_matches(pilot.training)
    model = model or own_model
    return model, gun or (own_gun if model == own_model else "")


def matches(options: AirOptions, pilots: Sequence[Duelist], device: str, threads: int) -> AirMatches:
    """Return matches that all of `pilots` can play, with the options and step of the first policy.

    Observations include the ground if any policy observes it.

    The flight model is the evaluated player's, in a round robin the first policy's. Compiles the kernels. Raises
    `PolicyError` for a policy of other matches.
    """
    from sparring.agents.play.duel_matches import check_policies
    from sparring.agents.policies.policy import Policy
    from sparring.envs.air_combat.evaluation.matches import AirMatches
    from sparring.envs.air_combat.training.opponents import CombatConditions, ground_limit

    policies = [pilot.contestant for pilot in pilots if isinstance(pilot.contestant, Policy)]
    contract = next((policy.contract for policy in policies if "action_repeat" in policy.contract), {})
    repeat = {"action_repeat": contract["action_repeat"]} if contract else {}
    evaluated = isinstance(options, AirCombatOptions) and not options.ladder
    trained = pilots[0] if evaluated else next((pilot for pilot in pilots if pilot.training), pilots[0])
    model, gun = matches_of(trained, options.model, options.gun)
    ground = any(policy.contract.get("observe_ground") for policy in policies)
    beyond = replace(CombatOptions.of_contract(contract), observe_ground=ground)
    near: dict[str, Any] = {"low_start": options.low_start, "ground_limit": ground_limit(pilots, options.ground_limit)}
    setting = CombatConditions(model, gun, device=device, threads=threads, options=beyond, **near, **repeat)
    with said_if_long(COMPILING, enabled=not options.quiet):
        check_policies(policies, setting)
    return AirMatches(setting)


def conditions(options: AirOptions, played: AirMatches) -> PairConditions:
    """Return flight model, gun and the other options of the matches."""
    regimes = [regime for regime in options.regimes if regime]
    setting = played.under(regimes[0] if len(regimes) == 1 else "")
    near = {"low_start": setting.low_start, "ground_limit": setting.ground_limit}
    # Observing the ground depends on each player.
    stated = replace(setting.options, observe_ground=False).contract | {k: v for k, v in near.items() if v}
    beyond = "".join(f", {name}={value:g}" if name in near else f", {name}={value}" for name, value in stated.items())
    fields = {
        "model": setting.model,
        "gun": setting.gun_name,
        "action_repeat": setting.action_repeat,
        "options": stated,
    }
    words = f"{GAME.title}, {setting.model}, gun {setting.gun_name}{beyond}"
    if regimes:
        words += f", regime {regimes[0]}" if len(regimes) == 1 else f", {len(regimes)} regimes"
    kinds, varied = ("air_combat", "air_combat_payoff"), "regime" if regimes else ""
    return PairConditions(*kinds, GAME.id, words, fields, LENGTH_AND_HP, length_and_hp, varied=varied)


def recordings(
    options: AirCombatOptions,
    opened: PairedPlayers,
    plan: Plan,
    played: Played,
) -> dict[Path, Callable[[Path], None]]:
    """Return the writers of --replay and --acmi."""
    writers: dict[Path, Callable[[Path], None]] = {}
    films = played.films
    if options.replay:
        writers[options.replay] = partial(write_air_replay, recordings=films)
    if options.acmi and films:
        writers[options.acmi] = partial(write_acmi, recording=films[0])
    return writers


AIR_COMBAT = PairedGame(
    GAME,
    partial(duels.find, GAME),
    open_players,
    matches,
    partial(saved, "sparring.envs.air_combat.training.opponents:frozen_pilots"),
    conditions,
    anchors=("dogfighter",),
    outputs=recordings,
)
EVALUATION = GameEvaluation(
    AirCombatOptions, partial(evaluate, AIR_COMBAT), {".html": "replay", ".acmi": "acmi"}, {"games": 2}
)
PAYOFF = GamePayoff(AirPayoffOptions, partial(payoff, AIR_COMBAT))
