"""Players of Diplomacy by name, and matches in which one player has one power and another the other six."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from torch import Tensor
from tqdm import tqdm

from sparring.agents.opponents.players import SAMPLED_PREFIX, Player, find_checkpoint
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.opponents import is_code
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.evaluation.results import PowerRecord, lone_shares, owners_of, record
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end, reseed
from sparring.envs.diplomacy.search.player import expected
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player
from sparring.envs.diplomacy.training.task import play_against
from sparring.eval.paired.evaluation import Cell, Matches
from sparring.eval.stats.tables import Pairs


@dataclass(frozen=True)
class DiplomacyEntrant:
    """A player by its name in the options."""

    name: str
    plays: Any
    """A `DiplomacyPlayer`; None for an opponent that a language model plays or holds in memory."""
    located: Player
    training: Mapping[str, Any] = field(default_factory=dict)
    contestant: Any = None
    """The checkpoint of a run's policy, under whose contract its snapshots play."""

    @property
    def path(self) -> Path | None:
        """File or folder; None for a bot, a search, a server and code."""
        return self.located if isinstance(self.located, Path) else None

    @property
    def deterministic(self) -> bool:
        """False for a policy that samples its orders."""
        return getattr(self.plays, "generator", None) is None


def open_entrant(name: str, located: Player, device: str, *, deterministic: bool = True) -> DiplomacyEntrant:
    """Open a located player. A policy named with `stochastic:` samples its orders."""
    if sampled := name.startswith(SAMPLED_PREFIX):
        located = find_checkpoint(str(located).removeprefix(SAMPLED_PREFIX))
    player = open_player(located, device, deterministic=deterministic and not sampled)
    return DiplomacyEntrant(name, player, located)


@dataclass(frozen=True)
class DiplomacyMatches(Matches):
    """Games to the last year of `options`, each power played equally often."""

    unit: ClassVar[str] = "game-year"
    versus: ClassVar[str] = "vs six"
    options: Any
    """Those of an evaluation or of a payoff matrix."""
    machine: str
    threads: int

    @property
    def record(self) -> Any:
        """Type of the records."""
        return PowerRecord

    @property
    def device(self) -> str:
        """Device of the simulator."""
        return self.machine

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[PowerRecord, list[Phase]]:
        """Play the games of a cell; return their record, and the phases of the first one if it is filmed."""
        one, six = cell.pair
        with closing(self.batch(cell.plan.games, 0 if cell.filmed else None)) as batch:
            if isinstance(batch, WatchedBatch):
                batch.believed = partial(expected, players=[one.plays, *[six.plays] * (NUM_POWERS - 1)])
            self.finish(batch, one, six, cell.plan.seed, bar)
            phases = phases_of(batch.past()) if isinstance(batch, WatchedBatch) else []
            return record(one.name, six.name, batch.owner, batch.year, by_power=bool(self.options.ckpt)), phases

    def finish(self, batch: DiplomacyBatch, one: DiplomacyEntrant, six: DiplomacyEntrant, seed: int, bar: Any) -> None:
        """Play all games of a batch to their ends, `one` with power i % 7 of game i."""
        if self.as_in_training and isinstance(one.plays, PolicyOrders):
            reseed((one.plays, six.plays), seed)
            play_against(batch, one.plays.network, six.plays, seed=seed, generator=one.plays.generator)
            return
        seats, after_phase = one_of_seven(batch.num_games), partial(advance, bar, batch, bar.n)
        play_to_end(batch, [(one.plays, seats), (six.plays, ~seats)], seed=seed, after_phase=after_phase)

    @property
    def as_in_training(self) -> bool:
        """Whether bots of the six decide the retreats and adjustments of a policy, as in its training from 1901 on."""
        return bool(self.options.ckpt) and not self.options.begin

    def batch(self, games: int, watched: int | None) -> DiplomacyBatch:
        """Return a batch with its kernels loaded, which records the game `watched`, if any."""
        conditions: dict[str, Any] = {
            "device": self.machine,
            "last_year": self.options.last_year,
            "threads": self.threads,
            "start": self.options.begin and self.options.begin.position,
        }
        with said_if_long(COMPILING, enabled=not self.options.quiet):
            batch = (
                DiplomacyBatch(games, **conditions)
                if watched is None
                else WatchedBatch(games, watched=watched, **conditions)
            )
            batch.load_kernels()
        return batch

    def stated(self) -> dict[str, Any]:
        """Return what games depend on besides their players, and what their records hold."""
        names = ("last_year", "temperature", "protocol", "settings", "past_orders")
        text = self.options.instructions()
        return {name: getattr(self.options, name) for name in names} | {
            "by_power": bool(self.options.ckpt),
            "prompt": text,
            "start": self.options.begin and self.options.begin.digest,
        }

    def identity(self, player: DiplomacyEntrant) -> tuple[Any, Path | None] | None:
        """Return whether a player samples its orders, and its files; nothing for a bot, and None for code."""
        code = is_code(player.name) or is_code(str(player.located))
        return None if code else (None if player.deterministic else "drawn", player.path)

    def size(self, games: int) -> int:
        """Return the total years of the games."""
        return games * (self.options.last_year - FIRST_YEAR + 1)


