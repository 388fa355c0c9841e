"""Evaluate a policy in a PettingZoo or OpenSpiel game: `python eval/run.py --ckpt RUN`.

The policy plays every seat against each opponent in all other seats. The command prints wins, draws and losses with 95
% intervals, and mean rewards. It adds exploitability in games small enough to traverse, and the policy in all seats in
games that are not constant-sum. It writes eval.json and eval.md next to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sparring.agents.opponents.players import SAMPLED_PREFIX, find_checkpoint
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import said_if_long
from sparring.configs.opponents import is_code
from sparring.eval.command import GameEvaluation, GamePayoff
from sparring.eval.options import CONDITIONS, RESULTS, WHO, CommandText, argument, check_number, check_suffix
from sparring.eval.paired.evaluation import (
    Cell,
    PairedGame,
    PairedPlayers,
    Plan,
    Played,
    evaluate,
    saved,
)
from sparring.eval.paired.options import PairedEvaluationOptions, PairedOptions
from sparring.eval.payoff import PayoffOptions, payoff, payoff_text
from sparring.eval.stats.tables import PAIRED, PairConditions

if TYPE_CHECKING:
    from sparring.agents.play.seat_matches import SeatPlayer
    from sparring.envs.imported.evaluation.matches import SeatMatches
    from sparring.envs.imported.evaluation.policy import ImportedGame
    from sparring.envs.imported.evaluation.results import SeatRecord
    from sparring.envs.imported.training.opponents import NetworkSeats

SNAPSHOTS = "snapshots"
"""Name for earlier policies of the same run."""
MOST_SNAPSHOTS = 3
GAMES = 400
ALLOWED_GAMES = "[1, 1000000]"
SUFFIXES = (".gif", ".txt")
TRAVERSING = "computing the exploitability from all positions of the game ..."

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt final.pt                                 against random play and earlier snapshots
  python eval/run.py --ckpt final.pt --opponents random --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents other-run,stochastic:third-run,my_package.bots:Mine
  python eval/run.py --ckpt final.pt --require "score:random>=0.9"   exit code 1 below it
  python eval/run.py --ckpt final.pt --replay match.gif              one match against the first opponent, drawn
  python eval/run.py --ckpt final.pt --import my_package             a policy of a game of your own
  python eval/run.py --ckpt final.pt --ladder                        all against each other, in a two-player game
  python eval/run.py --ckpt final.pt --opponents other-run --sprt elo0=0 elo1=20

exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input, 130 stopped with Ctrl-C"""


_PAYOFF_EXAMPLES = """\
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and random play
  python eval/payoff.py --ckpt RUN --snapshots 20 --games 400 --stochastic
  python eval/payoff.py --ckpt RUN --opponents none            the snapshots among themselves
  python eval/payoff.py --opponents random,one-run,other-run   players without a run"""


@dataclass(frozen=True, kw_only=True)
class SeatOptions(PairedOptions):
    """Options of every command that plays an imported game."""

    ABSENT: ClassVar[Mapping[str, str]] = {
        "--regimes": "a policy plays the game with the options it was trained with; evaluate one run for each"
    }
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in random or random=1000 (default: random, or the first player, at 0)."""
    modules: tuple[str, ...] = argument((), metavar="MODULE", group=WHO, flags=["--import"])
    """Module to import for the policy's game or its outcome function."""

    def check_games(self) -> None:
        """Check nothing: the number of seats is not known yet."""


@dataclass(frozen=True, kw_only=True)
class ImportedOptions(SeatOptions, PairedEvaluationOptions):
    """Options of the command; the players are not located yet."""

    TEXT = CommandText(
        "eval/run.py",
        "Play a policy in a PettingZoo or OpenSpiel game from every seat against each opponent, and print wins, "
        "draws and losses with intervals, mean rewards, and exploitability if it can be computed. Write eval.json and "
        "eval.md next to final.pt.",
        _EXAMPLES,
        env="pettingzoo",
    )
    opponents: tuple[str, ...] = argument(
        ("random", SNAPSHOTS),
        metavar="O",
        group=WHO,
        split=True,
        text="random, checkpoints, stochastic:CHECKPOINT, module:Name of a Python object, openspiel:cfr:10 and other "
        "players of OpenSpiel, response.json that sparring exploit saved, and snapshots, "
        f"{MOST_SNAPSHOTS} earlier policies of the run",
    )
    games: int | None = argument(None, metavar="N", group=CONDITIONS)  # type: ignore[assignment]
    """Games per opponent, a multiple of the seats (default: about 400); 0 for only a replay."""
    replay: Path | None = argument(None, metavar="FILE", group=RESULTS)
    """Write one match: .gif if the game renders images, .txt if it renders text."""

    def check(self) -> None:
        """Raise `InputError` for a missing policy, a wrong number of games, or an unknown replay format."""
        super().check()
        if self.games is not None and not (self.games == 0 and self.replay):
            check_number("--games", self.games, ALLOWED_GAMES)
        check_suffix("--replay", self.replay, *SUFFIXES)


