"""Play chess on a page of the local server: `python eval/play.py --env chess`."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.envs.chess import check_package
from sparring.eval.browser.chess.options import DEFAULT_OPPONENT, SIDES, read_options
from sparring.eval.browser.server import HostedGame, serve_game
from sparring.eval.command import make_folders


def play(arguments: Sequence[str]) -> None:
    """Serve the page until the process is interrupted."""
    options = read_options(arguments)
    check_package()
    from sparring.eval.browser.chess.opponents import (
        ChessOpponents,
        find_chess_opponent,
        known_chess_opponents,
        saved_opponent,
    )
    from sparring.eval.browser.chess.session import HostedChess
    from sparring.eval.browser.chess.starts import read_fen, resume_game
    from sparring.eval.browser.chess.table import ChessTable, TableRules

    resumed = resume_game(options.resume, options.side) if options.resume else None
    opponent = options.opponent or (saved_opponent(resumed) if resumed else "") or DEFAULT_OPPONENT
    find_chess_opponent(opponent)
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
