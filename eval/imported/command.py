"""Evaluate a policy in a game of PettingZoo or OpenSpiel: `python eval/run.py --ckpt RUN`, for a RUN trained in one.

Plays it from every seat against each opponent, which has all other seats, and prints wins, draws and losses with 95 %
intervals, and mean rewards; exploitability in games that can be traversed; the policy in all seats, where seats may
gain together. Writes eval.json and eval.md next to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents.players import display_path, find_checkpoint, results_place
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import said_if_long
from sparring.eval.command import Evaluation, GameEvaluation, cell_key, kept_cells, make_folders, place_of, use_machine
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    CommandText,
    RequireOptions,
    TaskOptions,
    argument,
    check_number,
    check_suffix,
)

if TYPE_CHECKING:
    from tqdm import tqdm

    from sparring.agents.opponents.seats import NetworkSeats
    from sparring.agents.play.seat_matches import SeatPlayer, SeatResults
    from sparring.eval.imported.policy import ImportedGame
    from sparring.eval.imported.results import SeatRecord, TeamRecord

SNAPSHOTS = "snapshots"
"""Name that stands for earlier policies of the same run."""
MOST_SNAPSHOTS = 3
GAMES = 400
ALLOWED_GAMES = "[1, 1000000]"
SUFFIXES = (".gif", ".txt")
TRAVERSING = "computing the exploitability from all positions of the game ..."

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt final.pt                                 against random play and the run's own past
  python eval/run.py --ckpt final.pt --opponents random --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents other-run,stochastic:third-run,my_package.bots:Mine
  python eval/run.py --ckpt final.pt --require "score:random>=0.9"   exit code 1 below it
  python eval/run.py --ckpt final.pt --replay match.gif              one match against the first opponent, drawn
  python eval/run.py --ckpt final.pt --import my_package             a policy of a game of your own

exit codes: 0 done, 1 a --require failed, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class ImportedOptions(TaskOptions, RequireOptions):
    """Options of the command; the players have not been located."""

    TEXT = CommandText(
        "eval/run.py",
        "Play a policy of a game of PettingZoo or OpenSpiel from every seat against each opponent, and print wins, "
        "draws and losses with intervals, mean rewards, and exploitability where it can be computed. eval.json and "
        "eval.md are written beside final.pt.",
        _EXAMPLES,
        env="pettingzoo",
    )
    opponents: tuple[str, ...] = argument(
        ("random", SNAPSHOTS),
        metavar="O",
        group=WHO,
        split=True,
        text="random, checkpoints, stochastic:CHECKPOINT, module:Name of a Python object, and snapshots, "
        f"{MOST_SNAPSHOTS} earlier policies of the run",
    )
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    modules: tuple[str, ...] = argument((), metavar="MODULE", group=WHO, flags=["--import"])
    """Import it to make the policy's game or to count its results."""
    games: int | None = argument(None, metavar="N", group=CONDITIONS)
    """Games per opponent, a multiple of the seats (default: about 400); 0 for a replay alone."""
    replay: Path | None = argument(None, metavar="FILE", group=RESULTS)
    """One match, .gif if the game draws itself, .txt if it is text."""

    def check(self) -> None:
        """Raise `InputError` for a missing policy, a number of games, and a replay of no known form."""
        self.require_given("ckpt", "give a path, a run's name, or final.pt for the newest run")
        if self.games is not None and not (self.games == 0 and self.replay):
            check_number("--games", self.games, ALLOWED_GAMES)
        check_suffix("--replay", self.replay, *SUFFIXES)


