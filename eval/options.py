"""The options of `eval/run.py`: read, checked and described, without torch, so that a slip is answered at once."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from configs.allowed import complaint
from configs.names import InputError, choose
from configs.schema import DEVICE
from curriculum.sprt import Hypotheses
from envs.dogfight.rules import BOT_RATES, BOTS, LEVELS, REGIMES, RULES
from eval.ratings import Anchor
from eval.requirements import Requirement
from eval.sprt import parse_hypotheses

REGIME_NAMES = (*LEVELS, *REGIMES)
ALL = "all"
GAMES = "[2, 1000000]"
SEED = "[0, 2147483647]"
THREADS = "[0, 4096]"
ANCHOR_HELP = "whose rating is fixed, as in ace or ace=1000 (default: the hardest bot that plays, brawler, at 0)"
STOCHASTIC_HELP = "let policies sample their actions"

_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                       the newest run against the five bots
  python eval/run.py --ckpt quick-hawk-quickstart --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents ace,brawler --regimes none full knife_fight
  python eval/run.py --ckpt final.pt --opponents released/dogfight_quickstart
  python eval/run.py --ckpt final.pt --require "brawler>=0.95" --require "worst@full>=0.5"
  python eval/run.py --ckpt final.pt --replay match.html --gif match.gif
  python eval/run.py --ckpt bot:ace                        a bot as the player
  python eval/run.py --ladder                              the bots against each other, with ratings
  python eval/run.py --ckpt final.pt --opponents other-run --sprt elo0=0 elo1=20

bots: {", ".join(BOTS)}
regimes: {", ".join(REGIME_NAMES)}; none is the same as default
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing,
130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class Options:
    """What is to be evaluated and how; every value has been checked, checkpoints have not been looked for."""

    ckpt: str | None
    ladder: bool
    anchor: Anchor | None
    opponents: tuple[str, ...]
    games: int
    seed: int
    regimes: tuple[str, ...]
    rules: str | None
    bot_rate: str | None
    stochastic: bool
    replay: Path | None
    gif: Path | None
    require: tuple[Requirement, ...]
    sprt: Hypotheses | None
    max_games: int
    out: Path | None
    device: str
    threads: int
    quiet: bool
    command: str


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are `InputError`s, one line without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and leaving."""
        raise InputError(f"{message}; --help lists the options")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse `arguments`; an unknown option is answered with the nearest known one."""
        values, unknown = self.parse_known_args(arguments)
        flags = [text for action in self._actions for text in action.option_strings]
        for text in unknown:
            if text.startswith("-"):
                choose("option", text.partition("=")[0], flags)
            self.error(f"unexpected {text!r}: say which option it belongs to, as in --ckpt {text}")
        return values


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; raises `InputError` with one line naming what is wrong, and leaves after --help."""
    values = vars(_parser().read(arguments))
    check_conditions(values)
    check_number("--max-games", values["max_games"], GAMES)
    if values["gif"] is not None and values["gif"].suffix != ".gif":
        raise InputError(f"--gif {str(values['gif'])!r}: must end in .gif")
    values["opponents"] = read_names("--opponents", values["opponents"])
    values["regimes"] = read_regimes(values["regimes"])
    values["anchor"] = Anchor.parse(values["anchor"]) if values["anchor"] else None
    if values["sprt"] is not None:
        values["sprt"] = parse_hypotheses(values["sprt"])
    values["require"] = tuple(Requirement.parse(text) for text in values["require"])
    _check_together(values)
    command = shlex.join(["python", "eval/run.py", *arguments])
    return Options(**values, command=command)


