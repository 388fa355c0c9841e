"""Play chess on a page of the local server: `python eval/play.py --env chess`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sparring.configs.core.errors import InputError, require_packages
from sparring.configs.schema import DEVICE
from sparring.envs.chess import PACKAGE
from sparring.envs.chess.evaluation.options import ILLEGAL, RANDOM_SIDE, SIDES, TEMPERATURE, TOKENS, find_chess_player
from sparring.eval.browser.server import AFTER_EXAMPLES, SCRIPT, BrowserGame, HostedGame, ServerOptions, serve_game
from sparring.eval.command import make_folders
from sparring.eval.options import CommandText, argument

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
Without Stockfish (apt-get install stockfish), the built-in search replaces it."""


@dataclass(frozen=True, kw_only=True)
class ChessPlayOptions(ServerOptions):
    """Options of chess; the opponent is not located and the file is not read yet."""

    NEEDS: ClassVar = {**ServerOptions.NEEDS, PACKAGE: "chess"}
    TEXT = CommandText(
        SCRIPT,
        "Play chess against a language model or a bot, in the browser.",
        _EXAMPLES + AFTER_EXAMPLES,
        env="chess",
    )
    opponent: str = argument("", metavar="O")
    """A run, a model's folder, or a bot (default: as in --resume, else stockfish:1)."""
    side: str = argument("", SIDES, metavar="|".join(SIDES))
    """Your side (default: white, or as in --resume)."""
    fen: str = argument("", metavar="FEN")
    """Starting position of the games."""
    resume: Path | None = argument(None, metavar="PGN")
    """Continue an unfinished game from a PGN file."""
    illegal: str = argument(ILLEGAL[0], ILLEGAL, metavar="|".join(ILLEGAL))
    """Effect of an illegal move of the opponent."""
    temperature: float = argument(0.0, TEMPERATURE, metavar="T")
    """Sampling temperature of a language model (default: 0)."""
    tokens: int | None = argument(None, TOKENS, metavar="N")
    """Maximum tokens of an answer (default: as in training)."""
    engine: str = argument("", metavar="PATH")
    """A UCI engine (default: Stockfish on the PATH)."""
    device: str = argument("auto", DEVICE, metavar="D")
    """Device of a language model: auto, cpu, cuda, cuda:1 and so on."""
    replays: Path = argument(Path("replays"), metavar="DIR")
    """Folder of PGN files and replays."""

    def check(self) -> None:
        """Raise `InputError` for options that a saved game determines."""
        if self.resume and (self.fen or self.side == RANDOM_SIDE):
            other = "--fen" if self.fen else "--side random"
            raise InputError(f"{other} cannot be used with --resume: the file has the position")


def play(options: ChessPlayOptions) -> None:
    """Serve the page until the process is interrupted."""
    require_packages(options.NEEDS)
    from sparring.envs.chess.browser import session
    from sparring.envs.chess.browser.person_game import read_fen, resume_game

    resumed = resume_game(options.resume, options.side) if options.resume else None
    opponent = options.opponent or (session.saved_opponent(resumed) if resumed else "") or DEFAULT_OPPONENT
    find_chess_player(opponent)
    rules = session.TableRules(
        options.side or SIDES[0], read_fen(options.fen), options.illegal == "lose", options.seed, options.replays
    )
    make_folders([options.replays])
    opponents = session.ChessOpponents(
        options.device, options.engine, options.temperature, options.tokens, quiet=options.quiet
    )

    def host() -> HostedGame:
        opponents.load(opponent)  # fails early if the opponent cannot play
        return session.HostedChess(
            session.ChessTable(opponents, session.known_chess_opponents(opponent), rules, resumed)
        )

    try:
        serve_game(options, host)
    finally:
        opponents.close()


BROWSER = BrowserGame(ChessPlayOptions, play)
