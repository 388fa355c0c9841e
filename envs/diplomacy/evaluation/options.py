"""Options of `eval/run.py` in Diplomacy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from sparring.agents.language.opponents import Settings, settings_of
from sparring.agents.opponents.players import BOT_PREFIX
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import read_regular_text
from sparring.configs.opponents import is_code
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.codes import BOTS, DEFAULT_BOTS, ENV_ID, NUM_POWERS, SEED_BOTS
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    SEED,
    WHO,
    CommandText,
    argument,
    check_number,
    check_page,
)
from sparring.eval.paired.options import PairedEvaluationOptions
from sparring.eval.served import AskedModelOptions

MOST_GAMES = 999_999
GAMES = f"[{NUM_POWERS}, {MOST_GAMES}]"
YEARS = "[1901, 2000]"
LONGEST_PROMPT = 100_000
"""Bytes of --prompt."""
PAIR_OF_GAMES = 2 * NUM_POWERS
"""Games in which each of two players has every power once."""
LAST_YEAR = 1920
"""Default year if neither the command line nor the checkpoint has one."""
TEMPERATURE = "[0, 10]"
BENCHMARK = "dumbbot-1v6"
"""Protocol that fixes everything except the player; its results can be compared between projects."""
FIXED: dict[str, Any] = {"opponents": ("dumbbot",), "games": 140, "last_year": 1920, "seed": 0}
"""What `BENCHMARK` fixes: 20 games with each power."""
LENGTHS = (1910, 1920, 1935)
"""Last years of `BENCHMARK`: the usual one in publications, the default, and one that few games reach."""
REFERENCE = "dumbbot"
"""The reference of `BENCHMARK`."""
PROTOCOLS = ("both", "alone", "six", BENCHMARK)
ONE_KIND = {"--regimes": "Diplomacy has one board and one start; give --last-year"}
_PLAYERS = ("bot", "ckpt", "ladder", "league", "pool", "table")
_OF_GAMES = (
    "replay",
    "opponents",
    "games",
    "last_year",
    "start",
    "phase",
    "seed",
    "stochastic",
    "reference",
    "sprt",
    "max_games",
    "temperature",
    "protocol",
    "set",
    "past_orders",
    "prompt",
    "transcripts",
    "device",
    "threads",
    "workers",
    "executor",
)

_EXAMPLES = f"""\
examples:
  python eval/run.py --env diplomacy --ladder        each bot against six of each, with ratings
  python eval/run.py --env diplomacy --ladder --games 210 --last-year 1920 --out docs/results
  python eval/run.py --ckpt bot:dumbbot --opponents random,chaos --games 700
  python eval/run.py --ckpt final.pt --opponents random,chaos --last-year 1910
  python eval/run.py --ckpt final.pt --opponents dumbbot --replay game.html
  python eval/run.py --env diplomacy --ckpt final.pt --opponents my_bots:Wall   a Python object in six powers
  python eval/run.py --ckpt search:seconds=0.1 --opponents dumbbot --games 70 --last-year 1910
  python eval/run.py --ckpt search --opponents released/diplomacy_student --last-year 1910
  python eval/run.py --ckpt final.pt --require "score:dumbbot>=0.3"   the score is the share of squares
  python eval/run.py --ckpt final.pt --opponents stochastic:OTHER --sprt elo0=0 elo1=20   is it stronger?
  python eval/run.py --env diplomacy --pool a/diplomacy.json b/diplomacy.json   games of several seeds as one table
  python eval/run.py --ckpt quick-hawk-diplomacy_exp1 --opponents dumbbot,base_model --games 70
  python eval/run.py --ckpt RUN --opponents OTHER_RUN   two adapters on the same model
  python eval/run.py --ckpt tiny --opponents dumbbot --temperature 0.8 --replay game.html
  python eval/run.py --ckpt http://127.0.0.1:8000/v1 --set model.name=MODEL --protocol alone
  python eval/run.py --env diplomacy --protocol dumbbot-1v6 --ckpt tiny   140 fixed games against six DumbBots
  python eval/run.py --ckpt tiny --opponents dumbbot --start game.json --phase S1903M   from a saved position
  python eval/run.py --league quick-hawk-diplomacy_exp1   against the fixed references

