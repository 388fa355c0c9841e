"""Command line of the chess evaluation, validated without torch, python-chess and engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sparring.agents.language.opponents import settings_of
from sparring.agents.opponents.players import BOT_PREFIX, Player, check_game, find_player, is_server
from sparring.configs.core.device import LOCAL
from sparring.configs.core.errors import InputError, UnknownNameError, choose, suggestion
from sparring.configs.opponents import is_code
from sparring.envs.chess import BOTS, GAME
from sparring.eval.options import CONDITIONS, RESULTS, SEED, WHO, CommandText, argument, check_number
from sparring.eval.paired.options import PairedEvaluationOptions, PairedOptions
from sparring.eval.served import AskedModelOptions

SELF = "self"
RANDOM, STOCKFISH = "random", "stockfish"
PYTHON = "python"
"""Kind of a Python object."""
ILLEGAL = ("lose", "random")
RANDOM_SIDE = "random"
SIDES = ("white", "black", RANDOM_SIDE)
"""Sides of a person in the browser."""
GAMES, DEPTH, PLIES, OPENING = "[2, 1000000]", "[1, 60]", "[1, 10000]", "[0, 100]"
TEMPERATURE, TOKENS = "[0, 10]", "[1, 100000]"
ANALYSIS, MENU, REASONING = "analysis", "menu", "reasoning"
ANSWERS = (ANALYSIS, MENU, REASONING)
OPENING_PLIES = 4

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt quick-hawk-rookworld_sft --opponents random,stockfish:1 --games 20
  python eval/run.py --ckpt RUN --opponents self --pgn games.pgn --replay game.html
  python eval/run.py --env chess --ckpt bot:builtin --opponents random,stockfish:3
  python eval/run.py --env chess --ckpt FOLDER --illegal random --temperature 0.5
  python eval/run.py --ckpt RUN --opponents my_bots:Mine        a Python object (docs/opponents.md)
  python eval/run.py --env chess --ladder --opponents random,builtin,stockfish:3    against each other, with ratings
  python eval/run.py --ckpt RUN --opponents builtin --sprt elo0=0 elo1=20
  python eval/run.py --env chess --ckpt http://127.0.0.1:8000/v1 --set model.name=MODEL --answers menu
  python eval/run.py --env chess --ckpt URL --set endpoint.api=chat endpoint.structured=none --out DIR

bots: random, every legal move equally likely; builtin, the built-in search; stockfish:N, Stockfish at depth N (1
without N). self: --ckpt plays both sides; the results are White's.
Stockfish is found on the PATH (apt-get install stockfish) or with --engine; if it is missing, the built-in search
replaces it, and the table notes it.
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a failing engine,
130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class BotName:
    """A bot or a Python object, and the depth of Stockfish; 0 for others."""

    text: str
    kind: str
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class ChessMatchOptions(PairedOptions):
    """Options of every command that plays chess."""

    ABSENT: ClassVar[Mapping[str, str]] = {
        "--regimes": "chess has no regimes; use --opening-plies or --plies",
        "--stochastic": "language models sample with a --temperature above 0",
        "--workers": "engines and models of chess are in this process; leave it out",
    }
    stochastic: bool = False
    """Follows from the temperature."""
    executor: str = LOCAL
    """Engines and models are in this process."""
    address: str = ""
    workers: int = 1
    opponents: tuple[str, ...] = argument(("random", "stockfish:1"), metavar="O", group=WHO, split=True)
    """Bots, module:Name of Python objects, or self."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in random or random=1000 (default: the first player, at 0)."""
    engine: str = argument("", metavar="PATH", group=WHO)
    """A UCI engine (default: Stockfish on the PATH)."""
    cache: Path | None = argument(None, metavar="FILE", group=WHO)
    """File that caches the engine's results for later runs."""
    games: int = argument(20, GAMES, metavar="N", group=CONDITIONS)
    """Games per opponent, even."""
    plies: int = argument(300, PLIES, metavar="N", group=CONDITIONS)
    """Half-moves after which a game is a draw, including the opening."""
    opening_plies: int = argument(OPENING_PLIES, OPENING, metavar="N", group=CONDITIONS)
    """Number of random half-moves at the start."""
    illegal: str = argument("lose", ILLEGAL, metavar="|".join(ILLEGAL), group=CONDITIONS)
    """Effect of an illegal move of --ckpt."""
    temperature: float = argument(0.0, TEMPERATURE, metavar="T", group=CONDITIONS)
    """Sampling temperature of a language model (default: 0)."""
    answers: str = argument("", ANSWERS, metavar="F", group=CONDITIONS)
    """For a language model: analysis (the P task), menu (a legal move by a constraint) or reasoning (free text).
    Default: reasoning on a server, else analysis."""
    tokens: int | None = argument(None, TOKENS, metavar="N", group=CONDITIONS)
    """Maximum tokens of an answer (default: as in training, else 128; 256 for reasoning)."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of openings, random moves and sampling (default: 0)."""

    @property
    def rates(self) -> str:
        """The option for which players are compared with each other; empty for an evaluation."""
        return ""

    def implied(self) -> dict[str, Any]:
        """Also return whether answers are sampled."""
        return super().implied() | {"stochastic": self.temperature > 0.0}

    def check(self) -> None:
        """Raise `InputError` for unknown opponents and incompatible options."""
        super().check()
        for name in self.named:
            read_opponent(name)
        if SELF in self.opponents and self.rates:
            raise InputError(f"--opponents {SELF}: does not go with {self.rates}; name another player")
        if self.plies <= self.opening_plies:
            raise InputError(f"--plies {self.plies}: must be more than --opening-plies {self.opening_plies}")

    def check_games(self) -> None:
        """Raise `InputError` for an odd number of games."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every opening is played with both colours")


@dataclass(frozen=True, kw_only=True)
class ChessOptions(ChessMatchOptions, PairedEvaluationOptions, AskedModelOptions):
    """Options of a chess evaluation."""

    TEXT = CommandText(
        "eval/run.py",
        "Evaluate a language model or a bot in chess, and print wins, draws and losses.",
        _EXAMPLES,
        env="chess",
    )
    OUTPUTS: ClassVar[Sequence[str]] = ("pgn", "replay", "transcripts")
    MISSING: ClassVar[str] = "name a run, a model's folder, a server, a bot, as in bot:builtin, or module:Name"
    ckpt: str = argument("", metavar="C", group=WHO)
    """A run, a model's folder, smollm2, a server's address, bot:NAME, or module:Name."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)
    """Folder for chess.md and .json (default: eval.md and .json next to --ckpt)."""
    pgn: Path | None = argument(None, metavar="PGN", group=RESULTS)
    """Write all games to this PGN file."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """Write a page to watch the games."""

    @property
    def rates(self) -> str:
        """The option for which players are compared with each other; empty for an evaluation."""
        return "--ladder" if self.ladder else "--sprt" if self.hypotheses else ""

    def implied(self) -> dict[str, Any]:
        """Return the options of a server, too."""
        return super().implied() | {"settings": settings_of(self.set, {"id": GAME.id})}

    def check(self) -> None:
        """Raise `InputError` for an opponent named twice, and for options of a server without one, too."""
        super().check()
        self.check_opponents(self.opponents)
        self.check_served()
        if is_server(self.ckpt):
            self._refuse(("ladder", "sprt"), "a server's address, whose games are counted before they are played")
        elif self.set:
            raise InputError(f"--set: is for --ckpt with a server's address, not {self.ckpt or 'a ladder'}")


def read_opponent(name: str) -> BotName | None:
    """Return the bot or Python object `name`, None for `self`; raises `InputError` for others."""
    return None if name == SELF else read_bot(name, choices=(*BOTS, SELF))


def read_bot(name: str, *, choices: Sequence[str] = BOTS) -> BotName:
    """Return the bot or Python object `name`, such as stockfish:3; raises `InputError` for unknown ones and depths."""
    kind, colon, depth = name.removeprefix(BOT_PREFIX).partition(":")
    if kind not in choices and is_code(name):
        return BotName(name, PYTHON)
    choose("chess player", kind, choices)
    if not colon:
        return BotName(name, kind, int(kind == STOCKFISH))
    if kind != STOCKFISH or not depth.isdecimal():
        raise InputError(f"player {name!r}: give a depth to Stockfish only, as a number, as in stockfish:3")
    check_number("depth of stockfish", int(depth), DEPTH)
    return BotName(name, kind, int(depth))


def find_chess_player(name: str, *, bare: Sequence[str] = BOTS, served: bool = False) -> BotName | Player:
    """Locate a player without loading torch: a bot, a Python object, or a language model; `bare` need no `bot:`.

    Models on a server are found where they are `served`.
    Raises `UnknownNameError` with the choices and the nearest match, and `InputError` for a player of another game.
    """
    if name.startswith(BOT_PREFIX) or name.partition(":")[0] in bare or is_code(name):
        return read_bot(name)
    try:
        located = find_player(name, GAME)
    except UnknownNameError as error:
        if not bare:
            raise
        bots = f"no bot of that name ({', '.join(bare)}{suggestion(name, bare)})"
        raise UnknownNameError(f"unknown opponent {name!r}: {bots} and {error}") from error
    check_game(GAME, located)
    if isinstance(located, str) and is_server(located) and not served:
        raise InputError(f"{located}: models on servers play in eval/run.py --ckpt alone; give a run or a folder")
    return located
