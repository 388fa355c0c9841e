"""Evaluation of a player against opponents, in any game; ladders and sequential tests are in `comparisons.py`.

A game provides a `PairedGame`: how names become players, and the matches in which they meet. Seeds, kept results,
partial results, requirements and files are the same for all games, and so are tables unless a game has its own.

A cell is a pair under one regime: a batch of games, half from each seat, from the plan's seed. All opponents face the
player from the same starting states, and the same call gives the same records, from any number of processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import GenericAlias
from typing import Any, ClassVar, NoReturn

from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptGames, KeptResults, finish_tasks
from sparring.agents.opponents.players import BOT_PREFIX, Player, check_game, display_name, display_path, results_place
from sparring.configs.core.device import HERE, Executor
from sparring.configs.core.errors import InputError
from sparring.envs.game import Game, load
from sparring.eval.command import Evaluation, cell_key, kept_cells, make_folders, place_of, use_machine
from sparring.eval.paired.options import PairedEvaluationOptions, PairedOptions
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import MatchRecord, PairConditions, Report, markdown, to_json

Pair = tuple[Any, ...]
"""Two players of a game, or the one of an environment without opponents, each with a `name`."""


class Matches(ABC):
    """Conditions of a game's matches, which can be pickled, and how a pair plays under them."""

    unit: ClassVar[str] = "game"
    """Unit of the progress bar."""
    versus: ClassVar[str] = "vs"
    """Text between the players in the progress bar."""
    by_game: ClassVar[bool] = False
    """True if finished games are kept one by one (`Cell.kept_games`), in place of finished cells."""

    @property
    def record(self) -> Any:
        """Type of the records."""
        return MatchRecord

    @property
    @abstractmethod
    def device(self) -> str:
        """Device of the matches."""

    @abstractmethod
    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[Any, list[Any]]:
        """Return the record of the games of a cell, and what was filmed. Raises `InputError` for void games."""

    @abstractmethod
    def stated(self) -> Any:
        """Return everything that a game depends on besides players, seed and regime, as data."""

    @abstractmethod
    def identity(self, player: Any) -> tuple[Any, Path | None] | None:
        """Return data and a file that identify a player; None if it is code or files that may have changed."""

    def size(self, games: int) -> int:
        """Return the units of the progress bar for a number of games."""
        return games


@dataclass(frozen=True)
class Plan:
    """Games of every cell: `games` from `seed`, under `matches` in each of `regimes`."""

    matches: Matches
    games: int
    seed: int
    regimes: Sequence[str] = ("",)
    executor: Executor = HERE
    """Who plays the cells."""
    cells_file: Path | None = None
    """File of the cells played so far, for a command that is killed and given again."""
    quiet: bool = True
    """Without a progress bar on stderr."""

    def play(
        self, cells: Sequence[Cell], *, discard: bool = True, finished: dict[int, tuple[Any, list[Any]]] | None = None
    ) -> list[tuple[Any, list[Any]]]:
        """Return record and films of each cell; without `discard` the caller removes the file of kept cells.

        `finished` receives them by the index of the cell, for a caller that goes on after a failure.
        """
        return finish_tasks(
            play_cell,
            cells,
            self.executor,
            sizes=[self.matches.size(cell.plan.games) for cell in cells],
            cached=self.store(),
            keys=[cell.whole_key for cell in cells],
            discard=discard,
            finished=finished,
            label=str,
            unit=self.matches.unit,
            quiet=self.quiet,
        )

    def store(self) -> KeptResults[Any] | None:
        """Return the results in the file of kept cells, None without one."""
        if self.cells_file is None:
            return None
        kind = Any if self.matches.by_game else GenericAlias(tuple, (self.matches.record, list[Any]))
        return KeptResults(self.cells_file, kind)