bots: {", ".join(DEFAULT_BOTS)};
their variants {", ".join(SEED_BOTS)}
language models: the adapter of a GRPO run, a model's folder, a run that cloned a bot, tiny, smollm2. They play alone
against six of each opponent, and as six against one. {BASE_MODEL} is the model without its adapter; a model without one
is its own. Adapters play adapters of the same base model. The page of --replay shows the exact probability of an order
when you point at it. Or the address of a server that speaks OpenAI's protocol, with the options of
docs/llm_endpoints.md in --set.
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class DiplomacyOptions(PairedEvaluationOptions, AskedModelOptions):
    """Options of a Diplomacy evaluation."""

    TEXT = CommandText(
        "eval/run.py",
        "Evaluate bots, a policy or a language model in Diplomacy, one player against six of another, and print "
        "the results of both sides.",
        _EXAMPLES,
        env="diplomacy",
    )
    ABSENT: ClassVar[Mapping[str, str]] = ONE_KIND
    OUTPUTS: ClassVar[Sequence[str]] = ("replay", "transcripts")
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in random or random=1000 (default: random, or the first player, at 0)."""
    bot: str | None = argument(None, metavar="B", group=WHO)
    """Player of one power."""
    ckpt: str = argument("", metavar="C", group=WHO)
    """A policy, language model, search or module:Name: a path, a run's name, final.pt, a model's folder, tiny."""
    ladder: bool = argument(False, group=WHO)
    """Let each of --opponents play one power in turn."""
    league: str | None = argument(None, metavar="RUN", group=WHO)
    """Print the fixed references of a run's league, without playing."""
    table: Path | None = argument(None, metavar="YAML", group=WHO)
    """YAML file of language models that play each other, each with a name, player, model and endpoint."""
    pool: tuple[str, ...] = argument((), metavar="JSON", group=WHO)
    """Print the results of several seeds as one table, without playing."""
    opponents: tuple[str, ...] = argument((), metavar="O", group=WHO, split=True)
    """Bots, policies, stochastic:POLICY, search:K=V,..., module:Name, adapters, base_model (default: bots; --ladder:
    variants too)."""
    games: int = argument(210, metavar="N", group=CONDITIONS)
    """Games per pair, a multiple of 7; of --sprt, at a time, a multiple of 14."""
    last_year: int = argument(None, YEARS, metavar="Y", group=CONDITIONS)
    """Last year, after which a game is a draw (default: from the training of --ckpt, else 1920)."""
    start: Path | None = argument(None, metavar="JSON", group=CONDITIONS)
    """Start all games from the last position of this saved game, from Sparring or the package diplomacy."""
    phase: str = argument("", metavar="P", group=CONDITIONS)
    """Begin in this phase of --start, such as S1903M."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of bots and random draws (default: 0)."""
    reference: str = argument("", metavar="BOT", group=CONDITIONS)
    """Bot that plays the same games instead of the player, for comparison (dumbbot-1v6: dumbbot)."""
    temperature: float | None = argument(None, TEMPERATURE, metavar="T", group=CONDITIONS)
    """Sampling temperature of a language model (default: 0, greedy)."""
    protocol: str | None = argument(None, PROTOCOLS, metavar="P", group=CONDITIONS, noun="protocol")
    """For a language model: alone (one against six), six, or both (default). For any player: dumbbot-1v6."""
    past_orders: int = argument(0, "[0, 100]", metavar="N", group=CONDITIONS)
    """Phases whose orders the prompts of a language model show (default: 0)."""
    prompt: Path | None = argument(None, metavar="TXT", group=CONDITIONS)
    """File with instructions that replace those in a language model's full prompts."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """Write a page of the first game of the last pair (--ckpt plays alone)."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)
    """Folder for diplomacy.md and .json (with --ckpt by default eval.md and .json next to it)."""
    last_year_given: bool = False
    """False if it is set once the evaluated player is found."""
    begin: Any = None
    """The `StartPosition` of --start, set once torch is loaded."""

    @property
    def language_only(self) -> list[str]:
        """Given options that apply only to language models, named as on the command line."""
        options = {
            "temperature": self.temperature is not None,
            "protocol": self.protocol not in (None, BENCHMARK),
            "set": bool(self.settings),
            "past-orders": self.past_orders > 0,
            "prompt": self.prompt is not None,
        }
        return [name for name, is_set in options.items() if is_set]

    def instructions(self) -> str:
        """Return the text of --prompt, empty without one. Raises `InputError` for a file that is not a text."""
        if self.prompt is None:
            return ""
        try:
            text = read_regular_text(self.prompt, follow=True, most=LONGEST_PROMPT)
        except (OSError, ValueError) as error:
            raise InputError(f"--prompt {self.prompt}: cannot be read ({error}); give a text in UTF-8") from error
        if not text.strip():
            raise InputError(f"--prompt {self.prompt}: is empty; give the instructions")
        return text.rstrip() + "\n"

    def from_start(self) -> DiplomacyOptions:
        """Return the options with the position of --start. Raises `InputError` if no game can continue from it."""
        if self.start is None:
            return self
        from sparring.envs.diplomacy.records.starts import read_start

        return replace(self, begin=read_start(self.start, self.phase, self.last_year))

    @property
    def rivals(self) -> list[str]:
        """Opponents that are policies or adapters: not bots, searches, Python objects or the base model."""
        named = (name for name in self.opponents if name not in (*BOTS, BASE_MODEL) and not is_code(name))
        return [name for name in named if not GAME.builds(name)]

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Pairs: player of one power, player of six."""
        players = self.opponents if self.ladder else [self.name]
        return [(player, six) for player in players for six in self.opponents]

    @property
    def name(self) -> str:
        """Player of one power, empty on a ladder."""
        return self.bot or self.ckpt

    @property
    def rated(self) -> bool:
        """False: a ladder is played here, one power against six, and its pairs are rated."""
        return False

    def implied(self) -> dict[str, Any]:
        """Return the default opponents and year, the settings, and a bot named as a checkpoint."""
        for name in filter(self.gives, _OF_GAMES) if self.league or self.pool else ():
            option, other = name.replace("_", "-"), "league" if self.league else "pool"
            raise InputError(f"--{option} does not go with --{other}, which plays nothing; leave one of them out")
        fixed = self._fixed() if self.protocol == BENCHMARK else {}
        is_bot = self.ckpt.startswith(BOT_PREFIX) and not self.bot
        opponents = self.opponents or (BOTS if self.ladder else DEFAULT_BOTS if not self.table else (REFERENCE,))
        return super().implied() | {
            "bot": self.ckpt.removeprefix(BOT_PREFIX) if is_bot else self.bot,
            "ckpt": "" if is_bot else self.ckpt,
            "opponents": tuple(name.removeprefix(BOT_PREFIX) for name in opponents),
            "settings": read_settings(self.set),
            "last_year": LAST_YEAR if self.last_year is None else self.last_year,
            "last_year_given": self.last_year is not None,
            **fixed,
        }

    def _fixed(self) -> dict[str, Any]:
        """Return the benchmark's fixed options. Raises `InputError` for a given option that contradicts them."""
        for name, value in FIXED.items():
            if name == "last_year" and self.last_year in LENGTHS:
                continue
            if self.gives(name) and getattr(self, name) != value:
                text = ",".join(value) if isinstance(value, tuple) else value
                text = " or ".join(map(str, LENGTHS)) if name == "last_year" else text
                raise InputError(f"--{name.replace('_', '-')}: --protocol {BENCHMARK} fixes it, {text}; leave it out")
        if self.ladder:
            raise InputError(f"--ladder: --protocol {BENCHMARK} has one player; name it with --bot or --ckpt")
        player = self.bot or self.ckpt.removeprefix(BOT_PREFIX)
        given = {"last_year": self.last_year} if self.gives("last_year") else {}
        return {**FIXED, "last_year_given": True, "reference": "" if player == REFERENCE else REFERENCE, **given}

    def check(self) -> None:
        """Raise `InputError` for incompatible options."""
        super().check()
        if self.sprt is not None:
            self._refuse(("protocol",), "--sprt: leave one of them out")
        if self.phase and self.start is None:
            raise InputError(f"--phase {self.phase}: is a phase of a saved game; give the game with --start")
        self.check_opponents(self.opponents)
        check_page(self.replay)
        self.check_served()

    def check_games(self) -> None:
        """Raise `InputError` unless every power is played equally often (in a test, by both players)."""
        check_powers(self.games, NUM_POWERS if self.sprt is None else PAIR_OF_GAMES)

    def check_player(self) -> None:
        """Raise `InputError` unless one player, a ladder or results are named."""
        if [bool(getattr(self, name)) for name in _PLAYERS].count(True) != 1:
            raise InputError(
                "give --bot NAME or --ckpt FILE to play one power, or --ladder for all players, or --league RUN"
                ", or --pool JSON, or --table YAML"
            )
        if BASE_MODEL in self.opponents and not self.ckpt:
            raise InputError(
                f"--opponents {BASE_MODEL}: is the base model of an adapter in --ckpt; give --ckpt as well"
            )
        if self.bot:
            choose("bot", self.bot, BOTS)
        if self.table:
            self._check_table()
        self._check_reference()
        for name in () if self.ckpt or self.table else self.language_only:
            raise InputError(f"--{name}: does not apply to bots; it needs --ckpt with a language model")

    def _check_table(self) -> None:
        """Raise `InputError` for options that a table of language models does not have."""
        self._refuse(
            ("replay", "protocol", "sprt", "reference", "stochastic", "set"),
            "--table: leave it out; options of a model are in the file",
        )
        if len(self.opponents) != 1 or self.opponents[0] not in BOTS:
            raise InputError("--opponents: --table has one bot for the powers without a model; name one")

    def _check_reference(self) -> None:
        """Raise `InputError` for a reference that is not a bot, is the player, or has no player to compare."""
        if not self.reference:
            return
        choose("reference", self.reference, BOTS)
        if not self.name or self.reference == self.name:
            what = "is the player itself" if self.name else "there is no player to compare"
            raise InputError(f"--reference {self.reference}: {what}; leave it out")
        if self.sprt is not None or self.protocol == "six":
            other = "--protocol six" if self.sprt is None else "--sprt"
            raise InputError(f"--reference: is compared with a lone player, not with {other}; leave one of them out")
        for name in (name for name in self.opponents if name == BASE_MODEL or (self.ckpt and name in self.rivals)):
            raise InputError(f"--reference: plays only against six bots, not against {name}; leave one of them out")


def check_powers(games: int, unit: int) -> None:
    """Raise `InputError` unless so many games are whole sets of `unit`, in which every power is played once."""
    if games % unit:
        least = max(games, unit)
        nearest = min(least + -least % unit, MOST_GAMES - MOST_GAMES % unit)
        raise InputError(
            f"--games {games}: must be a multiple of {unit}, to play all powers equally often; try {nearest}"
        )
    check_number("--games", games, GAMES)


def read_settings(pairs: Iterable[tuple[str, str]]) -> Settings:
    """Return settings of names such as model.compact and values; raises `InputError` for other options."""
    return settings_of(pairs, {"id": ENV_ID})