def evaluate(options: ImportedOptions) -> Evaluation:
    """Play the games of `options`. Raises `InputError` for bad input."""
    path = find_checkpoint(options.ckpt)
    make_folders([options.out], files=[options.replay])
    device, _ = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    from sparring.eval.imported.policy import load_policy
    from sparring.eval.imported.results import (
        SeatRecord,
        TeamRecord,
        repetition_notes,
        results_json,
        results_markdown,
        sum_notes,
    )

    player, game = load_policy(path, device, options.modules, deterministic=not options.stochastic)
    opponents, notes = find_opponents(options, player, device)
    seats = seats_of(game)
    outputs = _outputs(options, game, player, opponents[0], len(seats))
    if options.games == 0:
        return Evaluation("", "", outputs=outputs, quiet=options.quiet)
    games = number_of_games(options.games, len(seats))
    pairs = [SeatPair(game, seats, (player, opponent), games, options.seed) for opponent in opponents]
    place = place_of(options.out, results_place(path), "")
    file = kept_cells(place)
    kept = KeptResults[Any](file, SeatRecord | TeamRecord) if file else None
    keys = [pair_key(pair) for pair in pairs]
    shown = bar_of(pairs, quiet=options.quiet)
    records = finish_tasks(play_record, pairs, options.runner, kept=kept, keys=keys, discard=False, **shown)
    about = sum_notes(records)
    notes = [*notes, *repetition_notes(records), *about]
    teams = _teams(options, player, pairs[0], kept) if about else []
    with said_if_long(TRAVERSING, shown=not options.quiet):
        head = _head(options, player, games, device) | exact_values(player, game)
    last: dict[str, Any] = {"notes": notes, "training": player.training}
    last |= {"in_all_seats": [team.plain() for team in teams]} if teams else {}
    if kept:
        kept.discard()
    return Evaluation(
        results_markdown(head, records, notes, teams),
        results_json(head, records, last),
        place,
        outputs,
        options.failures(records),
        quiet=options.quiet,
    )


def seats_of(game: ImportedGame) -> tuple[str, ...]:
    """Return the names of a game's players."""
    match = game.match()
    seats = tuple(match.seats)
    match.close()
    return seats