@dataclass(frozen=True)
class Cell:
    """Games of one pair under one regime of a plan; if `filmed`, the first of them is recorded."""

    pair: Pair
    regime: str
    plan: Plan
    filmed: bool = False

    def __str__(self) -> str:
        names = f" {self.plan.matches.versus} ".join(player.name for player in self.pair)
        return ", ".join(filter(None, [names, self.regime]))

    @property
    def key(self) -> str:
        """Name under which the record is kept; empty if it depends on code or files that may have changed."""
        matches = self.plan.matches
        identities = [identity for player in self.pair if (identity := matches.identity(player)) is not None]
        if len(identities) < len(self.pair):
            return ""
        players = [(player.name, data) for player, (data, _) in zip(self.pair, identities, strict=True)]
        conditions: Mapping[str, Any] = {
            "games": self.plan.games,
            "seed": self.plan.seed,
            "regime": self.regime,
            "matches": [type(matches).__name__, matches.stated()],
            "players": players,
        }
        return cell_key(conditions, [file for _, file in identities if file])

    @property
    def whole_key(self) -> str:
        """The key of a cell whose record is kept; empty if it is filmed, or its games are kept one by one."""
        plan = self.plan
        return "" if self.filmed or plan.matches.by_game or plan.cells_file is None else self.key

    def kept_games(self, kind: Any) -> KeptGames[Any]:
        """Return the finished games of the cell, results of this `kind` by number."""
        key = self.key if self.plan.cells_file else ""
        return KeptGames(self.plan.cells_file if key else None, key, kind)


@dataclass
class Played:
    """Results so far of an evaluation; a game that plays in its own way fills them as it goes."""

    records: list[Any] = field(default_factory=list)
    films: list[Any] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    """Further content for a game's own texts, or further entries of the common JSON file."""
    notes: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    """Tables and lines below the others."""
    cut: BaseException | None = None
    """What ended the games early."""
    cut_note: str = ""
    """More about that, for stderr."""


def play_cell(cell: Cell, bar: tqdm[NoReturn]) -> tuple[Any, list[Any]]:
    """Play the games of a cell."""
    return cell.plan.matches.play(cell, bar)


def every_opponent(player: Any, opponents: Sequence[Any], plan: Plan, *, filmed: int = 0) -> list[Cell]:
    """Return the cells of `player` and every opponent, regime by regime.

    The first game against the first `filmed` opponents under the first regime is filmed.
    """
    return [
        Cell((player, opponent), regime, plan, filmed=index < filmed and regime == plan.regimes[0])
        for regime in plan.regimes
        for index, opponent in enumerate(opponents)
    ]


def play_cells(plan: Plan, cells: Sequence[Cell], played: Played) -> None:
    """Play cells and add their records and films to `played`, after a failure those of finished cells.

    With several regimes, unfinished regimes are then left out. The caller removes the file of kept cells.
    """
    finished: dict[int, tuple[Any, list[Any]]] = {}
    try:
        plan.play(cells, discard=False, finished=finished)
    finally:
        unfinished = {cell.regime for index, cell in enumerate(cells) if index not in finished}
        left_out = unfinished if len(plan.regimes) > 1 else ()
        for index in sorted(finished):
            if cells[index].regime not in left_out:
                record, films = finished[index]
                played.records.append(record)
                played.films += films


def round_robin(players: Sequence[Any], plan: Plan) -> list[Any]:
    """Play every pair once under every regime; return a record per pair."""
    cells = [Cell(pair, regime, plan) for regime in plan.regimes for pair in combinations(players, 2)]
    return [record for record, _ in plan.play(cells)]


@dataclass(frozen=True)
class PairedPlayers:
    """Players of an evaluation, opened: each has a `name`, and a policy from a file its `path` and `training`."""

    player: Any
    """The player that --ckpt names; None on a ladder without one."""
    opponents: Sequence[Any]
    notes: tuple[str, ...] = ()
    """Notes on single players."""
    resources: ExitStack = field(default_factory=ExitStack)
    """Closes the players' resources, such as engine processes, after the games."""

    @property
    def all(self) -> list[Any]:
        """All players, the player of --ckpt last."""
        return [*self.opponents, *([] if self.player is None else [self.player])]


def locate(game: PairedGame, options: PairedEvaluationOptions) -> tuple[Player | None, list[Player]]:
    """Locate the player and the opponents that the options name, without torch."""
    player = game.find(options.ckpt, False) if options.ckpt else None
    return player, [game.find(name, True) for name in options.opponents]


