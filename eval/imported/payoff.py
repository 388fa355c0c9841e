"""Payoff matrix of a run in an imported game of two seats: its snapshots and random play against each other.

`python eval/payoff.py --ckpt RUN` of such a run, with its own options. Every pair plays the same number of games from
both seats. Ratings are those of `eval/stats/ratings.py`; the unit of their intervals is two games with swapped seats.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents.players import display_path, find_run
from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored
from sparring.eval.command import CommandReport, GamePayoff, kept_cells, make_folders, use_machine
from sparring.eval.imported.command import ALLOWED_GAMES, SeatPair, bar_of, number_of_games, pair_key, seats_of
from sparring.eval.imported.results import SeatRecord, repetition_notes
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    CommandText,
    PlayerOptions,
    TaskOptions,
    argument,
    check_suffix,
)
from sparring.eval.plots import check_matplotlib
from sparring.eval.stats.payoff import ELSEWHERE, MEANING, NO_OPPONENTS, SNAPSHOTS, PayoffMatrix
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import notes_markdown

if TYPE_CHECKING:
    from tqdm import tqdm

    from sparring.agents.play.seat_matches import SeatPlayer, SeatResults

_EXAMPLES = """\
examples:
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and random play
  python eval/payoff.py --ckpt RUN --snapshots 20 --games 400 --stochastic
  python eval/payoff.py --ckpt RUN --opponents none            the snapshots among themselves

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class SeatPayoffOptions(TaskOptions, PlayerOptions):
    """Options of the command; the run has not been located."""

    TEXT = CommandText(
        "eval/payoff.py",
        "Play the snapshots of a run in a game of PettingZoo or OpenSpiel and random play against each other and draw "
        "the payoff matrix. payoff.png, payoff.md and payoff.json are written into the run's folder.",
        _EXAMPLES,
    )
    ckpt: str = argument("", metavar="RUN", group=WHO)
    """A run's name, its folder, or final.pt (the newest's)."""
    opponents: tuple[str, ...] = argument(("random",), metavar="O", group=WHO, split=True)
    """Random, checkpoints and module:Name besides the snapshots (default: random), or none."""
    snapshots: int = argument(10, SNAPSHOTS, metavar="N", group=WHO)
    """At most so many, evenly."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    modules: tuple[str, ...] = argument((), metavar="MODULE", group=WHO, flags=["--import"])
    """Modules of the run's game."""
    games: int = argument(100, ALLOWED_GAMES, metavar="N", group=CONDITIONS)
    """Games per pair, even."""
    out: Path | None = argument(None, metavar="PNG", group=RESULTS)
    """The picture; .json and .md are written beside it."""

    def implied(self) -> dict[str, Any]:
        """Return no opponents for `NO_OPPONENTS`."""
        return {"opponents": () if self.opponents == (NO_OPPONENTS,) else self.opponents}

    def check(self) -> None:
        """Raise `InputError` for an odd number of games, or a picture of another form."""
        number_of_games(self.games, 2)
        check_suffix("--out", self.out, ".png", more=ELSEWHERE)


@dataclass(frozen=True)
class SeatPayoff(Scored):
    """Games of two players, from the side of `player`; a `PayoffCell`."""

    record: SeatRecord
    pairs: tuple[int, int, int, int, int]
    """Pairs of games with swapped seats by the player's points in them: 0, 1/2, 1, 3/2, 2."""

    @property
    def player(self) -> str:
        """Name of the player on this side."""
        return self.record.player

    @property
    def opponent(self) -> str:
        """Name of the player on the other side."""
        return self.record.opponent

    @property
    def counts(self) -> Result:
        """Wins, draws and losses."""
        return self.record.counts

    @property
    def units(self) -> tuple[int, int, int, int, int]:
        """Pairs of games by the player's points in them."""
        return self.pairs


def payoff(options: SeatPayoffOptions, *, keep: bool = True) -> CommandReport:
    """Play a round robin. Without `keep`, there are no files unless --out names the picture.

    Raises `InputError` for bad input.
    """
    folder = find_run(options.ckpt)
    picture = options.out or (folder / "payoff.png" if keep else None)
    make_folders([], files=[picture])
    if picture:
        check_matplotlib()
    device, _ = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    kept = kept_cells((picture.parent, picture.stem)) if picture else None
    ages, names, cells = _play(options, folder, device, kept)
    matrix = PayoffMatrix(names, len(ages), cells, Anchor("random" if "random" in names else names[0]))
    notes = repetition_notes([cell.record for cell in cells if cell.record.repeats][:1])
    data = _json(options, folder, ages, cells, matrix, notes)
    text = _markdown(options, folder, matrix, notes, picture.name if picture else "")
    if picture is None:
        return CommandReport(text, data, quiet=options.quiet)
    subtitle = f"{options.games} games a cell; policies by env steps"
    files: dict[Path, str | bytes] = {
        picture: matrix.picture(f"Payoff matrix of {folder.name}", subtitle),
        picture.with_suffix(".json"): data,
        picture.with_suffix(".md"): text,
    }
    return CommandReport(text, data, files, options.quiet)


