"""Command line of the chess evaluation, validated without torch, python-chess and engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.players import BOT_PREFIX, Player, check_game, find_player, is_server
from sparring.configs.core.errors import InputError, UnknownNameError, choose, suggestion
from sparring.configs.opponents import is_code
from sparring.envs.chess import BOTS, GAME
from sparring.eval.stats.parser import (
    GAMES,
    CommonOptions,
    Parser,
    add_machine,
    add_results,
    check_machine,
    check_number,
    read_names,
)

SELF = "self"
RANDOM, STOCKFISH = "random", "stockfish"
PYTHON = "python"
"""Kind of a Python object."""
ILLEGAL = ("lose", "random")
RANDOM_SIDE = "random"
SIDES = ("white", "black", RANDOM_SIDE)
"""Sides of a person in the browser."""
DEPTH, PLIES, OPENING, TEMPERATURE, TOKENS = "[1, 60]", "[1, 10000]", "[0, 100]", "[0, 10]", "[1, 100000]"
OPENING_PLIES = 4

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt quick-hawk-rookworld_sft --opponents random,stockfish:1 --games 20
  python eval/run.py --ckpt RUN --opponents self --pgn games.pgn --replay game.html
  python eval/run.py --env chess --ckpt bot:builtin --opponents random,stockfish:3
  python eval/run.py --env chess --ckpt FOLDER --illegal random --temperature 0.5
  python eval/run.py --ckpt RUN --opponents my_bots:Mine        a Python object (docs/opponents.md)

bots: random, every legal move equally likely; builtin, the built-in search; stockfish:N, Stockfish at depth N (1
without N). self: --ckpt plays both sides; the results are White's.
Stockfish is found on the PATH (apt-get install stockfish) or with --engine; where it is missing, the built-in search
stands in for it, which the table says.
exit codes: 0 done, 2 bad input or a failing engine, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class BotName:
    """A bot or a Python object, and the depth of Stockfish; 0 for others."""

    text: str
    kind: str
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class ChessOptions(CommonOptions):
    """Options of a chess evaluation."""

    opponents: tuple[str, ...]
    games: int
    plies: int
    """Half-moves after which a game is a draw, those of the opening included."""
    opening_plies: int
    illegal: str
    temperature: float
    tokens: int | None
    """Most tokens of an answer; None: those of the training."""
    engine: str
    cache: Path | None
    pgn: Path | None
    replay: Path | None


def read_options(arguments: Sequence[str]) -> ChessOptions:
    """Read the command line; raises `InputError` with one line naming the error, and exits after --help."""
    values = _parser().read(arguments)
    values["opponents"] = read_names("--opponents", values["opponents"])
    options = ChessOptions(**values)
    if not options.ckpt:
        raise InputError("--ckpt is missing: name a run, a model's folder, a bot, as in bot:builtin, or module:Name")
    for name in options.opponents:
        read_opponent(name)
    limits = {"games": GAMES, "plies": PLIES, "opening_plies": OPENING, "temperature": TEMPERATURE}
    if options.tokens is not None:
        limits["tokens"] = TOKENS
    for name, allowed in limits.items():
        check_number(f"--{name.replace('_', '-')}", values[name], allowed)
    if options.games % 2:
        raise InputError(f"--games {options.games}: must be even, since every opening is played with both colours")
    if options.plies <= options.opening_plies:
        raise InputError(f"--plies {options.plies}: must be more than --opening-plies {options.opening_plies}")
    choose("--illegal", options.illegal, ILLEGAL)
    check_machine(values)
    return options


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


def find_chess_player(name: str, *, bare: Sequence[str] = BOTS) -> BotName | Player:
    """Locate a player without loading torch: a bot, a Python object, or a language model; `bare` need no `bot:`.

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
    if isinstance(located, str) and is_server(located):
        raise InputError(f"{located}: models on servers do not play chess yet; give a run or a model's folder")
    return located


def _parser() -> Parser:
    parser = Parser(
        "eval/run.py",
        "Let a language model that answers with its best move play chess, or a bot, and print wins, draws and losses.",
        _EXAMPLES,
        env="chess",
    )
    players = parser.add_argument_group("who plays")
    players.add_argument(
        "--ckpt", default="", metavar="C", help="a run, a model's folder, smollm2, bot:NAME, or module:Name"
    )
    players.add_argument(
        "--opponents",
        nargs="+",
        default=["random", "stockfish:1"],
        metavar="O",
        help="bots, module:Name of Python objects, or self (default: random, stockfish:1)",
    )
    players.add_argument("--engine", default="", metavar="PATH", help="a UCI engine (default: Stockfish on the PATH)")
    players.add_argument("--cache", type=Path, metavar="FILE", help="keep what the engine finds there, for later runs")
    group = parser.add_argument_group("under what conditions")
    group.add_argument("--games", type=int, default=20, metavar="N", help="games per opponent, even (default: 20)")
    group.add_argument("--plies", type=int, default=300, metavar="N", help="half-moves until a draw (default: 300)")
    group.add_argument(
        "--opening-plies",
        type=int,
        default=OPENING_PLIES,
        metavar="N",
        help=f"random first half-moves (default: {OPENING_PLIES})",
    )
    group.add_argument(
        "--illegal", default="lose", metavar="|".join(ILLEGAL), help="what an illegal move of --ckpt does"
    )
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="of a language model (default: 0)")
    group.add_argument(
        "--tokens", type=int, metavar="N", help="most tokens of an answer (default: those of the training)"
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of openings, random moves and draws (default: 0)"
    )
    add_machine(group)
    results = add_results(
        parser, out="write chess.md and .json there (default: eval.md and .json beside --ckpt)", metavar="DIR"
    )
    results.add_argument("--pgn", type=Path, metavar="PGN", help="write all games there")
    results.add_argument(
        "--replay", type=Path, metavar="HTML", help="write a page there on which the games can be watched"
    )
    return parser
