"""Evaluate a language model, a bot or a Python object in chess: `python eval/run.py --ckpt RUN --opponents random`.

The model answers the P task, and its best move is played. Prints wins, draws and losses with 95 % intervals, legal
half-moves per game and the share of illegal answers, and writes them beside the checkpoint or to --out; --pgn and
--replay write the games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sparring.agents.opponents.players import Player, results_place
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.envs.chess import check_package
from sparring.envs.chess.evaluation.options import BotName, ChessOptions, find_chess_player, read_opponent
from sparring.eval.command import Evaluation, GameEvaluation, kept_cells, make_folders, options_key, use_machine

if TYPE_CHECKING:
    from sparring.envs.chess.evaluation.games import ChessGame, ChessPlayer, KeptGames
    from sparring.envs.chess.evaluation.results import OpponentResult


def evaluate(options: ChessOptions) -> Evaluation:
    """Play the games of `options`; games cut short are part of the result. Raises `InputError` for bad input."""
    check_package()
    located = find_chess_player(options.ckpt, bare=())
    make_folders([options.out], files=[options.pgn, options.replay])
    from sparring.envs.chess.evaluation.games import KeptGames

    with ExitStack() as opened:
        player = _open(located, options, opened)
        opponents = [(name, read_opponent(name)) for name in options.opponents]
        rivals = [(name, _open(rival, options, opened) if rival else None) for name, rival in opponents]
        file = kept_cells(_place(options, located))
        key = options_key(options, [_name(located), *map(_name, (rival for _, rival in opponents))]) if file else ""
        results, cut = _play_all(player, rivals, options, KeptGames(file, key) if file and key else None)
    if not results:
        return Evaluation("", "", cut=cut, quiet=options.quiet)
    return _evaluation(options, located, player.name, results, cut)


def _play_all(
    player: ChessPlayer,
    rivals: Sequence[tuple[str, ChessPlayer | None]],
    options: ChessOptions,
    saved: KeptGames | None,
) -> tuple[list[OpponentResult], BaseException | None]:
    """Play all opponents; after a failure or Ctrl-C return the complete results and the cause."""
    results: list[OpponentResult] = []
    try:
        for name, rival in rivals:
            stored = saved.of(player.name, rival.name if rival else name) if saved else None
            results.append(_play(player, name, rival, options, stored))
    except (InputError, KeyboardInterrupt) as error:
        return results, error
    if saved:
        saved.results.discard()
    return results, None


def _place(options: ChessOptions, located: BotName | Player) -> tuple[Path, str] | None:
    """Return folder and name of the results."""
    beside = None if isinstance(located, BotName) else results_place(located)
    return (options.out, "chess") if options.out else beside


def _name(player: BotName | Player | None) -> Player | None:
    """Return a player as `options_key` takes it."""
    return player.text if isinstance(player, BotName) else player


def _open(located: BotName | Player, options: ChessOptions, opened: ExitStack) -> ChessPlayer:
    device = "cpu"
    if not isinstance(located, BotName):
        device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    from sparring.envs.chess.evaluation.games import open_player

    how: dict[str, Any] = {"temperature": options.temperature, "tokens": options.tokens}
    return open_player(located, device, opened=opened, engine=options.engine, cache=options.cache, **how)


def _play(
    player: ChessPlayer, name: str, rival: ChessPlayer | None, options: ChessOptions, saved: KeptGames | None
) -> OpponentResult:
    from sparring.envs.chess.evaluation.games import GameConditions, play_games
    from sparring.envs.chess.evaluation.results import OpponentResult

    conditions = GameConditions(
        options.games, options.plies, options.opening_plies, options.illegal == "lose", options.seed
    )
    with tqdm(total=options.games, unit="game", desc=name, disable=options.quiet) as bar:

        def show(games: Sequence[ChessGame]) -> None:
            bar.update(sum(game.over for game in games) - bar.n)

        games = play_games(player, rival, conditions, show, saved)
    return OpponentResult(name, rival.name if rival else name, games)


def _evaluation(
    options: ChessOptions,
    located: BotName | Player,
    player: str,
    results: Sequence[OpponentResult],
    cut: BaseException | None,
) -> Evaluation:
    """Return the results; partial ones have names of their own, and so never replace complete ones."""
    from sparring.envs.chess.evaluation.results import page, to_json, to_markdown, to_pgn

    stem = _place(options, located)
    stem = (stem[0], f"{stem[1]}.partial") if stem and cut is not None else stem
    text, data = to_markdown(options, player, results), to_json(options, player, results)
    games = [game for result in results for game in result.played]
    outputs: dict[Path, Callable[[Path], None]] = {}
    if options.pgn:
        outputs[options.pgn] = lambda path: write_atomically(path, to_pgn(games))
    if options.replay:
        replay = partial(page, games, title=f"Chess: {player}")
        outputs[options.replay] = lambda path: write_atomically(path, replay())
    return Evaluation(text, data, stem, outputs, options.failures(results), cut=cut, quiet=options.quiet)


EVALUATION = GameEvaluation(ChessOptions, evaluate, {".html": "replay", ".pgn": "pgn"}, {"games": 2})
