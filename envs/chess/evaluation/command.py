"""Evaluate a language model, a bot or a Python object in chess: `python eval/run.py --ckpt RUN --opponents random`.

The model answers the P task, and its best move is played. The command prints wins, draws and losses with 95 %
intervals, legal half-moves per game and the share of illegal answers. It writes them next to the checkpoint or to
--out. Use --pgn and --replay to write the games, --ladder and --sprt to compare players as in other games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.agents.language.endpoint.price import spent
from sparring.agents.opponents.players import BOT_PREFIX, Player, is_server
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import say
from sparring.envs.chess import GAME, check_package
from sparring.envs.chess.evaluation.options import (
    SELF,
    BotName,
    ChessMatchOptions,
    ChessOptions,
    find_chess_player,
    read_opponent,
)
from sparring.envs.text_moves import KINDS, LEGAL
from sparring.eval.command import GameEvaluation, GamePayoff, use_machine
from sparring.eval.paired.evaluation import PairedGame, PairedPlayers, Plan, evaluate
from sparring.eval.payoff import PayoffOptions, payoff, payoff_text
from sparring.eval.stats.tables import PairConditions

if TYPE_CHECKING:
    from sparring.envs.chess.evaluation.matches import ChessEntrant, ChessMatches
    from sparring.envs.chess.evaluation.models import ModelPlayer, MovePlayer
    from sparring.eval.paired.evaluation import Played


_PAYOFF_EXAMPLES = """\
  python eval/payoff.py --env chess --opponents random,builtin,stockfish:3
  python eval/payoff.py --env chess --opponents random,builtin,my_bots:Mine --anchor random=0 --out chess.png"""


def find(name: str, opponent: bool) -> Player:
    """Locate a player, a bot or a Python object as text. Raises `UnknownNameError`."""
    check_package()
    located = read_opponent(name) if opponent else find_chess_player(name, bare=(), served=True)
    return name if located is None or isinstance(located, BotName) else located


def machine(options: ChessMatchOptions, players: Sequence[Player]) -> tuple[str, int]:
    """Load torch only for language models, and return the device and the threads."""
    if any(isinstance(player, Path) or (isinstance(player, str) and is_server(player)) for player in players):
        return use_machine(options.device, options.threads, quiet=options.quiet)
    return "cpu", 1


def open_players(
    options: ChessMatchOptions, player: Player | None, opponents: Sequence[Player], device: str, like: Any = None
) -> PairedPlayers:
    """Load the players; a note names the engine of each that has one."""
    from sparring.envs.chess.evaluation.matches import ChessEntrant, open_entrant

    with ExitStack() as stack:
        opened = partial(open_entrant, options=options, device=device, resources=stack)
        first = None if player is None else opened(options.ckpt.removeprefix(BOT_PREFIX), player)
        rivals = [
            ChessEntrant(SELF) if name == SELF else opened(name, located)
            for name, located in zip(options.opponents, opponents, strict=True)
        ]
        entrants = [*([first] if first else ()), *rivals]
        if is_server(options.ckpt):
            follow_server(options, first.player, stack)  # type: ignore[arg-type, union-attr]
        notes = tuple(f"{entrant.name}: {entrant.title}" for entrant in entrants if entrant.is_engine)
        return PairedPlayers(first, rivals, notes, stack.pop_all())


def follow_server(options: ChessOptions, player: ModelPlayer | MovePlayer, resources: ExitStack) -> None:
    """Print a server's expected cost, store its answers, and write transcripts."""
    from sparring.envs.chess.evaluation.models import SAMPLED, sample_prompts

    server = player.backend
    resources.callback(server.close)
    names = ("plies", "opening_plies", "illegal", "answers", "tokens", "seed")
    stated = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    options.follow(server, options.out and options.out / CHESS.results, stated)
    prompts = sample_prompts(player, plies=options.plies, opening_plies=options.opening_plies, seed=options.seed)
    games = options.games * (len(options.opponents) + (SELF in options.opponents))  # against itself it plays both sides
    forecast = server.forecast(prompts, games / SAMPLED)
    say(f"{options.games} games of each pair: {forecast}, if both sides draw their moves", enabled=not options.quiet)