def saved(loader: str, options: PairedOptions, folder: Path, device: str) -> Sequence[Any]:
    """Return the policies of a run by age, as the function "module:name" loads them."""
    policies: Sequence[Any] = load(loader)(folder, device, **options.loading)
    return policies


def machine(options: PairedOptions, players: Sequence[Player]) -> tuple[str, int]:
    """Load torch and return the device and the threads."""
    return use_machine(options.device, options.runner.task_threads, quiet=options.quiet)


def meet(options: Any, players: PairedPlayers, plan: Plan, played: Played) -> None:
    """Play the player against every opponent under every regime."""
    play_cells(plan, every_opponent(players.player, players.opponents, plan, filmed=options.filmed), played)


@dataclass(frozen=True)
class PairedGame:
    """What a game provides for its evaluations and payoff matrices; `options` are its own."""

    game: Game | None
    """None for games of other packages."""
    find: Callable[[str, bool], Player]
    """`(name, opponent)`: locate a player, or an opponent, without torch."""
    open: Callable[..., PairedPlayers]
    """`(options, player, opponents, device, like=None)`: load located players, in matches of the policy `like`."""
    matches: Callable[..., Matches]
    """`(options, players, device, threads)`: matches in which all players can meet."""
    frozen: Callable[..., Sequence[Any]] = lambda options, folder, device: ()
    """`(options, folder, device)`: the saved policies of a run by age (`agents/opponents/snapshots.py`)."""
    conditions: Callable[..., PairConditions] | None = None
    """`(options, matches)`: the same in words and as data; None for a game with `texts` of its own and no ratings."""
    anchors: Sequence[str] = ()
    """Usual anchors of ratings; the first that plays is fixed at 0."""
    games: Callable[[Any, Any], int] = lambda options, matches: int(options.games)
    """`(options, matches)`: the number of games of a pair."""
    notes: Callable[[Sequence[Any]], Sequence[str]] = lambda records: ()
    """Notes on records, such as games that repeat."""
    outputs: Callable[..., Mapping[Path, Callable[[Path], None]]] = lambda *played: {}
    """`(options, players, plan, played)`: writers of replays."""
    extras: Callable[..., None] = lambda options, players, plan, played: None
    """`(options, players, plan, played)`: add more to the results of a complete evaluation."""
    locate: Callable[..., tuple[Player | None, list[Player]]] = locate
    machine: Callable[..., tuple[str, int]] = machine
    settle: Callable[[Any, Player | None], Any] = lambda options, player: options
    """`(options, player)`: the options, completed from the player's file."""
    play: Callable[..., None] = meet
    texts: Callable[..., tuple[str, str]] | None = None
    """`(options, players, plan, played)`: a game's own table and JSON, in place of the common ones."""
    results: str = ""
    """Name of results in --out; empty for the one that they have beside the player."""
    by_text: bool = False
    """Players are named as the options name them, not by their files."""


MODES = {"rated": "sparring.eval.paired.comparisons:run_ladder", "sprt": "sparring.eval.paired.comparisons:run_sprt"}


def evaluate(game: PairedGame, options: PairedEvaluationOptions) -> Evaluation:
    """Play the matches, the ladder or the test of `options`. Raises `InputError` for bad input."""
    player, opponents = game.locate(game, options)
    all_players = [*opponents, *([] if player is None else [player])]
    if game.game:
        check_game(game.game, *all_players)
        texts = [*options.opponents, *([] if player is None else [options.ckpt.removeprefix(BOT_PREFIX)])]
        names = texts if game.by_text else [display_name(entry) for entry in all_players]
        check_players(game, options, names if options.rated else names[: len(opponents)])
    make_folders([options.out], files=[getattr(options, name) for name in options.OUTPUTS])
    device, threads = game.machine(options, all_players)
    options = game.settle(options, player)
    players = game.open(options, player, opponents, device)
    with players.resources:
        if game.game is None:
            entrants = players.all if options.rated else players.opponents
            check_players(game, options, [entry.name for entry in entrants])
        first = [] if players.player is None or options.rated else [players.player]
        matches = game.matches(options, [*first, *players.opponents] if first else players.all, device, threads)
        plan = make_plan(game, options, matches)
        if not plan.games:
            return Evaluation("", "", outputs=game.outputs(options, players, plan, Played()), quiet=options.quiet)
        mode = "rated" if options.rated else "sprt" if options.hypotheses else ""
        run: Callable[..., Evaluation] = load(MODES[mode]) if mode else run_evaluation
        return run(game, options, players, plan)


