"""The search: which orders a power should give in a movement phase, within a budget of positions or of time.

1. Samples: a bot's orders for all powers, drawn `samples` times. Those of the other powers are what every candidate
   meets (common random numbers); the proposing bot's orders for the power itself, each once, are the first candidates.
2. Screening: the value of a candidate is the mean of `score.py` over the samples after one adjudicated phase. The best
   `FINALISTS` are compared by playing on to the end of the next fall, all powers by the bot.
3. Rounds: every change of the best orders (`changes.py`) is screened on some of the samples, the best on more of them
   (`SCREENINGS`), and `SHORTLIST` of them on all. The best of these, and unions of those that gain, are compared by
   playing on, and the best is kept.
   The search ends after `ROUNDS` rounds, without an improvement, or without budget.

Games are searched side by side, each for a power of its own. With a budget of positions the result depends only on
the position, the id of the game and the seed. Retreats and adjustments are a bot's (`SearchOrders.bot`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State, power_of
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.search.changes import Change, OwnOrders, apply, unions
from sparring.envs.diplomacy.search.score import WEIGHTS
from sparring.envs.diplomacy.search.settings import SearchSettings
from sparring.envs.diplomacy.search.simulator import LONGEST, Simulator

FINALISTS, SHORTLIST, UNIONS, ROUNDS = 6, 24, 6, 6
SCREENINGS = ((4, 3 * SHORTLIST), (2, SHORTLIST))
"""Before all samples are used, changes are screened on a part of them, and so many of the best are kept."""
LEAST_SAMPLES, MOST_SAMPLES = 4, 64
POSITIONS_PER_SAMPLE = 500
"""A budget has one sample for so many positions."""
SPEED, MEASURED_FROM = 80_000, 1000
"""Positions per second, assumed until so many have been searched."""
LEAST_GAIN = 0.01
"""Centres by which a candidate has to be better."""
DRAWS_OF_A_GAME = 4096
"""Numbers reserved for the samples of a game."""
SIDE_BY_SIDE = 16
"""Most decisions searched at once, so that their candidates need some 100 MB at most."""


@dataclass
class SearchedGame:
    """A game that is searched: the best orders so far, and their value in centres."""

    own: OwnOrders
    orders: np.ndarray
    """int32 [75], 0 for other powers' units."""
    value: float = float("-inf")
    positions: int = 0
    """Positions searched so far."""
    going: bool = True