def _parser() -> Parser:
    parser = Parser(
        prog="python eval/run.py",
        description="Play a policy against opponents in seat-swapped pairs of games and print wins, draws and losses "
        "with intervals. eval.json and eval.md are written beside final.pt, eval.NAME.json and .md beside NAME.pt.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_contestants(parser)
    add_conditions(parser, games=400)
    _add_results(parser)
    return parser


def _add_contestants(parser: Parser) -> None:
    group = parser.add_argument_group("who plays")
    group.add_argument("--ckpt", metavar="C", help="a path, a run's name, final.pt (the newest run's) or bot:NAME")
    group.add_argument(
        "--opponents", nargs="+", default=list(BOTS), metavar="O", help="bots and checkpoints (default: the five bots)"
    )
    group.add_argument(
        "--ladder", action="store_true", help="play all opponents (and --ckpt, where given) against each other"
    )
    group.add_argument("--anchor", metavar="A", help=ANCHOR_HELP)
    group.add_argument("--stochastic", action="store_true", help=STOCHASTIC_HELP)


def add_conditions(parser: Parser, *, games: int) -> None:
    """Add how matches are played; `games` is the default per pair of players."""
    group = parser.add_argument_group("under what conditions")
    group.add_argument(
        "--games", type=int, default=games, metavar="N", help=f"games per opponent, even (default: {games})"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the matches (default: 0)")
    group.add_argument(
        "--regimes", nargs="+", default=["none"], metavar="R", help="levels and regimes of physics, or all"
    )
    group.add_argument("--rules", metavar="|".join(RULES), help="default: those the policy was trained under")
    group.add_argument(
        "--bot-rate", metavar="|".join(BOT_RATES), help="bots decide every tick (default) or as often as policies"
    )
    group.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads; 0 is every core (default)")


def _add_results(parser: Parser) -> None:
    group = parser.add_argument_group("what becomes of the results")
    group.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="R",
        help='least win rate, as in "brawler>=0.95", "ace@full>=0.9", "mean>=0.9", "worst>=0.8"; may be repeated',
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
    group.add_argument("--out", type=Path, metavar="DIR", help="write the results there")
    group.add_argument("--replay", type=Path, metavar="HTML", help="a page that plays one match against each opponent")
    group.add_argument("--gif", type=Path, metavar="GIF", help="the match against the opponent it did worst against")
    group.add_argument("--quiet", action="store_true", help="no bar, no table; only what failed")


def check_conditions(values: dict[str, Any]) -> None:
    """Raise `InputError` unless what `add_conditions` asked for, but for the regimes, is allowed."""
    for name, allowed in {"games": GAMES, "seed": SEED, "threads": THREADS}.items():
        check_number(f"--{name}", values[name], allowed)
    if values["games"] % 2:
        raise InputError(f"--games {values['games']}: must be even, since every match is played from both seats")
    for name, choices in {"rules": RULES, "bot_rate": BOT_RATES}.items():
        if values[name] is not None:
            choose(name, values[name], choices)
    wrong = complaint(values["device"], DEVICE)
    if wrong:
        raise InputError(f"--device {values['device']!r}: {wrong}")


def check_number(option: str, value: float, allowed: str) -> None:
    """Raise `InputError` unless `value` lies in the interval `allowed`."""
    wrong = complaint(value, allowed)
    if wrong:
        raise InputError(f"{option} {value}: {wrong}")


def _check_together(values: dict[str, Any]) -> None:
    if not values["ladder"]:
        if values["anchor"] is not None:
            raise InputError("--anchor goes with --ladder only: nothing else is rated")
        if not values["ckpt"]:
            raise InputError("--ckpt is missing: give a path, a run's name, final.pt for the newest run, or bot:NAME")
        if values["sprt"] is not None:
            _check_sprt(values)
        return
    for name in ("require", "replay", "gif", "sprt"):
        if values[name] not in (None, ()):
            raise InputError(f"--{name} does not go with --ladder: give a player with --ckpt instead")


def _check_sprt(values: dict[str, Any]) -> None:
    for name in ("opponents", "regimes"):
        if len(values[name]) != 1:
            raise InputError(f"--sprt tests one thing: give --{name} one name, not {len(values[name])}")
    for name in ("require", "replay", "gif"):
        if values[name] not in (None, ()):
            raise InputError(f"--{name} does not go with --sprt: leave one of them out")


def read_regimes(words: Sequence[str]) -> tuple[str, ...]:
    """Levels and regimes by their names, `all` being every one; raises `UnknownNameError`."""
    names = read_names("--regimes", words)
    for name in names:
        choose("regime", name, (*REGIME_NAMES, ALL))
    return REGIME_NAMES if ALL in names else names


def read_names(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Names separated by spaces, commas or both, each once."""
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} is empty: name at least one")
    return tuple(dict.fromkeys(names))
