"""Evaluation of a player in pairs with opponents, in any game: the table, the ladder and the sequential test.

A game hands in a `PairedGame`: how names become players, and the matches in which they meet. Seeds, kept results,
requirements, ratings, tables and files are the same for all games.

A cell is a pair under one regime: a batch of games, half from each seat, from the plan's seed. All opponents face the
player from the same starting states, and the same call gives the same records, from any number of processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from types import GenericAlias
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents.players import Player, check_game, display_name, display_path, results_place
from sparring.configs.core.device import HERE, Executor
from sparring.configs.core.errors import InputError
from sparring.curriculum.score import SCORES, GameCounts, score_interval
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict, judge
from sparring.envs.game import Game
from sparring.eval.command import Evaluation, cell_key, kept_cells, make_folders, place_of, use_machine
from sparring.eval.options import CONDITIONS, RESULTS, WHO, Pairs, PlayerOptions, RequireOptions, TaskOptions, argument
from sparring.eval.stats.payoff import ladder_markdown
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.requirements import parse_hypotheses, sprt_markdown
from sparring.eval.stats.tables import PairConditions, Report, markdown, to_json

OPEN_END = "{desc}; {n_fmt} of at most {total_fmt} games [{elapsed}, {rate_noinv_fmt}]"
"""Bar format without percentage and remaining time, for work that usually ends long before its maximum."""
Pair = tuple[Any, Any]
"""Two players of a game, each with a `name`."""


class Matches(Protocol):
    """Conditions of a game's matches, which can be pickled, and how a pair plays under them."""

    @property
    def record(self) -> Any:
        """Type of the records."""

    @property
    def device(self) -> str:
        """Device of the matches."""

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[Any, list[Any]]:
        """Return the record of the games of a cell, and what was filmed. Raises `InputError` for void games."""

    def stated(self) -> Any:
        """Return all that a game depends on besides players, seed and regime, as data."""

    def identity(self, player: Any) -> tuple[Any, Path | None] | None:
        """Return data and file that say all about a player; None if it is code or files that may have changed."""


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

    def play(self, cells: Sequence[Cell], *, discard: bool = True) -> list[tuple[Any, list[Any]]]:
        """Return record and films of each cell; without `discard` the caller removes the file of kept cells."""
        return finish_tasks(
            play_cell,
            cells,
            self.executor,
            sizes=[cell.plan.games for cell in cells],
            cached=self.store(),
            keys=["" if cell.filmed or not self.cells_file else cell.key for cell in cells],
            discard=discard,
            label=str,
            unit="game",
            quiet=self.quiet,
        )

    def store(self) -> KeptResults[Any] | None:
        """Return the results in the file of kept cells, None without one."""
        if self.cells_file is None:
            return None
        return KeptResults(self.cells_file, GenericAlias(tuple, (self.matches.record, list[Any])))


@dataclass(frozen=True)
class Cell:
    """Games of one pair under one regime of a plan; if `filmed`, the first of them is recorded."""

    pair: Pair
    regime: str
    plan: Plan
    filmed: bool = False

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"{self.pair[0].name} vs {self.pair[1].name}", self.regime]))

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


def play_cell(cell: Cell, bar: tqdm[NoReturn]) -> tuple[Any, list[Any]]:
    """Play the games of a cell."""
    return cell.plan.matches.play(cell, bar)


def meet(player: Any, opponents: Sequence[Any], plan: Plan, *, filmed: int = 0) -> tuple[list[Any], list[Any]]:
    """Play `player` against every opponent under every regime.

    Return the records, regime by regime, and films of the first game against the first `filmed` opponents under the
    first regime. The caller removes the file of kept cells.
    """
    cells = [
        Cell((player, opponent), regime, plan, filmed=index < filmed and regime == plan.regimes[0])
        for regime in plan.regimes
        for index, opponent in enumerate(opponents)
    ]
    played = plan.play(cells, discard=False)
    return [record for record, _ in played], [film for _, films in played for film in films]


def round_robin(players: Sequence[Any], plan: Plan) -> list[Any]:
    """Play every pair once under every regime; return a record per pair."""
    cells = [Cell(pair, regime, plan) for regime in plan.regimes for pair in combinations(players, 2)]
    return [record for record, _ in plan.play(cells)]