class OrderSearch:
    """Searches orders of one power a game, in one thread; not for two callers at once.

    `rollouts=False` compares candidates by one phase only.
    """

    def __init__(self, settings: SearchSettings, *, last_year: int, rollouts: bool = True) -> None:
        self.settings, self.rollouts = settings, rollouts
        budget = settings.positions or int(settings.seconds * SPEED)
        self.samples = min(max(budget // POSITIONS_PER_SAMPLE, LEAST_SAMPLES), MOST_SAMPLES)
        proposals = settings.proposals if settings.proposals in codes.BOTS else "dumbbot"
        self.proposals, self.opponents = codes.BOTS.index(proposals), codes.BOTS.index(settings.opponents)
        # Not the seed of a game, whose draws the search must not foresee.
        self.seed = (settings.seed * 1_000_003 + 0x5EA4C4) % 2**31
        self.simulator = Simulator(last_year=last_year, bot=self.opponents, weights=WEIGHTS)
        self._seconds = 0.0

    def choose(
        self,
        state: State,
        powers: Tensor,
        listed: Sequence[Mapping[int, np.ndarray]],
        ids: Tensor,
        proposed: np.ndarray | None = None,
    ) -> list[SearchedGame]:
        """Return the best orders for `powers` int [G], one each in G games in a movement phase.

        `listed` are the legal orders of each game by province, `ids` int [G] tell games in equal positions apart, and
        `proposed` int32 [G, 75] are further candidates.
        """
        units = state["units"].numpy()
        games = [
            SearchedGame(OwnOrders(listed[game], units[game], int(power)), np.zeros(codes.NUM_PROVINCES, np.int32))
            for game, power in enumerate(powers.tolist())
        ]
        turn = SearchTurn(self, state, powers, ids, games)
        turn.propose(proposed)
        for _ in range(ROUNDS):
            if any(game.going for game in games):
                turn.improve()
        self._seconds += time.perf_counter() - turn.start
        return games

    @property
    def speed(self) -> float:
        """Positions per second so far."""
        searched = self.simulator.positions
        return searched / self._seconds if searched > MEASURED_FROM and self._seconds else SPEED


class SearchTurn:
    """One call of `OrderSearch.choose`: samples of the other powers' orders, and evaluations on them."""

    def __init__(
        self, search: OrderSearch, state: State, powers: Tensor, ids: Tensor, games: Sequence[SearchedGame]
    ) -> None:
        self.start = time.perf_counter()
        self.search, self.state, self.powers, self.games = search, state, powers.to(torch.int32), games
        count, samples = len(powers), search.samples
        self._rows = torch.arange(count).repeat_interleave(samples)
        own = ids.long().repeat_interleave(samples) * DRAWS_OF_A_GAME + torch.arange(samples).repeat(count)
        self._ids = own % 2**31
        self._own = (power_of(state["units"]) == powers.unsqueeze(1)).unsqueeze(1)
        self._others = self._draw(search.opponents).masked_fill(self._own, 0)

    def propose(self, proposed: np.ndarray | None) -> None:
        """Set the games' orders to the best proposals."""
        drawn = self._draw(self.search.proposals).masked_fill(~self._own, 0).numpy()
        candidates = {}
        for number, rows in enumerate(drawn):
            more = rows if proposed is None else np.concatenate([proposed[number][None], rows])
            first = np.sort(np.unique(more, axis=0, return_index=True)[1])
            candidates[number] = more[first][: max(self._left(number) // self.search.samples, 1)]
        finalists = {}
        for number, values in self._values(candidates, self.search.samples).items():
            best = _best(values, min(FINALISTS, max(self._affordable(number), 1)))
            finalists[number] = candidates[number][best]
            self.games[number].orders = finalists[number][0]
        self._compare(finalists)
        for game in self.games:
            game.going = bool(game.own.places)

    def improve(self) -> None:
        """Try all changes of the games' orders once; a game without an improvement stops."""
        changes = {number: game.own.changes(game.orders) for number, game in enumerate(self.games) if game.going}
        for share, most in SCREENINGS:
            few = max(self.search.samples // share, LEAST_SAMPLES)
            affordable = {number: max(self._left(number) // few - 1, 0) for number in changes}
            changes = {number: listed[: affordable[number]] for number, listed in changes.items()}
            for number, gains in self._gains(changes, few).items():
                changes[number] = [changes[number][at] for at in _best(gains, most)]
        for number, listed in changes.items():
            changes[number] = listed[: max(self._left(number) // self.search.samples - 1, 0)]
        finalists = {}
        for number, gains in self._gains(changes, self.search.samples).items():
            order = _best(gains, SHORTLIST)
            ranked = [changes[number][at] for at in order[:FINALISTS]]
            better = [changes[number][at] for at in order if gains[at] > 0]
            tried = [*ranked[:1], *unions(better, UNIONS), *ranked[1:]]
            finalists[number] = apply(self.games[number].orders, tried[: self._affordable(number)])
        self._compare(finalists)

    def _gains(self, changes: Mapping[int, Sequence[Change]], samples: int) -> dict[int, np.ndarray]:
        """Return by how much each change of the games' orders is better, by one phase."""
        gains = {number: np.zeros(0, np.float32) for number in changes}
        candidates = {
            number: apply(self.games[number].orders, [(), *listed]) for number, listed in changes.items() if listed
        }
        return gains | {number: values[1:] - values[0] for number, values in self._values(candidates, samples).items()}

    def _compare(self, finalists: Mapping[int, np.ndarray]) -> None:
        """Keep the best finalist of each game if it is better than its orders; the others stop."""
        for number, values in self._values(finalists, self.search.samples, play_on=self.search.rollouts).items():
            game = self.games[number]
            best = int(values.argmax()) if len(values) else -1
            game.going = best >= 0 and bool(values[best] > game.value + LEAST_GAIN)
            if game.going:
                game.orders, game.value = finalists[number][best], float(values[best])

    def _values(
        self, candidates: Mapping[int, np.ndarray], samples: int, *, play_on: bool = False
    ) -> dict[int, np.ndarray]:
        """Return the mean values of the candidates int32 [n, 75] of each game over the first `samples`."""
        counts = [len(rows) for rows in candidates.values()]
        if not sum(counts):
            return {number: np.zeros(0, np.float32) for number in candidates}
        simulator = self.search.simulator
        orders = torch.from_numpy(np.concatenate(list(candidates.values())))
        at = torch.tensor(list(candidates)).repeat_interleave(torch.tensor(counts)).repeat_interleave(samples)
        sample, powers = torch.arange(samples).repeat(len(orders)), self.powers[at]
        played = self._others[at, sample] + orders.repeat_interleave(samples, dim=0)
        if play_on:
            ids = self._ids.view(-1, self.search.samples)[at, sample]
            values, phases = simulator.play_on(self.state, at, powers, played, ids, seed=self.search.seed)
        else:
            values, phases = simulator.screen(self.state, at, powers, played)
        for number in candidates:
            self.games[number].positions += int(phases[at == number].sum())
        split = np.split(values.view(-1, samples).mean(dim=1).numpy(), np.cumsum(counts)[:-1])
        return dict(zip(candidates, split, strict=True))

    def _affordable(self, number: int) -> int:
        """Return the number of finalists that the budget pays for."""
        longest = LONGEST[int(self.state["phase"][number])] if self.search.rollouts else 1
        return self._left(number) // (self.search.samples * longest)

    def _left(self, number: int) -> int:
        """Return the positions that a game may still search."""
        settings = self.search.settings
        if settings.positions:
            return max(int(settings.positions - self.games[number].positions), 0)
        end = self.start + settings.seconds * len(self.games)
        going = sum(game.going for game in self.games)
        return int(max(end - time.perf_counter(), 0.0) * self.search.speed / going)

    def _draw(self, bot: int) -> Tensor:
        """Return the samples of a bot's orders for all powers, int32 [G, samples, 75]."""
        drawn = self.search.simulator.draw(self.state, self._rows, self._ids, bot=bot, seed=self.search.seed)
        return drawn.unflatten(0, (-1, self.search.samples))


def _best(values: np.ndarray, most: int) -> list[int]:
    """Return the numbers of the highest values, the highest first, equal ones in their order."""
    order: list[int] = np.argsort(-values, kind="stable")[:most].tolist()
    return order


class SearchOrders:
    """The player: searches the moves of a power; `source`, if any, proposes orders beside the bot."""

    bot = "dumbbot"
    """Bot of its retreats and adjustments."""

    def __init__(self, settings: SearchSettings, source: OrderWriter | None = None) -> None:
        self.settings, self._source = settings, source
        self._search: OrderSearch | None = None

    def write(self, batch: DiplomacyBatch, seats: Tensor) -> None:
        """Write the moves of the powers `seats` bool [G, 7]; other phases stay as they are."""
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
        owners = power_of(batch.units)
        alive = (owners.unsqueeze(-1) == torch.arange(codes.NUM_POWERS, device=batch.device)).any(dim=1)
        due = torch.nonzero(seats & moving.unsqueeze(1) & alive)
        if self._source is not None and len(due):
            self._source.write(batch, seats)
        for part in due.split(SIDE_BY_SIDE):
            rows, powers = part.unbind(dim=1)
            own = owners[rows] == powers.unsqueeze(1)
            proposed = None if self._source is None else batch.orders[rows].masked_fill(~own, 0).cpu().numpy()
            games = self.searched(batch, rows, powers, proposed)
            for row, mine, game in zip(rows.tolist(), own, games, strict=True):
                orders = torch.from_numpy(game.orders).to(batch.device)
                batch.orders[row] = torch.where(mine, orders, batch.orders[row])

    @property
    def positions(self) -> int:
        """Positions searched so far."""
        return self._search.simulator.positions if self._search else 0

    def searched(
        self, batch: DiplomacyBatch, rows: Tensor, powers: Tensor, proposed: np.ndarray | None = None
    ) -> list[SearchedGame]:
        """Return the results of the search for `powers` [n] in the games `rows` [n], which are in a movement phase."""
        if self._search is None or self._search.simulator.batch.last_year != batch.last_year:
            self._search = OrderSearch(self.settings, last_year=batch.last_year)
        state = {name: values[rows].cpu() for name, values in batch.state.items()}
        listed = {row: batch.legal_orders(row) for row in set(rows.tolist())}
        ids = batch.game_id[rows].cpu() * codes.NUM_POWERS + powers.cpu()
        return self._search.choose(state, powers.cpu(), [listed[row] for row in rows.tolist()], ids, proposed)