@dataclass(frozen=True, kw_only=True)
class SeatPayoffOptions(PayoffOptions, SeatOptions):
    """Options of a payoff matrix."""

    TEXT = payoff_text(_PAYOFF_EXAMPLES)
    opponents: tuple[str, ...] = argument(("random",), metavar="O", group=WHO, split=True)
    """Opponents besides the snapshots: random, checkpoints, module:Name (default: random), or none."""

    def check_games(self) -> None:
        """Raise `InputError` for an odd number of games: a payoff matrix has two seats."""
        number_of_games(self.games, 2)


def find(name: str, opponent: bool) -> str | Path:
    """Locate the policy of --ckpt; opponents are located once the game is known."""
    return name if opponent else find_checkpoint(name)


def open_players(
    options: SeatOptions,
    located: Path | None,
    opponents: Sequence[str],
    device: str,
    like: NetworkSeats | None = None,
) -> PairedPlayers:
    """Load the policy and its opponents; a note says if the run has no earlier policy.

    The game comes from the policy, from `like`, or from the first policy among the opponents.
    """
    from sparring.envs.imported.training.opponents import load_seat_policy, open_seat_player

    sure = not options.stochastic
    player = load_seat_policy(located, None, device, deterministic=sure) if located else None
    first = player or like or _first_policy(opponents, device)
    _game(options, [first])
    rivals: list[SeatPlayer] = []
    notes = []
    for text in opponents:
        if text != SNAPSHOTS or player is None:
            rivals.append(open_seat_player(text, first.contract, device, deterministic=sure))
        elif earlier := _earlier(player, device, deterministic=sure):
            rivals += earlier
        elif len(opponents) == 1:
            raise InputError(
                f"--opponents {SNAPSHOTS}: the run of {player.name} has saved no earlier policy; name others"
            )
        else:
            notes.append("the run has saved no earlier policy to play against")
    return PairedPlayers(player, rivals, tuple(notes))


def _first_policy(opponents: Sequence[str], device: str) -> NetworkSeats:
    """Return the first opponent that is a policy file. Raises `InputError` if there is none."""
    from sparring.envs.imported.training.opponents import is_state_player, load_seat_policy

    for text in opponents:
        if text not in ("random", SNAPSHOTS) and not is_code(text) and not is_state_player(text):
            return load_seat_policy(find_checkpoint(text.removeprefix(SAMPLED_PREFIX)), None, device)
    named = ", ".join(opponents) or "none"
    raise InputError(f"--opponents: {named}: name a run, or at least two players including a policy that sets the game")


def _earlier(player: NetworkSeats, device: str, *, deterministic: bool) -> list[SeatPlayer]:
    from sparring.agents.opponents.snapshots import thin
    from sparring.envs.imported.training.opponents import frozen_seats

    assert player.path is not None
    if "env_steps" not in player.training:
        return []
    policies = frozen_seats(player.path.parent, device, deterministic=deterministic)
    earlier = [policy for policy in policies if policy.env_steps < player.training["env_steps"]]
    return [policy.player for policy in thin(earlier, MOST_SNAPSHOTS)] if earlier else []


def _game(options: SeatOptions, players: Sequence[SeatPlayer]) -> ImportedGame:
    """Return the game of the first policy that names it. Raises `InputError` for a module not given with --import."""
    from sparring.envs.imported.evaluation.policy import check_modules, game_of_policy
    from sparring.envs.imported.training.opponents import NetworkSeats

    policies = [player for player in players if isinstance(player, NetworkSeats)]
    policy = next((each for each in policies if each.training), policies[0])
    game = game_of_policy(policy)
    check_modules(policy.path or policy.name, game, options.modules)
    return game


def matches(options: SeatOptions, players: Sequence[SeatPlayer], device: str, threads: int) -> SeatMatches:
    """Return matches of the players' game. Raises `InputError` for more than two seats if pairs are compared."""
    return seat_matches(options, _game(options, players), device)


def seat_matches(options: PairedOptions, game: ImportedGame, device: str) -> SeatMatches:
    """Return matches of a game. Raises `InputError` for more than two seats if pairs are compared."""
    from sparring.envs.imported.evaluation.matches import SeatMatches, seats_of

    seats = seats_of(game)
    if len(seats) == 2:
        return SeatMatches(game, seats, device)
    instead = "play earlier policies with eval/run.py --opponents snapshots"
    if isinstance(options, SeatPayoffOptions):
        raise InputError(
            f"--ckpt {options.ckpt}: {game.name} has {len(seats)} seats, but a payoff matrix needs two; {instead}"
        )
    if isinstance(options, PairedEvaluationOptions) and (options.ladder or options.hypotheses):
        name, of_two = ("ladder", "a ladder") if options.ladder else ("sprt", "the test")
        raise InputError(f"--{name}: {game.name} has {len(seats)} seats, but {of_two} needs two; {instead}")
    return SeatMatches(game, seats, device)