def make_plan(game: PairedGame, options: PairedOptions, matches: Matches, cells_file: Path | None = None) -> Plan:
    """Return the plan of the games, whose records are kept in a file."""
    number = game.games(options, matches)
    return Plan(matches, number, options.seed, options.regimes, options.runner, cells_file, options.quiet)


def check_players(game: PairedGame, options: PairedEvaluationOptions, names: Sequence[str]) -> None:
    """Raise `InputError` for a player that plays twice or alone, and for --require or --anchor of one that does not.

    `names` are of the opponents, on a ladder of all players.
    """
    options.check_opponents(names, options.regimes if any(options.regimes) else ())
    if options.rated and len(names) < 2:
        raise InputError(f"--opponents {', '.join(names)}: a ladder needs at least 2")
    if options.ladder:
        anchor_of(game, options, names)


def anchor_of(game: PairedGame, options: PairedOptions, names: Sequence[str]) -> Anchor:
    """Return the anchor that is given, or the usual one. Raises `UnknownNameError` unless it plays."""
    return (options.fixed or Anchor.among(names, game.anchors)).check(names)


def run_evaluation(
    game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan
) -> Evaluation:
    """Evaluate the player; a failure for each requirement that is not met.

    After a failure or Ctrl-C the results are those of the finished cells. They have names of their own, and so never
    replace complete ones.
    """
    player, played = players.player, Played()
    stem = place_of_results(game, options, player, "eval")
    plan = replace(plan, cells_file=kept_cells(stem))
    try:
        game.play(options, players, plan, played)
        game.extras(options, players, plan, played)
        if store := plan.store():
            store.discard()
    except (InputError, KeyboardInterrupt) as error:
        played.cut = error
        stem = stem and (stem[0], f"{stem[1]}.partial")
    ends: dict[str, Any] = {"cut": played.cut, "cut_note": played.cut_note, "quiet": options.quiet}
    if played.cut and not played.records:
        return Evaluation("", "", **ends)
    text, data = (game.texts or partial(common_texts, game))(options, players, plan, played)
    outputs = game.outputs(options, players, plan, played)
    records = [record for record in played.records if player and record.player == player.name]
    return Evaluation(text, data, stem, outputs, options.failures(records), **ends)


def common_texts(
    game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan, played: Played
) -> tuple[str, str]:
    """Return the table of an evaluation and its JSON, as most games have them."""
    player, notes = players.player, (*players.notes, *game.notes(played.records), *played.notes)
    report = replace(
        make_report(game, options, plan, played.records, notes),
        player=player.name,
        checkpoint=display_path(player.path) if player.path else None,
        run=player.training.get("run"),
        training=player.training,
        tables=played.tables,
        entries=played.about,
    )
    return markdown(report), to_json(report)


def make_report(
    game: PairedGame,
    options: PairedOptions,
    plan: Plan,
    records: Sequence[Any],
    notes: Sequence[str],
    anchor: Anchor | None = None,
) -> Report:
    """Return a report of the records with the data to reproduce their games, not on a single player."""
    assert game.conditions is not None
    return Report(
        None,
        records,
        game.conditions(options, plan.matches),
        games=plan.games,
        seed=plan.seed,
        deterministic=not options.stochastic,
        device=plan.matches.device,
        command=options.command,
        anchor=anchor,
        notes=tuple(dict.fromkeys(notes)),
    )


def place_of_results(
    game: PairedGame, options: PairedEvaluationOptions, player: Any, kind: str
) -> tuple[Path, str] | None:
    """Return --out, else the place next to the checkpoint; a bot's results are only printed."""
    if options.out and kind == "eval" and game.results:
        return options.out, game.results
    beside = results_place(player.path, kind) if player and player.path else None
    return place_of(options.out, beside, kind)
