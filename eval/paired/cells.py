"""Games between pairs of players, as tasks of an executor: a player against opponents, a round robin, a test.

A cell is a pair under one regime: a batch of games, half from each seat, from the plan's seed. All opponents face the
player from the same starting states, and the same call gives the same records, from any number of processes. A cell
that cannot be played correctly raises an error; it never becomes a row of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from types import GenericAlias
from typing import Any, NoReturn, Protocol

import numpy as np
from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.configs.core.device import HERE, Executor
from sparring.curriculum.score import SCORES, GameCounts
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict, judge
from sparring.eval.command import cell_key

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
    kept: Path | None = None
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
            kept=self.store(),
            keys=["" if cell.filmed or not self.kept else cell.key for cell in cells],
            discard=discard,
            label=str,
            unit="game",
            quiet=self.quiet,
        )

    def store(self) -> KeptResults[Any] | None:
        """Return the results in the file of kept cells, None without one."""
        if self.kept is None:
            return None
        return KeptResults(self.kept, GenericAlias(tuple, (self.matches.record, list[Any])))


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
    kept = plan.store()
    stored = kept.read() if kept else {}
    with tqdm(total=max_games, unit=" games", bar_format=OPEN_END, disable=plan.quiet) as bar:
        for batch in range(max(max_games // plan.games, 1)):
            cell = Cell(pair, plan.regimes[0], replace(plan, seed=(plan.seed + batch) % 2**31))
            key = cell.key if kept else ""
            if key not in stored:
                stored[key] = play_cell(cell, tqdm(disable=True))
                if kept and key:
                    kept.add(key, stored[key])
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
    if kept:
        kept.discard()
    wins, draws, losses = counts.tolist()
    return verdict, GameCounts((wins, draws, losses))