def _play(
    options: SeatPayoffOptions, folder: Path, device: str, kept: Path | None
) -> tuple[dict[str, int], list[str], list[SeatPayoff]]:
    """Play a round robin; return the ages of the run's policies by name, all names, and the results of every pair."""
    from sparring.agents.opponents.seats import frozen_seats, open_seat_player
    from sparring.agents.opponents.snapshots import names_by_age, thin
    from sparring.eval.imported.policy import check_modules, game_of_policy

    sure = not options.stochastic
    frozen = thin(frozen_seats(folder, device, deterministic=sure), options.snapshots)
    ages = [one.env_steps for one in frozen]
    policies = [one.player for one in frozen]
    for policy, name in zip(policies, names_by_age(ages), strict=True):
        policy.name = name
    first = policies[0]
    game = game_of_policy(first)
    check_modules(folder / FINAL, game, options.modules)
    seats = seats_of(game)
    if len(seats) != 2:
        raise InputError(
            f"--ckpt {options.ckpt}: {game.name} has {len(seats)} seats, and a payoff matrix is of two; play the run's "
            "past with eval/run.py --opponents snapshots"
        )
    others = [open_seat_player(text, first.contract, device, deterministic=sure) for text in options.opponents]
    players: list[SeatPlayer] = [*policies, *others]
    names = [player.name for player in players]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--opponents: {twice[0]} plays already, as a snapshot or as another opponent; leave it out")
    if len(players) < 2:
        raise InputError(f"--opponents: {names[0]} would be alone; name at least one opponent")
    pairs = [SeatPair(game, seats, pair, options.games, options.seed) for pair in combinations(players, 2)]
    cells = finish_tasks(
        _play_cell,
        pairs,
        options.runner,
        kept=KeptResults(kept, SeatPayoff) if kept else None,
        keys=[pair_key(pair) for pair in pairs] if kept else (),
        **bar_of(pairs, quiet=options.quiet),
    )
    return dict(zip(names, ages, strict=False)), names, cells


def _play_cell(pair: SeatPair, bar: tqdm[NoReturn]) -> SeatPayoff:
    record, results = pair.play(bar)
    return SeatPayoff(record, pairs_of(results))


def pairs_of(results: SeatResults) -> tuple[int, int, int, int, int]:
    """Return the number of pairs of consecutive games, from both seats, by the player's points in them."""
    points = results.outcome.reshape(-1, 2).sum(1) + 2
    none, half, one, more, both = np.bincount(points, minlength=5).tolist()
    return none, half, one, more, both


def _json(
    options: SeatPayoffOptions,
    folder: Path,
    ages: dict[str, int],
    cells: Sequence[SeatPayoff],
    matrix: PayoffMatrix,
    notes: Sequence[str],
) -> str:
    content: dict[str, Any] = {"kind": "imported_payoff", "run": folder.name, "folder": display_path(folder)}
    content |= {name: getattr(options, name) for name in ("games", "seed", "command")}
    content["deterministic"] = not options.stochastic
    content["players"] = [{"name": name, "env_steps": ages.get(name)} for name in matrix.names]
    content["payoff"] = matrix.plain()
    content["anchor"], content["ratings"] = asdict(matrix.anchor), [asdict(rating) for rating in matrix.ratings]
    content |= {"records": [cell.record.plain() for cell in cells], "notes": notes}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _markdown(
    options: SeatPayoffOptions, folder: Path, matrix: PayoffMatrix, notes: Sequence[str], picture: str
) -> str:
    policy = "sampled actions" if options.stochastic else "deterministic"
    parts = [
        f"# Payoff matrix of {folder.name}",
        f"{options.games} games a pair, half from each seat, seed {options.seed}; {policy}{notes_markdown(notes)}",
        *([f"![Payoff matrix]({picture})"] if picture else []),
        f"{MEANING}; policies by env steps.",
        matrix.markdown(),
        matrix.ratings_markdown(),
        f"Command: `{options.command}`",
    ]
    return "\n\n".join(parts) + "\n"


PAYOFF = GamePayoff(SeatPayoffOptions, payoff)
