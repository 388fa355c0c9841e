"""Options of `eval/run.py` in Diplomacy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.language import Settings
from sparring.agents.opponents.players import BOT_PREFIX
from sparring.configs.core.errors import InputError, choose
from sparring.configs.opponents import is_code
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.codes import BOTS, DEFAULT_BOTS, NUM_POWERS, SEED_BOTS
from sparring.eval.diplomacy.settings import read_settings
from sparring.eval.stats.parser import (
    CommonOptions,
    Parser,
    add_machine,
    add_results,
    check_machine,
    check_number,
    check_page,
    read_names,
)

MOST_GAMES = 999_999
GAMES = f"[{NUM_POWERS}, {MOST_GAMES}]"
YEARS = "[1901, 2000]"
LAST_YEAR = 1920
"""The default where neither the command line nor the checkpoint has a year."""
TEMPERATURE = "[0, 10]"
PROTOCOLS = ("both", "alone", "six")
_WHO = ("bot", "ckpt", "ladder", "league")
_OF_GAMES = ("replay", "opponents", "games", "last_year", "seed", "temperature", "protocol", "set", "device", "threads")

_EXAMPLES = f"""\
examples:
  python eval/run.py --env diplomacy --ladder        each bot against six of each
  python eval/run.py --env diplomacy --ladder --games 210 --last-year 1920 --out docs/results
  python eval/run.py --ckpt bot:dumbbot --opponents random,chaos --games 700
  python eval/run.py --ckpt final.pt --opponents random,chaos --last-year 1910
  python eval/run.py --ckpt final.pt --opponents dumbbot --replay game.html
  python eval/run.py --env diplomacy --ckpt final.pt --opponents my_bots:Wall   a Python object in six powers
  python eval/run.py --ckpt search:seconds=0.1 --opponents dumbbot --games 70 --last-year 1910
  python eval/run.py --ckpt quick-hawk-diplomacy_exp1 --opponents dumbbot,base_model --games 70
  python eval/run.py --ckpt RUN --opponents OTHER_RUN   two adapters on the same model
  python eval/run.py --ckpt tiny --opponents dumbbot --temperature 0.8 --replay game.html
  python eval/run.py --ckpt http://127.0.0.1:8000/v1 --set model.name=MODEL --protocol alone
  python eval/run.py --league quick-hawk-diplomacy_exp1   against the fixed references