def number_of_games(given: int | None, seats: int) -> int:
    """Return the number of games, by default `GAMES` or a little more. Raises `InputError` unless seats take turns."""
    up = -(-(given or GAMES) // seats) * seats
    if given and given != up:
        raise InputError(f"--games {given}: must be a multiple of {seats}, the seats of a match; give {up}")
    return up


@dataclass(frozen=True)
class SeatPair:
    """Games of two players in new matches, a task of an executor."""

    game: ImportedGame
    seats: tuple[str, ...]
    players: tuple[SeatPlayer, SeatPlayer]
    games: int
    seed: int

    def play(self, bar: tqdm[NoReturn]) -> tuple[SeatRecord, SeatResults]:
        """Play the games; see `agents.play.seat_matches.play`."""
        from sparring.agents.play.seat_matches import play, usual_batch_size
        from sparring.eval.imported.results import record_of

        batch = self.game.batch(usual_batch_size(self.games), self.seed)
        try:
            results = play(batch, self.players, self.games, self.seed, on_game=bar.update)
        finally:
            batch.close()
        one, other = self.players
        return record_of(one.name, other.name, self.seats, results), results


def play_record(pair: SeatPair, bar: tqdm[NoReturn]) -> SeatRecord:
    """Play the games of a pair and return their record."""
    return pair.play(bar)[0]


def pair_key(pair: SeatPair) -> str:
    """Return the name under which a pair is kept; empty if a player or the game is code that may have changed."""
    from sparring.agents.opponents.seats import NetworkSeats, RandomSeats

    files = [player.path for player in pair.players if isinstance(player, NetworkSeats) and player.path]
    if len(files) + sum(isinstance(player, RandomSeats) for player in pair.players) < 2 or pair.game.modules:
        return ""
    conditions: dict[str, Any] = {"game": asdict(pair.game), "games": pair.games, "seed": pair.seed}
    conditions["players"] = [(player.name, getattr(player, "deterministic", None)) for player in pair.players]
    return cell_key(conditions, files)


def _teams(
    options: ImportedOptions, policy: NetworkSeats, pair: SeatPair, kept: KeptResults[Any] | None
) -> list[TeamRecord]:
    """Play the policy in all seats, and random play in all seats."""
    from sparring.agents.opponents.seats import RandomSeats

    teams: tuple[SeatPlayer, ...] = (policy, RandomSeats(policy.contract))
    pairs = [replace(pair, players=(player, player)) for player in teams]
    bar = bar_of(pairs, quiet=options.quiet) | {"label": lambda pair: f"{pair.players[0].name} in all seats"}
    keys = [key and f"team {key}" for key in map(pair_key, pairs)]
    return finish_tasks(_play_team, pairs, options.runner, kept=kept, keys=keys, discard=False, **bar)


def _play_team(pair: SeatPair, bar: tqdm[NoReturn]) -> TeamRecord:
    from sparring.eval.imported.results import team_record

    return team_record(pair.players[0].name, pair.seats, pair.play(bar)[1])


def bar_of(pairs: Sequence[SeatPair], *, quiet: bool) -> dict[str, Any]:
    """Return the options of a bar over the games of all pairs."""
    sizes = [pair.games for pair in pairs]
    return {"sizes": sizes, "label": lambda pair: pair.players[1].name, "unit": "game", "quiet": quiet}


def find_opponents(options: ImportedOptions, player: NetworkSeats, device: str) -> tuple[list[SeatPlayer], list[str]]:
    """Return the opponents, earlier policies of the run for `snapshots`, and notes on what there is none of."""
    from sparring.agents.opponents.seats import open_seat_player

    opponents: list[SeatPlayer] = []
    notes = []
    for text in options.opponents:
        if text != SNAPSHOTS:
            opponents.append(open_seat_player(text, player.contract, device, deterministic=not options.stochastic))
        elif earlier := _earlier(player, device, deterministic=not options.stochastic):
            opponents += earlier
        elif len(options.opponents) == 1:
            raise InputError(
                f"--opponents {SNAPSHOTS}: the run of {player.name} has saved no earlier policy; name others"
            )
        else:
            notes.append("the run has saved no earlier policy to play against")
    options.check_opponents([opponent.name for opponent in opponents])
    return opponents, notes


def _earlier(player: NetworkSeats, device: str, *, deterministic: bool) -> list[SeatPlayer]:
    from sparring.agents.opponents.seats import frozen_seats
    from sparring.agents.opponents.snapshots import thin

    assert player.path is not None
    if "env_steps" not in player.training:
        return []
    policies = frozen_seats(player.path.parent, device, deterministic=deterministic)
    earlier = [frozen for frozen in policies if frozen.env_steps < player.training["env_steps"]]
    return [frozen.player for frozen in thin(earlier, MOST_SNAPSHOTS)] if earlier else []


def exact_values(player: NetworkSeats, game: ImportedGame) -> dict[str, Any]:
    """Return the exploitability of the policy and of uniform play in a game that can be traversed, else nothing."""
    if game.package != "openspiel":
        return {}
    from sparring.agents.play.exploitability import policy_table
    from sparring.envs.imported.tree import game_tree

    tree = game_tree(game.id, game.kwargs, game.observation, game.roles)
    if tree is None:
        return {}
    kinds = {"sampled": False, "deterministic": True}
    values = {kind: tree.exploitability(policy_table(player, tree, deterministic=sure)) for kind, sure in kinds.items()}
    return {"exploitability": values | {"uniform": tree.exploitability(tree.uniform())}}


def _outputs(
    options: ImportedOptions, game: ImportedGame, player: NetworkSeats, opponent: SeatPlayer, seats: int
) -> dict[Path, Callable[[Path], None]]:
    """Return the writer of --replay: a match with the player in the first seat."""
    if options.replay is None:
        return {}
    from sparring.eval.imported.policy import write_replay

    players = [player, *[opponent] * (seats - 1)]
    return {options.replay: partial(write_replay, game=game, players=players, seed=options.seed)}


def _head(options: ImportedOptions, player: NetworkSeats, games: int, device: str) -> dict[str, Any]:
    """Return what eval.json begins with; deterministic in the arguments."""
    assert player.path is not None
    return {
        "player": player.name,
        "checkpoint": display_path(player.path),
        "run": player.training.get("run"),
        "env": player.contract["id"],
        "kwargs": player.contract["kwargs"],
        "deterministic": not options.stochastic,
        "device": device,
        "games": games,
        "seed": options.seed,
        "command": options.command,
    }


EVALUATION = GameEvaluation(
    ImportedOptions,
    evaluate,
    dict.fromkeys(SUFFIXES, "replay"),
    {"games": 0},
    "sparring.eval.imported.policy:load_imported_policy",
)
