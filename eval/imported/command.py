"""Evaluate a policy in a game of PettingZoo or OpenSpiel: `python eval/run.py --ckpt RUN`, for a RUN trained in one.

Plays it from every seat against each opponent, which has all other seats, and prints wins, draws and losses with 95 %
intervals, and mean rewards; exploitability in games that can be traversed. Writes eval.json and eval.md next to the
checkpoint. Exit codes: 0 done, 2 bad input (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sparring.agents.opponents.players import display_path, find_checkpoint, results_place
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import said_if_long
from sparring.eval.command import Evaluation, RecordingOptions, evaluate_command, make_folders, use_machine
from sparring.eval.stats.parser import (
    CommonOptions,
    Parser,
    add_machine,
    add_results,
    check_machine,
    check_number,
    read_names,
)

if TYPE_CHECKING:
    from sparring.agents.opponents.seats import NetworkSeats
    from sparring.agents.play.seat_matches import SeatPlayer
    from sparring.eval.imported.policy import ImportedGame

SNAPSHOTS = "snapshots"
"""Name that stands for earlier policies of the same run."""
MOST_SNAPSHOTS = 3
GAMES = 400
ALLOWED_GAMES = "[1, 1000000]"
SUFFIXES = (".gif", ".txt")
TRAVERSING = "computing the exploitability from all positions of the game ..."

RECORDING = RecordingOptions(dict.fromkeys(SUFFIXES, "replay"), {"games": 0})

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt final.pt                                 against random play and the run's own past
  python eval/run.py --ckpt final.pt --opponents random --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents other-run,stochastic:third-run,my_package.bots:Mine
  python eval/run.py --ckpt final.pt --replay match.gif              one match against the first opponent, drawn
  python eval/run.py --ckpt final.pt --import my_package             a policy of a game of your own

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class ImportedOptions(CommonOptions):
    """Options of the command. The values have been validated; the players have not been located."""

    opponents: tuple[str, ...]
    stochastic: bool
    games: int | None
    """0 for a replay alone."""
    modules: tuple[str, ...]
    """Modules that the policy's file may import."""
    replay: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return evaluate_command(evaluate, arguments)


def read_options(arguments: Sequence[str]) -> ImportedOptions:
    """Parse the command line. Raises `InputError` with a one-line message; exits after --help."""
    values = _parser().read(arguments)
    if not values["ckpt"]:
        raise InputError("--ckpt is missing: give a path, a run's name, or final.pt for the newest run")
    if values["games"] is not None and not (values["games"] == 0 and values["replay"]):
        check_number("--games", values["games"], ALLOWED_GAMES)
    check_machine(values)
    replay = values["replay"]
    if replay is not None and replay.suffix.lower() not in SUFFIXES:
        raise InputError(f"--replay {str(replay)!r}: must end in {' or '.join(SUFFIXES)}")
    values |= {"opponents": read_names("--opponents", values["opponents"])}
    values["modules"] = tuple(values["modules"])
    return ImportedOptions(**values)


def evaluate(arguments: Sequence[str]) -> Evaluation:
    """Play the games that a command line says. Raises `InputError` for bad input."""
    options = read_options(arguments)
    path = find_checkpoint(options.ckpt)
    make_folders([options.out], files=[options.replay])
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    from sparring.eval.imported.policy import load_policy
    from sparring.eval.imported.results import record_of, repetition_notes, results_json, results_markdown

    player, game = load_policy(path, device, options.modules, deterministic=not options.stochastic)
    opponents, notes = find_opponents(options, player, device)
    seats = seats_of(game)
    outputs = _outputs(options, game, player, opponents[0], len(seats))
    if options.games == 0:
        return Evaluation("", "", outputs=outputs, quiet=options.quiet)
    games = number_of_games(options.games, len(seats))
    records = []
    with tqdm(total=games * len(opponents), unit="game", disable=options.quiet) as bar:
        for opponent in opponents:
            bar.set_description(opponent.name)
            results = play_games(game, (player, opponent), games, options.seed, bar.update)
            records.append(record_of(player.name, opponent.name, seats, results))
    notes = [*notes, *repetition_notes(records)]
    with said_if_long(TRAVERSING, shown=not options.quiet):
        head = _head(options, player, games, device) | exact_values(player, game)
    last = {"notes": notes, "training": player.training}
    place = results_place(path)
    place = (options.out, place[1] if place else "") if options.out else place
    return Evaluation(
        results_markdown(head, records, notes),
        results_json(head, records, last),
        place,
        outputs,
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


def play_games(
    game: ImportedGame,
    players: tuple[SeatPlayer, SeatPlayer],
    games: int,
    seed: int,
    on_game: Callable[[int], object] | None = None,
) -> Any:
    """Play `games` games in new matches; see `agents.play.seat_matches.play`."""
    from sparring.agents.play.seat_matches import play, usual_batch_size

    batch = game.batch(usual_batch_size(games), seed)
    try:
        return play(batch, players, games, seed, on_game=on_game)
    finally:
        batch.close()


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
    names = [opponent.name for opponent in opponents]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--opponents: {twice[0]} is named twice; leave one out")
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

    tree = game_tree(game.id, game.kwargs, game.observation)
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
    from sparring.eval.imported.replay import write_replay

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


def _parser() -> Parser:
    parser = Parser(
        "eval/run.py",
        "Play a policy of a game of PettingZoo or OpenSpiel from every seat against each opponent, and print wins, "
        "draws and losses with intervals, mean rewards, and exploitability where it can be computed. eval.json and "
        "eval.md are written beside final.pt.",
        _EXAMPLES,
        env="pettingzoo",
    )
    players = parser.add_argument_group("who plays")
    players.add_argument("--ckpt", default="", metavar="C", help="a path, a run's name, or final.pt (the newest run's)")
    players.add_argument(
        "--opponents",
        nargs="+",
        default=["random", SNAPSHOTS],
        metavar="O",
        help="random, checkpoints, stochastic:CHECKPOINT, module:Name of a Python object, and snapshots, "
        f"{MOST_SNAPSHOTS} earlier policies of the run (default: random snapshots)",
    )
    players.add_argument("--stochastic", action="store_true", help="let policies sample their actions")
    players.add_argument(
        "--import",
        dest="modules",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="import it to make the policy's game or to count its results",
    )
    group = parser.add_argument_group("under what conditions")
    group.add_argument(
        "--games",
        type=int,
        metavar="N",
        help=f"games per opponent, a multiple of the seats (default: about {GAMES}); 0 for a replay alone",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the matches (default: 0)")
    add_machine(group)
    results = add_results(parser, out="write the results there", metavar="DIR")
    results.add_argument(
        "--replay", type=Path, metavar="FILE", help="one match, .gif if the game draws itself, .txt if it is text"
    )
    return parser