@dataclass(frozen=True)
class PowerPairs(Scored):
    """Pairs of games of two players by the shares of squares of their lone powers: won, drawn and lost ones."""

    player: str
    opponent: str
    by_pair: Result
    regime: str = ""
    """All games are of one kind."""

    @property
    def counts(self) -> Result:
        """Games, two of each pair."""
        wins, draws, losses = self.by_pair
        return 2 * wins, 2 * draws, 2 * losses

    @property
    def pairs(self) -> Pairs:
        """Pairs by the player's points in them."""
        wins, draws, losses = self.by_pair
        return losses, 0, draws, 0, wins

    @property
    def units(self) -> Pairs:
        """Pairs of games by the player's points in them."""
        return self.pairs

    def plain(self) -> dict[str, Any]:
        """Return the record as data, for a JSON file."""
        return {"player": self.player, "opponent": self.opponent, "pairs": self.pairs} | self.figures()


def compared(player: str, opponent: str, shares: Tensor, theirs: Tensor) -> PowerPairs:
    """Return the pairs of games of two players, whose lone powers got `shares` and `theirs` [G]: the larger wins."""
    ahead = (shares - theirs).sign().tolist()
    return PowerPairs(player, opponent, (ahead.count(1), ahead.count(0), ahead.count(-1)))


def pairs_of(records: Sequence[PowerRecord]) -> list[PowerPairs]:
    """Return the pairs of games of a ladder, in which each player met six of each other from the same draws."""
    shares = {(record.one, record.six): lone_shares(owners_of(record)) for record in records}
    names = dict.fromkeys(record.one for record in records)
    return [compared(*pair, shares[pair], shares[pair[::-1]]) for pair in combinations(names, 2)]


class SwappedMatches(DiplomacyMatches):
    """Pairs of games: either player has a power against six of the other, each power equally often."""

    @property
    def record(self) -> Any:
        """Type of the records."""
        return PowerPairs

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[PowerPairs, list[Any]]:  # type: ignore[override]
        """Play the games of a cell, half of them from either side, all from the same draws."""
        shares = []
        for lone, six in (cell.pair, cell.pair[::-1]):
            with closing(self.batch(cell.plan.games // 2, None)) as batch:
                self.finish(batch, lone, six, cell.plan.seed, bar)
                shares.append(lone_shares(batch.owner))
        player, opponent = cell.pair
        return compared(player.name, opponent.name, *shares), []

    @property
    def as_in_training(self) -> bool:
        """False: a DumbBot decides the retreats and adjustments of policies, alone and as six."""
        return False

    def stated(self) -> dict[str, Any]:
        """Return what games depend on besides their players."""
        return {"last_year": self.options.last_year, "start": self.options.begin and self.options.begin.digest}


def advance(bar: tqdm[NoReturn], batch: DiplomacyBatch, before: float) -> None:
    """Advance the bar by years; a finished game counts all its years, so the bar ends with the games."""
    over = int((batch.done > 0).sum())
    years = int((batch.year[batch.done == 0].long() - FIRST_YEAR).sum())
    bar.set_postfix_str(f"{over} of {batch.num_games} games over", refresh=False)
    bar.update(before + years + over * (batch.last_year - FIRST_YEAR + 1) - bar.n)