def sequential(pair: Pair, plan: Plan, hypotheses: Hypotheses, max_games: int) -> tuple[SPRTVerdict, GameCounts]:
    """Play batches of `plan.games` new games until the test is decided or `max_games` are played; count the games."""
    pairs, counts = np.zeros(len(SCORES), dtype=np.int64), np.zeros(3, dtype=np.int64)
    low, high = hypotheses.bounds
    store = plan.store()
    stored = store.read() if store else {}
    with tqdm(total=max_games, unit=" games", bar_format=OPEN_END, disable=plan.quiet) as bar:
        for batch in range(max(max_games // plan.games, 1)):
            cell = Cell(pair, plan.regimes[0], replace(plan, seed=(plan.seed + batch) % 2**31))
            key = cell.key if store else ""
            if key not in stored:
                stored[key] = play_cell(cell, tqdm(disable=True))
                if store and key:
                    store.add(key, stored[key])
            record = (stored[key] if key else stored.pop(key))[0]
            pairs += np.array(record.pairs)
            counts += np.array(record.counts)
            verdict = judge(pairs.tolist(), hypotheses)
            bar.set_description_str(
                f"{pair[0].name} vs {pair[1].name}: LLR {verdict.llr:.2f}, ends at {low:.2f} or {high:.2f}"
            )
            bar.update(plan.games)
            if verdict.accepted:
                break
    if store:
        store.discard()
    wins, draws, losses = counts.tolist()
    return verdict, GameCounts((wins, draws, losses))


GAMES = "[2, 1000000]"
PLAYER = "give a path, a run's name, final.pt for the newest run, or bot:NAME"


@dataclass(frozen=True, kw_only=True)
class PairedOptions(TaskOptions, PlayerOptions):
    """Options of every command in which pairs of players meet."""

    SETS: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names that stand for several opponents."""
    opponents: tuple[str, ...] = argument((), metavar="O", group=WHO, split=True)
    """Opponents."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Whose rating is fixed, as in ace or ace=1000 (default: the hardest bot that plays, at 0)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    games: int = argument(400, GAMES, metavar="N", group=CONDITIONS)
    """Games per opponent, even."""
    regimes: tuple[str, ...] = ("",)
    """Kinds of physics, in a game that has some."""
    snapshots: int = 0
    """Most policies of a run, in a payoff matrix."""
    sets: tuple[str, ...] = ()
    """Those of `SETS` that were named."""
    fixed: Anchor | None = None
    """The anchor of ratings, if one is given."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of them, as they are given."""
        return self.opponents

    def implied(self) -> dict[str, Any]:
        """Return the members of sets of opponents in place of their names, and the anchor."""
        members = [member for name in self.named for member in self.SETS.get(name, (name,))]
        return {
            "fixed": Anchor.parse(self.anchor) if self.anchor else None,
            "sets": tuple(name for name in self.named if name in self.SETS),
            "opponents": tuple(dict.fromkeys(members)),
        }

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        self.check_games()

    def check_games(self) -> None:
        """Raise `InputError` for an odd number of games."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every match is played from both seats")


@dataclass(frozen=True, kw_only=True)
class PairedEvaluationOptions(PairedOptions, RequireOptions):
    """Options of an evaluation; the players have not been located."""

    OUTPUTS: ClassVar[Sequence[str]] = ("replay",)
    """Options that write what was watched."""
    ladder: bool = argument(False, group=WHO)
    """Play all opponents (and --ckpt, where given) against each other."""
    sprt: Pairs | None = argument(None, metavar="K=V", group=RESULTS, nargs="*")
    """Test sequentially whether --ckpt is stronger than the one opponent: elo0=0 elo1=20 alpha=0.05 beta=0.05; --games
    at a time."""
    max_games: int = argument(100_000, GAMES, metavar="N", group=RESULTS)
    """Where --sprt gives up."""
    hypotheses: Hypotheses | None = None
    """Those of --sprt."""

    @property
    def filmed(self) -> int:
        """Number of opponents against whom the first game is filmed."""
        return 0

    def implied(self) -> dict[str, Any]:
        """Return the parsed hypotheses too."""
        return super().implied() | {"hypotheses": None if self.sprt is None else parse_hypotheses(self.sprt)}

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        super().check()
        if self.ladder:
            self._refuse(("require", *self.OUTPUTS, "sprt"), "--ladder: give a player with --ckpt instead")
            return
        if self.anchor is not None:
            raise InputError("--anchor goes with --ladder only: nothing else is rated")
        self.require_given("ckpt", PLAYER)
        if self.sprt is not None:
            for name in ("opponents", "regimes"):
                if len(getattr(self, name)) != 1:
                    raise InputError(f"--sprt tests one thing: give --{name} one name, not {len(getattr(self, name))}")
            self._refuse(("require", *self.OUTPUTS), "--sprt: leave one of them out")

    def _refuse(self, names: Sequence[str], beside: str) -> None:
        for name in names:
            if self.gives(name):
                raise InputError(f"--{name} does not go with {beside}")


@dataclass(frozen=True)
class PairedPlayers:
    """Players of an evaluation, opened: each has a `name`, and a policy from a file its `path` and `training`."""

    player: Any
    """The player that --ckpt names; None on a ladder without one."""
    opponents: Sequence[Any]
    notes: tuple[str, ...] = ()
    """Notes on single players."""


@dataclass(frozen=True)
class ExtraResults:
    """What a game adds to the report of an evaluation."""

    notes: Sequence[str] = ()
    tables: Sequence[str] = ()
    """Tables and lines below the others."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the JSON file."""


def no_outputs(
    options: Any, players: PairedPlayers, plan: Plan, records: Sequence[Any], films: Sequence[Any]
) -> dict[Path, Callable[[Path], None]]:
    """Return no replays."""
    return {}


def requested_games(options: PairedOptions, matches: Matches) -> int:
    """Return the number of games that is given."""
    return options.games


def no_notes(records: Sequence[Any]) -> list[str]:
    """Return no notes."""
    return []


def no_extras(options: Any, players: PairedPlayers, plan: Plan, records: Sequence[Any]) -> ExtraResults:
    """Add nothing."""
    return ExtraResults()


@dataclass(frozen=True)
class PairedGame:
    """What a game hands in for its evaluations and payoff matrices; `options` are its own."""

    game: Game | None
    """None for games of other packages."""
    find: Callable[[str, bool], Player]
    """`(name, opponent)`: locate a player, or an opponent, without torch."""
    open: Callable[..., PairedPlayers]
    """`(options, player, opponents, device, like=None)`: load located players, in matches of the policy `like`."""
    frozen: Callable[..., Sequence[Any]]
    """`(options, folder, device)`: the saved policies of a run by age (`agents/opponents/snapshots.py`)."""
    matches: Callable[..., Matches]
    """`(options, players, device, threads)`: matches in which all players can meet."""
    conditions: Callable[..., PairConditions]
    """`(options, matches)`: the same in words and as data."""
    anchors: Sequence[str]
    """Usual anchors of ratings; the first that plays is fixed at 0."""
    games: Callable[[Any, Any], int] = requested_games
    """`(options, matches)`: the number of games of a pair."""
    notes: Callable[[Sequence[Any]], Sequence[str]] = no_notes
    """Notes on records, such as games that repeat."""
    outputs: Callable[..., Mapping[Path, Callable[[Path], None]]] = no_outputs
    extras: Callable[..., ExtraResults] = no_extras


def evaluate(game: PairedGame, options: PairedEvaluationOptions) -> Evaluation:
    """Play the matches, the ladder or the test of `options`. Raises `InputError` for bad input."""
    player = game.find(options.ckpt, False) if options.ckpt else None
    opponents = [game.find(name, True) for name in options.opponents]
    everybody = [*opponents, *([] if player is None else [player])]
    if game.game:
        check_game(game.game, *everybody)
        check_players(game, options, [display_name(entry) for entry in (everybody if options.ladder else opponents)])
    make_folders([options.out], files=[getattr(options, name) for name in options.OUTPUTS])
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    players = game.open(options, player, opponents, device)
    if game.game is None:
        check_players(
            game, options, [entry.name for entry in (_everybody(players) if options.ladder else players.opponents)]
        )
    matches = game.matches(options, _everybody(players, first=not options.ladder), device, threads)
    plan = make_plan(game, options, matches)
    if not plan.games:
        return Evaluation("", "", outputs=game.outputs(options, players, plan, [], []), quiet=options.quiet)
    play = run_ladder if options.ladder else run_sprt if options.hypotheses else run_evaluation
    return play(game, options, players, plan)


def make_plan(game: PairedGame, options: PairedOptions, matches: Matches, cells_file: Path | None = None) -> Plan:
    """Return the plan of the games, whose records are kept in a file."""
    number = game.games(options, matches)
    return Plan(matches, number, options.seed, options.regimes, options.runner, cells_file, options.quiet)


def check_players(game: PairedGame, options: PairedEvaluationOptions, names: Sequence[str]) -> None:
    """Raise `InputError` for a player that plays twice or alone, and for --require or --anchor of one that does not.

    `names` are of the opponents, on a ladder of all players.
    """
    options.check_opponents(names, options.regimes if any(options.regimes) else ())
    if options.ladder:
        if len(names) < 2:
            raise InputError(f"--opponents {', '.join(names)}: a ladder needs at least 2")
        anchor_of(game, options, names)


def anchor_of(game: PairedGame, options: PairedOptions, names: Sequence[str]) -> Anchor:
    """Return the anchor that is given, or the usual one. Raises `UnknownNameError` unless it plays."""
    return (options.fixed or Anchor.among(names, game.anchors)).check(names)


def run_evaluation(
    game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan
) -> Evaluation:
    """Evaluate the player; a failure for each requirement that is not met."""
    player = players.player
    stem = _place(options, player, "eval")
    plan = replace(plan, cells_file=kept_cells(stem))
    records, films = meet(player, players.opponents, plan, filmed=options.filmed)
    extras = game.extras(options, players, plan, records)
    if store := plan.store():
        store.discard()
    report = replace(
        make_report(game, options, plan, records, (*players.notes, *game.notes(records), *extras.notes)),
        player=player.name,
        checkpoint=display_path(player.path) if player.path else None,
        run=player.training.get("run"),
        training=player.training,
        tables=extras.tables,
        entries=extras.fields,
    )
    outputs = game.outputs(options, players, plan, records, films)
    return Evaluation(markdown(report), to_json(report), stem, outputs, options.failures(records), quiet=options.quiet)


def run_ladder(game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan) -> Evaluation:
    """Play a round robin, and rate the players."""
    everybody, stem = _everybody(players), _place(options, None, "ladder")
    records = round_robin(everybody, replace(plan, cells_file=kept_cells(stem)))
    sides = [side for record in records for side in (record, *record.other_side())]
    anchor = anchor_of(game, options, [player.name for player in everybody])
    report = make_report(game, options, plan, sides, (*players.notes, *game.notes(records)), anchor)
    return Evaluation(ladder_markdown(report), to_json(report), stem, quiet=options.quiet)


def run_sprt(game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan) -> Evaluation:
    """Test sequentially whether the player is stronger; a failure unless H1 is accepted."""
    assert options.hypotheses is not None
    player, (opponent, *rest) = players.player, players.opponents
    if rest:
        raise InputError(f"--sprt tests one thing: give --opponents one name, not {len(rest) + 1}")
    stem = _place(options, player, "sprt")
    pair, plan = (player, opponent), replace(plan, cells_file=kept_cells(stem))
    verdict, games = sequential(pair, plan, options.hypotheses, options.max_games)
    text = sprt_markdown(player.name, opponent.name, verdict, games, options.hypotheses, players.notes)
    names = {"player": player.name, "opponent": opponent.name, "command": options.command}
    fields = {**names, "env": game.conditions(options, plan.matches).env, "notes": list(players.notes)}
    # The interval by pairs of games is the right one of the score, and pairs say nothing of wins alone.
    figures = games.figures() | {"score_interval": score_interval(verdict.pairs)}
    data = json.dumps(fields | asdict(options.hypotheses) | asdict(verdict) | figures, indent=1) + "\n"
    failures = () if verdict.accepted == "H1" else (text.splitlines()[0].removeprefix("# "),)
    return Evaluation(text, data, stem, failures=failures, quiet=options.quiet)


def make_report(
    game: PairedGame,
    options: PairedOptions,
    plan: Plan,
    records: Sequence[Any],
    notes: Sequence[str],
    anchor: Anchor | None = None,
) -> Report:
    """Return a report of the records with the data to reproduce their games, of no player."""
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


def _everybody(players: PairedPlayers, *, first: bool = False) -> list[Any]:
    """Return all players, that of --ckpt `first` or last."""
    player = [] if players.player is None else [players.player]
    return [*player, *players.opponents] if first else [*players.opponents, *player]


def _place(options: PairedEvaluationOptions, player: Any, kind: str) -> tuple[Path, str] | None:
    """Return --out, else the place next to the checkpoint; a bot's results are only printed."""
    beside = results_place(player.path, kind) if player and player.path else None
    return place_of(options.out, beside, kind)