def number_of_games(requested: int | None, seats: int) -> int:
    """Return the number of games, `GAMES` by default. Raises `InputError` unless it is a multiple of the seats."""
    up = -(-(requested or GAMES) // seats) * seats
    if requested and requested != up:
        raise InputError(f"--games {requested}: must be a multiple of {seats}, the number of seats; try {up}")
    return up


def games_of(options: SeatOptions, played: SeatMatches) -> int:
    """Return the number of games per cell; 0 for only a replay."""
    return 0 if options.games == 0 else number_of_games(options.games, len(played.seats))


def conditions(options: SeatOptions, played: SeatMatches) -> PairConditions:
    """Return the game with its options, and the number of games per seat."""
    from sparring.envs.imported.evaluation.results import COLUMNS, options_text, reward_and_moves

    game, seats = played.game, len(played.seats)
    by_games = isinstance(options, ImportedOptions) and not options.ladder
    each = f"games each, {number_of_games(options.games, seats) // seats} from every seat" if by_games else PAIRED
    words, fields = f"{game.name}{options_text(game.kwargs)}", {"kwargs": dict(game.kwargs)}
    return PairConditions(
        "imported", "imported_payoff", game.name, words, fields, COLUMNS, reward_and_moves, counted=each
    )


def extras(options: ImportedOptions, opened: PairedPlayers, plan: Plan, played: Played) -> None:
    """Add the results by seat, for whole teams in games that are not constant-sum, and the exploitability."""
    from sparring.envs.imported.evaluation.matches import SeatMatches
    from sparring.envs.imported.evaluation.results import exact_line, more_tables, sum_notes
    from sparring.envs.imported.training.opponents import RandomSeats

    player, matches, records = opened.player, plan.matches, played.records
    assert isinstance(matches, SeatMatches)
    notes = sum_notes(records)
    teams = []
    if notes:
        team = replace(plan, matches=replace(matches, team=True))
        cells = [Cell((member, member), "", team) for member in (player, RandomSeats(player.contract))]
        teams = [record for record, _ in team.play(cells, discard=False)]
    with said_if_long(TRAVERSING, enabled=not options.quiet):
        fields = exact_values(player, matches.game)
    fields |= {"in_all_seats": [team.plain() for team in teams]} if teams else {}
    tables = more_tables(matches.seats, records, teams)
    tables += [exact_line(fields["exploitability"])] if "exploitability" in fields else []
    played.notes, played.tables, played.about = notes, tables, fields


def exact_values(player: NetworkSeats, game: ImportedGame, seat: int | None = None) -> dict[str, Any]:
    """Return the exploitability of the policy and of uniform play, or of one seat; {} if it cannot be computed."""
    if game.package != "openspiel":
        return {}
    from sparring.agents.play.exploitability import policy_table
    from sparring.envs.imported.tree import game_tree

    tree = game_tree(game.id, game.kwargs, game.observation, game.roles)
    if tree is None:
        return {}
    kinds = {"deterministic": True} | ({"sampled": False} if player.network.samples else {})
    tables = {kind: policy_table(player, tree, deterministic=sure) for kind, sure in kinds.items()}
    tables["uniform"] = tree.uniform()
    return {"exploitability": {kind: tree.exploitability(each, seat) for kind, each in tables.items()}}


def repeated(records: Sequence[SeatRecord]) -> list[str]:
    """Return a note on opponents whose games were all identical."""
    from sparring.envs.imported.evaluation.results import repetition_notes

    return repetition_notes(records)


def replays(
    options: ImportedOptions, opened: PairedPlayers, plan: Plan, played: Played
) -> dict[Path, Callable[[Path], None]]:
    """Return the --replay writer for a match with the player in the first seat."""
    if options.replay is None:
        return {}
    from sparring.envs.imported.evaluation.matches import SeatMatches
    from sparring.envs.imported.evaluation.policy import write_replay

    assert isinstance(plan.matches, SeatMatches)
    seated = [opened.player, *[opened.opponents[0]] * (len(plan.matches.seats) - 1)]
    return {options.replay: partial(write_replay, game=plan.matches.game, players=seated, seed=options.seed)}


IMPORTED = PairedGame(
    None,
    find,
    open_players,
    matches,
    partial(saved, "sparring.envs.imported.training.opponents:frozen_seats"),
    conditions,
    anchors=("random",),
    games=games_of,
    notes=repeated,
    outputs=replays,
    extras=extras,
)
EVALUATION = GameEvaluation(
    ImportedOptions,
    partial(evaluate, IMPORTED),
    dict.fromkeys(SUFFIXES, "replay"),
    {"games": 0},
    "sparring.envs.imported.evaluation.policy:load_imported_policy",
)
PAYOFF = GamePayoff(SeatPayoffOptions, partial(payoff, IMPORTED))