def extras(options: ChessOptions, players: PairedPlayers, plan: Plan, played: Played) -> None:
    """Add a model's answers by kind, and what a server counted, whose kept answers are done with."""
    player = players.player.player
    if kinds := getattr(player, "kinds", None):
        played.about["answers"] = {kind: kinds[kind] for kind in (LEGAL, *KINDS)}
        counts = ", ".join(f"{count} {kind}" for kind, count in played.about["answers"].items())
        played.tables.append(f"Answers of the model: {counts}.")
    if is_server(options.ckpt):
        player.backend.discard_kept()
        played.about["endpoint"] = player.backend.metrics()
        played.tables.append(spent(played.about["endpoint"]))


def matches(options: ChessMatchOptions, players: Sequence[ChessEntrant], device: str, threads: int) -> ChessMatches:
    """Return matches under the rules of `options`."""
    from sparring.envs.chess.evaluation.matches import ChessMatches

    return ChessMatches(options.plies, options.opening_plies, options.illegal == "lose")


def conditions(options: ChessMatchOptions, played: ChessMatches) -> PairConditions:
    """Return openings, longest game and the rule for illegal moves, for ladders and tests."""
    from sparring.envs.chess.evaluation.results import stated_illegal

    fields = {name: getattr(options, name) for name in ("plies", "opening_plies", "illegal", "temperature")}
    details = f"; openings of {played.opening_plies} random half-moves, a draw after {played.plies}"
    return PairConditions(
        "chess",
        "chess_payoff",
        GAME.id,
        GAME.title,
        fields,
        (),
        lambda record: [],
        details=f"{details}. {stated_illegal(options.illegal)}",
    )


def texts(options: ChessOptions, players: PairedPlayers, plan: Plan, played: Played) -> tuple[str, str]:
    """Return the table of results and the JSON."""
    from sparring.envs.chess.evaluation.results import to_json, to_markdown

    title = players.player.title
    text, data = to_markdown(options, title, played.records, played.tables), played.about
    return text, to_json(options, title, played.records, data)


def outputs(
    options: ChessOptions, players: PairedPlayers, plan: Plan, played: Played
) -> dict[Path, Callable[[Path], None]]:
    """Return the writers of --pgn and --replay, with all games."""
    from sparring.envs.chess.evaluation.results import page, to_pgn

    games = [game for record in played.records for game in record.played]
    writers: dict[Path, Callable[[Path], None]] = {}
    if options.pgn:
        writers[options.pgn] = lambda path: write_atomically(path, to_pgn(games))
    if options.replay:
        replay = partial(page, games, title=f"Chess: {players.player.title}")
        writers[options.replay] = lambda path: write_atomically(path, replay())
    return writers


CHESS = PairedGame(
    GAME,
    find,
    open_players,
    matches=matches,
    conditions=conditions,
    machine=machine,
    outputs=outputs,
    extras=extras,
    texts=texts,
    results="chess",
    by_text=True,
)


@dataclass(frozen=True, kw_only=True)
class ChessPayoffOptions(PayoffOptions, ChessMatchOptions):
    """Options of a payoff matrix."""

    TEXT = payoff_text(_PAYOFF_EXAMPLES, GAME.name)

    @property
    def rates(self) -> str:
        """The command, in which players are compared with each other."""
        return "eval/payoff.py"

    def check(self) -> None:
        """Raise `InputError` for a run, whose language models are not compared with each other."""
        super().check()
        if self.ckpt:
            raise InputError(f"--ckpt {self.ckpt}: a run of chess has no snapshots; name players in --opponents")


PAYOFF = GamePayoff(ChessPayoffOptions, partial(payoff, CHESS))
EVALUATION = GameEvaluation(ChessOptions, partial(evaluate, CHESS), {".html": "replay", ".pgn": "pgn"}, {"games": 2})
