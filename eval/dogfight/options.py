"""Dogfight options of `eval/run.py`, in addition to the shared ones of `parser.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.curriculum.sprt import Hypotheses
from sparring.envs.dogfight.rules import BOTS, HELD_OUT
from sparring.eval.parser import (
    GAMES,
    REGIME_NAMES,
    WIDTH,
    Parser,
    PlayOptions,
    add_conditions,
    add_players,
    add_results,
    check_number,
    check_page,
)
from sparring.eval.stats.requirements import Requirement
from sparring.eval.stats.sprt import parse_hypotheses

_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                       the newest run against the five bots and the held-out set
  python eval/run.py --ckpt final.pt --opponents bots      the five bots alone; held_out: what no run trains against
  python eval/run.py --ckpt quick-hawk-quickstart --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents ace,brawler --regimes none full knife_fight
  python eval/run.py --ckpt final.pt --opponents released/dogfight_quickstart
  python eval/run.py --ckpt agent.onnx --opponents ace,other.onnx      ONNX agents, 59, 46 or 224 floats in, 3 out
  python eval/run.py --ckpt old-run --env-version 0        a policy trained against the bots of version 0
  python eval/run.py --ckpt final.pt --require "brawler>=0.95" --require "worst@full>=0.5"
  python eval/run.py --ckpt final.pt --replay match.html --gif match.gif
  python eval/run.py --ckpt bot:ace                        a bot as the player
  python eval/run.py --ladder                              the bots against each other, with ratings
  python eval/run.py --ckpt final.pt --opponents other-run --sprt elo0=0 elo1=20

other games: --ckpt is evaluated in the game it was trained in, bots in theirs; these options are the dogfight's
  python eval/run.py --env diplomacy --help                the options of Diplomacy, whose language models play, too
  python eval/run.py --env gymnasium --help                those of other environments, such as CartPole-v1

bots: {", ".join(BOTS)}
{fill(f"held_out: {', '.join(HELD_OUT)}", WIDTH)}
{fill(f"regimes: {', '.join(REGIME_NAMES)}; none is the same as default", WIDTH)}
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing,
130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(PlayOptions):
    """Options of the command. The values have been validated; the players have not been located."""

    ladder: bool
    replay: Path | None
    gif: Path | None
    require: tuple[Requirement, ...]
    sprt: Hypotheses | None
    max_games: int
    vecnormalize: Path | None


def read_options(arguments: Sequence[str]) -> EvaluationOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    values = _parser("bots" if "--ladder" in arguments else "bots,held_out").read_play(arguments)
    check_number("--max-games", values["max_games"], GAMES)
    picture = values["replay"]
    check_page(picture, f", or --gif {picture} for a picture" if picture and picture.suffix.lower() == ".gif" else "")
    if values["gif"] is not None and values["gif"].suffix != ".gif":
        raise InputError(f"--gif {str(values['gif'])!r}: must end in .gif")
    if values["sprt"] is not None:
        values["sprt"] = parse_hypotheses(values["sprt"])
    values["require"] = tuple(Requirement.parse(text) for text in values["require"])
    _check_together(values)
    return EvaluationOptions(**values)


def _parser(opponents: str) -> Parser:
    """Return the parser; `opponents` are those of a command line that names none."""
    parser = Parser(
        "eval/run.py",
        "Play a policy against opponents in seat-swapped pairs of games and print wins, draws and losses with "
        "intervals. eval.json and eval.md are written beside final.pt, eval.NAME.json and .md beside NAME.pt.",
        _EXAMPLES,
        env="dogfight",
    )
    ckpt = "a path (.pt, .onnx or .zip), a run's name, final.pt (the newest run's) or bot:NAME"
    kinds = "bots, checkpoints, ONNX agents, and the sets bots and held_out (default: both sets; --ladder: bots)"
    players = add_players(parser, ckpt=ckpt, metavar="C", opponents=kinds)
    parser.set_defaults(opponents=[opponents])
    players.add_argument(
        "--ladder", action="store_true", help="play all opponents (and --ckpt, where given) against each other"
    )
    players.add_argument(
        "--vecnormalize",
        type=Path,
        metavar="PKL",
        help="SB3's VecNormalize of the zip --ckpt (default: NAME_vecnormalize.pkl or vecnormalize.pkl beside it)",
    )
    add_conditions(parser, games=400)
    _add_results(parser)
    return parser


def _add_results(parser: Parser) -> None:
    group = add_results(parser, out="write the results there", metavar="DIR")
    group.add_argument("--replay", type=Path, metavar="HTML", help="a page that plays one match against each opponent")
    group.add_argument("--gif", type=Path, metavar="GIF", help="the match against the opponent it did worst against")
    group.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="R",
        help='least win rate, as in "brawler>=0.95", "ace@full>=0.9", "worst>=0.8", "held_out:mean>=0.5"; repeatable',
    )
    group.add_argument(
        "--sprt",
        nargs="*",
        metavar="K=V",
        help="test sequentially whether --ckpt is stronger than the one opponent: elo0=0 elo1=20 alpha=0.05 beta=0.05; "
        "--games at a time",
    )
    group.add_argument(
        "--max-games", type=int, default=100_000, metavar="N", help="where --sprt gives up (default: 100000)"
    )


def _check_together(values: dict[str, Any]) -> None:
    if values["vecnormalize"] is not None and not values["ckpt"].endswith(".zip"):
        raise InputError(f"--vecnormalize {values['vecnormalize']}: goes with a zip of Stable-Baselines3 as --ckpt")
    if not values["ladder"]:
        if values["anchor"] is not None:
            raise InputError("--anchor goes with --ladder only: nothing else is rated")
        if not values["ckpt"]:
            raise InputError("--ckpt is missing: give a path, a run's name, final.pt for the newest run, or bot:NAME")
        if values["sprt"] is not None:
            _check_sprt(values)
        return
    _refuse(values, ("require", "replay", "gif", "sprt"), "--ladder: give a player with --ckpt instead")


def _check_sprt(values: dict[str, Any]) -> None:
    for name in ("opponents", "regimes"):
        if len(values[name]) != 1:
            raise InputError(f"--sprt tests one thing: give --{name} one name, not {len(values[name])}")
    _refuse(values, ("require", "replay", "gif"), "--sprt: leave one of them out")


def _refuse(values: dict[str, Any], names: Sequence[str], beside: str) -> None:
    for name in names:
        if values[name] not in (None, ()):
            raise InputError(f"--{name} does not go with {beside}")