bots: {", ".join(DEFAULT_BOTS)};
their variants {", ".join(SEED_BOTS)}
language models: the adapter of a GRPO run, a model's folder, a run that cloned a bot, tiny, smollm2. They play alone
against six of each opponent, and six of them against one of it. {BASE_MODEL} is the model without its adapter; one that
has none is its own. Adapters meet adapters of the same base model. What an order was worth to them is on the page of
--replay, exactly: point at it. Or the address of a server that speaks OpenAI's protocol, with the options of
docs/llm_endpoints.md in --set.
exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class DiplomacyOptions(CommonOptions):
    """Options of a Diplomacy evaluation."""

    bot: str | None
    ladder: bool
    league: str | None
    opponents: tuple[str, ...]
    games: int
    last_year: int
    last_year_given: bool
    """True if on the command line; else it is set once the evaluated player is found."""
    temperature: float | None
    """Of language models; None if not given, which means 0."""
    protocol: str | None
    """Of language models: alone against six, six against one, or both; None means both."""
    settings: Settings
    """Of a language model without an adapter, or on a server."""
    replay: Path | None

    @property
    def language_only(self) -> list[str]:
        """Given options that only language models have, named as on the command line."""
        given = {
            "temperature": self.temperature is not None,
            "protocol": self.protocol is not None,
            "set": bool(self.settings),
        }
        return [name for name, there in given.items() if there]

    @property
    def rivals(self) -> list[str]:
        """Opponents that are no bots, searches or Python objects, nor the base model: possibly adapters."""
        named = (name for name in self.opponents if name not in (*BOTS, BASE_MODEL) and not is_code(name))
        return [name for name in named if not GAME.builds(name)]

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Pairs: player of one power, player of six."""
        ones = self.opponents if self.ladder else [self.bot or self.ckpt or ""]
        return [(one, six) for one in ones for six in self.opponents]


def read_options(arguments: Sequence[str]) -> DiplomacyOptions:
    """Read the command line; raises `InputError` with one line naming the error, and exits after --help."""
    parser = _parser()
    values = parser.read(arguments)
    if values["league"]:
        _check_nothing_is_played(name for name in _OF_GAMES if values[name] != parser.get_default(name))
    if values["ckpt"].startswith(BOT_PREFIX) and not values["bot"]:
        values["bot"], values["ckpt"] = values["ckpt"].removeprefix(BOT_PREFIX), ""
    names: tuple[str, ...] = BOTS if values["ladder"] else DEFAULT_BOTS
    if values["opponents"] is not None:
        names = read_names("--opponents", values["opponents"])
    values["opponents"] = tuple(name.removeprefix(BOT_PREFIX) for name in names)
    values["settings"] = read_settings(values.pop("set"))
    values["last_year_given"] = values["last_year"] is not None
    values["last_year"] = values["last_year"] if values["last_year_given"] else LAST_YEAR
    options = DiplomacyOptions(**values)
    _check_who(options)
    limits = {"games": GAMES, "last_year": YEARS}
    if options.temperature is not None:
        limits["temperature"] = TEMPERATURE
    _check_shared(options.games)
    for name, allowed in limits.items():
        check_number(f"--{name.replace('_', '-')}", values[name], allowed)
    check_machine(values)
    check_page(options.replay)
    return options


def _check_who(options: DiplomacyOptions) -> None:
    if [bool(getattr(options, name)) for name in _WHO].count(True) != 1:
        raise InputError(
            "give either --bot NAME or --ckpt FILE, who then plays one power, or --ladder, for all, or --league RUN"
        )
    if BASE_MODEL in options.opponents and not options.ckpt:
        raise InputError(f"--opponents {BASE_MODEL}: is what --ckpt, an adapter, was trained on; give --ckpt as well")
    for name in (*(() if options.ckpt else options.rivals), *([options.bot] if options.bot else [])):
        choose("bot", name, BOTS)
    for name in () if options.ckpt else options.language_only:
        raise InputError(f"--{name}: is not for bots; it goes with --ckpt and a language model")
    if options.protocol is not None:
        choose("protocol", options.protocol, PROTOCOLS)


def _check_shared(games: int) -> None:
    """Raise `InputError`, with the next valid number, for games that do not divide equally among powers."""
    if games % NUM_POWERS:
        least = max(games, NUM_POWERS)
        whole = min(least + -least % NUM_POWERS, MOST_GAMES)
        raise InputError(
            f"--games {games}: must be a multiple of 7, so that all powers are played as often; try {whole}"
        )


def _check_nothing_is_played(given: Iterable[str]) -> None:
    for name in given:
        option = name.replace("_", "-")
        raise InputError(f"--{option} does not go with --league, which plays nothing; leave one of them out")


def _parser() -> Parser:
    parser = Parser(
        "eval/run.py",
        "Let bots play Diplomacy, or a policy, or a language model: one of a kind against six of another, and print "
        "what either side got.",
        _EXAMPLES,
        env="diplomacy",
    )
    players = parser.add_argument_group("who plays")
    players.add_argument("--bot", metavar="B", help="who plays one power")
    players.add_argument(
        "--ckpt",
        default="",
        metavar="C",
        help="a policy, language model, search or module:Name: a path, a run's name, final.pt, a model's folder, tiny",
    )
    players.add_argument("--ladder", action="store_true", help="all of --opponents, each in turn, play one power")
    players.add_argument("--league", metavar="RUN", help="play nothing; print the fixed references of a run's league")
    players.add_argument(
        "--opponents",
        nargs="+",
        metavar="O",
        help="bots, search:K=V,..., module:Name, adapters, base_model (default: bots, for --ladder their variants too)",
    )
    _add_conditions(parser)
    results = add_results(
        parser, out="write diplomacy.md and .json there (--ckpt: default eval.md and .json beside it)", metavar="DIR"
    )
    results.add_argument(
        "--replay", type=Path, metavar="HTML", help="a page of the first game of the last pair (--ckpt plays alone)"
    )
    return parser


def _add_conditions(parser: Parser) -> None:
    group = parser.add_argument_group("under what conditions")
    group.add_argument("--games", type=int, default=210, metavar="N", help="per pair, a multiple of 7 (default: 210)")
    group.add_argument(
        "--last-year",
        type=int,
        metavar="Y",
        help=f"then it is a draw (default: the year --ckpt was trained with, else {LAST_YEAR})",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of bots and of draws (default: 0)")
    group.add_argument(
        "--temperature", type=float, metavar="T", help="of a language model (default: 0, always the likeliest token)"
    )
    group.add_argument(
        "--protocol",
        metavar="P",
        help="of a language model: alone, one against six; six against one; or both (default)",
    )
    group.add_argument(
        "--set", nargs="+", default=[], metavar="K=V", help="options of a model or server: model.compact=false"
    )
    add_machine(group)
