"""Evaluate a language model, a bot or a Python object in chess: `python eval/run.py --ckpt RUN --opponents random`.

The model answers the P task, and its best move is played. Prints wins, draws and losses with 95 % intervals, legal
half-moves per game and the share of illegal answers, and writes them beside the checkpoint or to --out; --pgn and
--replay write the games. Exit codes: 0 done, 2 bad input or a failing engine, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from sparring.agents.opponents.players import BOT_PREFIX, Player, find_player, results_place
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.opponents import is_code
from sparring.envs.chess import GAME, check_package
from sparring.eval.chess.options import BotName, ChessOptions, check_model, read_bot, read_opponent, read_options
from sparring.eval.command import Evaluation, RecordingOptions, evaluate_command, make_folders, use_machine

if TYPE_CHECKING:
    from sparring.eval.chess.games import ChessGame, ChessPlayer
    from sparring.eval.chess.results import OpponentResult


RECORDING = RecordingOptions({".html": "replay", ".pgn": "pgn"}, {"games": 2})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return evaluate_command(evaluate, arguments)


def evaluate(arguments: Sequence[str]) -> Evaluation:
    """Play what a command line says; games cut short are part of the result. Raises `InputError` for bad input."""
    options = read_options(arguments)
    check_package()
    bot = read_bot(options.ckpt) if options.ckpt.startswith(BOT_PREFIX) or is_code(options.ckpt) else None
    located = options.ckpt if bot else find_player(options.ckpt, GAME)
    if not bot:
        check_model(located)
    make_folders([options.out], files=[options.pgn, options.replay])
    with ExitStack() as opened:
        player = _open_bot(bot, options, opened) if bot else _load_model(located, options)
        opponents = [(name, read_opponent(name)) for name in options.opponents]
        rivals = [(name, _open_bot(rival, options, opened) if rival else None) for name, rival in opponents]
        results, cut = _play_all(player, rivals, options)
    if not results:
        return Evaluation("", "", cut=cut, quiet=options.quiet)
    return _evaluation(options, located, player.name, results, cut)


def _play_all(
    player: ChessPlayer, rivals: Sequence[tuple[str, ChessPlayer | None]], options: ChessOptions
) -> tuple[list[OpponentResult], BaseException | None]:
    """Play all opponents; after a failure or Ctrl-C return the complete results and the cause."""
    results: list[OpponentResult] = []
    try:
        for name, rival in rivals:
            results.append(_play(player, name, rival, options))
    except (InputError, KeyboardInterrupt) as error:
        return results, error
    return results, None


def _load_model(located: Player, options: ChessOptions) -> ChessPlayer:
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    from sparring.agents.llm.models.load import check_packages

    check_packages()
    from sparring.eval.chess.models import load_player

    return load_player(located, device, temperature=options.temperature, tokens=options.tokens)


def _open_bot(bot: BotName, options: ChessOptions, opened: ExitStack) -> ChessPlayer:
    from sparring.eval.chess.games import open_bot

    return open_bot(bot, opened, engine=options.engine, cache=options.cache)


def _play(player: ChessPlayer, name: str, rival: ChessPlayer | None, options: ChessOptions) -> OpponentResult:
    from sparring.eval.chess.games import GameConditions, play_games
    from sparring.eval.chess.results import OpponentResult

    conditions = GameConditions(
        options.games, options.plies, options.opening_plies, options.illegal == "lose", options.seed
    )
    with tqdm(total=options.games, unit="game", desc=name, disable=options.quiet) as bar:

        def show(games: Sequence[ChessGame]) -> None:
            bar.update(sum(game.over for game in games) - bar.n)

        games = play_games(player, rival, conditions, show)
    return OpponentResult(name, rival.name if rival else name, games)


def _evaluation(
    options: ChessOptions, located: Player, player: str, results: Sequence[OpponentResult], cut: BaseException | None
) -> Evaluation:
    """Return the results; partial ones have names of their own, and so never replace complete ones."""
    from sparring.eval.chess.results import page, to_json, to_markdown, to_pgn

    place = (options.out, "chess") if options.out else results_place(located)
    place = (place[0], f"{place[1]}.partial") if place and cut is not None else place
    text, data = to_markdown(options, player, results), to_json(options, player, results)
    games = [game for result in results for game in result.games]
    outputs: dict[Path, Callable[[Path], None]] = {}
    if options.pgn:
        outputs[options.pgn] = lambda path: write_atomically(path, to_pgn(games))
    if options.replay:
        replay = partial(page, games, title=f"Chess: {player}")
        outputs[options.replay] = lambda path: write_atomically(path, replay())
    return Evaluation(text, data, place, outputs, cut=cut, quiet=options.quiet)
