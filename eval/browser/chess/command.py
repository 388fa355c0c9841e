"""Play chess on a page of the local server: `python eval/play.py --env chess`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, choose
from sparring.configs.schema import DEVICE
from sparring.envs.chess import check_package
from sparring.eval.browser.server import HostedGame, ServerOptions, check_server, play_parser, serve_game
from sparring.eval.chess.options import ILLEGAL, RANDOM_SIDE, SIDES, TEMPERATURE, TOKENS, find_chess_player
from sparring.eval.command import make_folders
from sparring.eval.stats.parser import Parser, check_number

DEFAULT_OPPONENT = "stockfish:1"

_EXAMPLES = """\
examples:
  python eval/play.py --env chess                                        against Stockfish at depth 1
  python eval/play.py --opponent quick-hawk-rookworld_sft --side black   a run that trained a language model
  python eval/play.py --env chess --opponent FOLDER --illegal random     a model's folder
  python eval/play.py --env chess --resume replays/game-1.pgn --opponent stockfish:8
  python eval/play.py --env chess --fen "8/8/8/4k3/8/8/4P3/4K3 w - - 0 1"

opponents: random; builtin, the built-in search; stockfish:N, Stockfish at depth N; a run, a model's folder, smollm2; a
Python object, as my_bots:Mine.
Where Stockfish is missing (apt-get install stockfish), the built-in search stands in for it."""


@dataclass(frozen=True, kw_only=True)
class ChessPlayOptions(ServerOptions):
    """Options of chess; the opponent, "" if none is given, has not been located, nor the file read."""

    opponent: str
    side: str
    fen: str
    resume: Path | None
    illegal: str
    temperature: float
    tokens: int | None
    engine: str
    device: str
    replays: Path


def read_options(arguments: Sequence[str]) -> ChessPlayOptions:
    """Read the command line. Raises `InputError` with a one-line message; exits after --help."""
    options = ChessPlayOptions(**check_server(_parser().read(arguments)))
    if options.resume and (options.fen or options.side == RANDOM_SIDE):
        other = "--fen" if options.fen else "--side random"
        raise InputError(f"{other} does not go with --resume: the file says where the game stands")
    choose("--side", options.side or SIDES[0], SIDES)
    choose("--illegal", options.illegal, ILLEGAL)
    check_number("--temperature", options.temperature, TEMPERATURE)
    if options.tokens is not None:
        check_number("--tokens", options.tokens, TOKENS)
    if wrong := complaint(options.device, DEVICE):
        raise InputError(f"--device {options.device!r}: {wrong}")
    return options


def _parser() -> Parser:
    parser = play_parser("chess", "Play chess against a language model or a bot, in the browser.", _EXAMPLES)
    opponent = f"a run, a model's folder, or a bot (default: that of --resume, else {DEFAULT_OPPONENT})"
    parser.add_argument("--opponent", default="", metavar="O", help=opponent)
    parser.add_argument(
        "--side", default="", metavar="|".join(SIDES), help="your side (default: white, or as in --resume)"
    )
    parser.add_argument("--fen", default="", metavar="FEN", help="position in which games begin")
    parser.add_argument("--resume", type=Path, metavar="PGN", help="go on with an unfinished game, saved here or not")
    parser.add_argument(
        "--illegal", default=ILLEGAL[0], metavar="|".join(ILLEGAL), help="what an illegal move of the opponent does"
    )
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="of a language model (default: 0)")
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="most tokens of an answer (default: those of the training)"
    )
    parser.add_argument("--engine", default="", metavar="PATH", help="a UCI engine (default: Stockfish on the PATH)")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    folder = "folder of PGN files and replays (default: replays)"
    parser.add_argument("--replays", type=Path, default=Path("replays"), metavar="DIR", help=folder)
    return parser


def play(arguments: Sequence[str]) -> None:
    """Serve the page until the process is interrupted."""
    options = read_options(arguments)
    check_package()
    from sparring.eval.browser.chess.opponents import (
        ChessOpponents,
        known_chess_opponents,
        saved_opponent,
    )
    from sparring.eval.browser.chess.person_game import read_fen, resume_game
    from sparring.eval.browser.chess.session import HostedChess
    from sparring.eval.browser.chess.table import ChessTable, TableRules

    resumed = resume_game(options.resume, options.side) if options.resume else None
    opponent = options.opponent or (saved_opponent(resumed) if resumed else "") or DEFAULT_OPPONENT
    find_chess_player(opponent)
    rules = TableRules(
        options.side or SIDES[0], read_fen(options.fen), options.illegal == "lose", options.seed, options.replays
    )
    make_folders([options.replays])
    opponents = ChessOpponents(options.device, options.engine, options.temperature, options.tokens, quiet=options.quiet)

    def host() -> HostedGame:
        opponents.load(opponent)  # one that cannot play ends the command
        return HostedChess(ChessTable(opponents, known_chess_opponents(opponent), rules, resumed))

    try:
        serve_game(options, host)
    finally:
        opponents.close()
