"""The search: which orders a power should give in a movement phase, within a budget of positions or of time.

1. Samples: orders of the other powers by the players that they could be (`SearchSettings.opponents`), each as often
   as the search believes in it (`beliefs.py`). Every candidate meets the same samples (common random numbers). The
   proposing bot's orders for the power itself, each once, are the first candidates.
2. Screening: the value of a candidate is the mean of `score.py` over the samples after one adjudicated phase. The best
   `FINALISTS` are compared by playing on to the end of the next fall. Bots then order for all powers: the sampled
   player of another power if it is a bot, else the bot of the settings.
3. Rounds: every change of the best orders (`changes.py`) is screened on some of the samples, the best on more of them
   (`SCREENINGS`), and `SHORTLIST` of them on all. The best of these, and unions of those that gain, are compared by
   playing on, and the best is kept. The search ends after `ROUNDS` rounds, or when nothing improves or the budget is
   spent.
4. Choice: the search draws among the orders that are nearly the best (`SearchSettings.near`), to be unpredictable.

Games are searched side by side, each for a power of its own. With a budget of positions the result depends only on
the position, the beliefs, the id of the game and the seed. Retreats and adjustments are a bot's (`SearchOrders.bot`).
`regret.py` compares the candidates of all powers in another way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State, power_of
from sparring.envs.diplomacy.search.beliefs import picked, prior
from sparring.envs.diplomacy.search.candidates import Candidates, uniform
from sparring.envs.diplomacy.search.changes import Change, OwnOrders, apply, unions
from sparring.envs.diplomacy.search.policy_model import PolicyModel
from sparring.envs.diplomacy.search.regret import MOST_ITERATIONS, REGRET, Table, distinct
from sparring.envs.diplomacy.search.score import WEIGHTS
from sparring.envs.diplomacy.search.settings import SearchSettings
from sparring.envs.diplomacy.search.simulator import LONGEST, Simulator

FINALISTS, SHORTLIST, UNIONS, ROUNDS = 6, 24, 6, 6
SCREENINGS = ((4, 3 * SHORTLIST), (2, SHORTLIST))
"""(k, n): changes are first screened on 1 / k of the samples, and the n best are kept."""
LEAST_SAMPLES, MOST_SAMPLES = 4, 64
POSITIONS_PER_SAMPLE = 500
"""Positions of the budget for each sample."""
SPEED, MEASURED_FROM = 80_000, 1000
"""Positions per second, assumed until `MEASURED_FROM` positions have been searched."""
LEAST_GAIN = 0.01
"""Centres by which a candidate has to be better."""
SOFTNESS = 0.3
"""Loss, as a part of `SearchSettings.near`, that makes orders less likely by a factor of e."""
DRAWS_OF_A_GAME = 4096
"""Numbers reserved for the samples of a game."""


@dataclass
class SearchedGame:
    """A game that is searched: the best orders so far, and their value in centres."""

    legal: OwnOrders
    orders: np.ndarray
    """int32 [75], 0 for other powers' units."""
    value: float = float("-inf")
    positions: int = 0
    """Positions searched so far."""
    going: bool = True
    compared: list[tuple[float, np.ndarray]] = field(default_factory=list)
    """Finalists of all rounds with their values."""
    foretold: dict[str, np.ndarray] = field(default_factory=dict)
    """Orders of the other powers int32 [75] by the searches one level below."""


@dataclass(frozen=True)
class Hints:
    """What is known before a search: orders int32 [G, 75] of other players, beliefs, and the seconds spent on them."""

    proposed: Tensor | None = None
    """Further candidates."""
    foretold: Mapping[str, Tensor] = field(default_factory=dict)
    """Orders of all powers by models that are neither bots nor order networks."""
    shares: Tensor | None = None
    """Beliefs float64 [G, 7, K] on the powers; None: those before the first movement."""
    seconds: float = 0.0


NO_HINTS = Hints()


class OrderSearch:
    """Searches orders of one power a game, in one thread; not for two callers at once.

    `rollouts=False` compares candidates by one phase only.
    """

    def __init__(
        self,
        settings: SearchSettings,
        *,
        last_year: int,
        policies: Mapping[str, PolicyModel] | None = None,
        rollouts: bool = True,
        rounds: int = ROUNDS,
    ) -> None:
        self.settings, self.rollouts, self.rounds = settings, rollouts, rounds
        below = settings.below
        self._below = OrderSearch(below, last_year=last_year, rollouts=False, rounds=1) if below else None
        budget = settings.positions or int(settings.seconds * SPEED)
        self.samples = min(max(budget // POSITIONS_PER_SAMPLE, LEAST_SAMPLES), MOST_SAMPLES)
        proposals = settings.proposals if settings.proposals in codes.BOTS else "dumbbot"
        self.proposals, self.bot = codes.BOTS.index(proposals), codes.BOTS.index(settings.bot)
        self.simulator = Simulator(last_year=last_year, weights=WEIGHTS)
        self.candidates = Candidates(settings.models, policies or {}, self.simulator)
        self._seconds = 0.0
        self.reseed(settings.seed or 0)

    def reseed(self, seed: int) -> None:
        """Set the seed of the samples; it differs from the game's seed, whose draws the search must not foresee."""
        self.seed = (seed * 1_000_003 + 0x5EA4C4) % 2**31
        if self._below:
            self._below.reseed(seed)

    def choose(
        self,
        state: State,
        powers: Tensor,
        listed: Sequence[Mapping[int, np.ndarray]],
        ids: Tensor,
        hints: Hints = NO_HINTS,
    ) -> list[SearchedGame]:
        """Return the best orders for `powers` int [G], one each in G games in a movement phase.

        `listed` are the legal orders of each game by province, `ids` int [G] tell games in equal positions apart.
        """
        start = time.perf_counter() - hints.seconds
        units = state["units"].numpy()
        games = [
            SearchedGame(OwnOrders(listed[game], units[game], int(power)), np.zeros(codes.NUM_PROVINCES, np.int32))
            for game, power in enumerate(powers.tolist())
        ]
        turn = SearchTurn(self, state, powers, ids, games, start)
        if self.settings.form == REGRET:
            turn.match_regrets(self.improved(state, powers, listed, ids, games, range(codes.NUM_POWERS)))
        else:
            turn.sample(hints, listed)
            turn.propose(hints.proposed)
            for _ in range(self.rounds):
                if any(game.going for game in games):
                    turn.improve()
            if self.rollouts:
                turn.settle()
        self._seconds += time.perf_counter() - start
        return games

    def improved(
        self,
        state: State,
        powers: Tensor,
        listed: Sequence[Mapping[int, np.ndarray]],
        ids: Tensor,
        games: Sequence[SearchedGame],
        offsets: Iterable[int],
    ) -> list[list[SearchedGame]]:
        """Search one level below, for powers `offsets` places after those of the games; add up the positions."""
        assert self._below is not None
        start = time.perf_counter()
        searches = [self._below.choose(state, (powers + step) % codes.NUM_POWERS, listed, ids) for step in offsets]
        self._seconds -= time.perf_counter() - start  # `speed` counts this level's positions only
        for searched in searches:
            for game, below in zip(games, searched, strict=True):
                game.positions += below.positions
        return searches

    @property
    def positions(self) -> int:
        """Positions searched so far, those one level below included."""
        return self.simulator.positions + (self._below.positions if self._below else 0)

    @property
    def speed(self) -> float:
        """Positions per second so far."""
        searched = self.simulator.positions
        return searched / self._seconds if searched > MEASURED_FROM and self._seconds else SPEED


class SearchTurn:
    """One call of `OrderSearch.choose`: samples of the other powers' orders, and evaluations on them."""

    def __init__(
        self,
        search: OrderSearch,
        state: State,
        powers: Tensor,
        ids: Tensor,
        games: Sequence[SearchedGame],
        start: float,
    ) -> None:
        self.start = start
        self.search, self.state, self.powers, self.games, self.ids = search, state, powers.to(torch.int32), games, ids
        count, samples = len(powers), search.samples
        self._rows = torch.arange(count).repeat_interleave(samples)
        numbers = ids.long().repeat_interleave(samples) * DRAWS_OF_A_GAME + torch.arange(samples).repeat(count)
        self._ids = numbers % 2**31
        self._own = (power_of(state["units"]) == powers.unsqueeze(1)).unsqueeze(1)

    def sample(self, hints: Hints, listed: Sequence[Mapping[int, np.ndarray]]) -> None:
        """Draw the orders of the other powers, and the bots that play on for them."""
        search, names = self.search, self.search.settings.models
        games, samples = len(self.games), search.samples
        shares = prior(len(names)).expand(games, codes.NUM_POWERS, -1) if hints.shares is None else hints.shares
        size = codes.NUM_POWERS * (1 + samples)
        chance = uniform(search.seed, self._phases(), self.ids % 2**31, size=size).view(games, codes.NUM_POWERS, -1)
        picks = picked(shares, samples, chance)
        ids = self._ids.view(games, samples)
        others = search.candidates.draw(self.state, picks, ids, search.seed)
        owners = power_of(self.state["units"]).clamp_min(0).unsqueeze(1).expand(-1, samples, -1)
        of_unit = picks.gather(2, owners)
        for name in search.candidates.heard:
            orders = hints.foretold[name] if name in hints.foretold else self._improved(name, listed)
            others = torch.where(of_unit == names.index(name), orders.unsqueeze(1), others)
        self._others = others.masked_fill(self._own, 0)
        own = self.powers.long().view(-1, 1, 1).expand(-1, samples, 1)
        self._bots = search.candidates.bots(picks, search.bot).scatter_(2, own, search.bot)

    def _improved(self, name: str, listed: Sequence[Mapping[int, np.ndarray]]) -> Tensor:
        """Return the orders int32 [G, 75] of the other powers by searches one level below."""
        offsets = range(1, codes.NUM_POWERS)
        searches = self.search.improved(self.state, self.powers, listed, self.ids, self.games, offsets)
        for game, row in zip(self.games, zip(*searches, strict=True), strict=True):
            game.foretold[name] = np.sum([below.orders for below in row], axis=0)
        return torch.from_numpy(np.stack([game.foretold[name] for game in self.games]))

    def propose(self, proposed: Tensor | None) -> None:
        """Set the games' orders to the best proposals."""
        bots = torch.full((len(self._rows), 1), self.search.proposals, dtype=torch.int32)
        drawn = self.search.simulator.draw(self.state, self._rows, self._ids, bots=bots, seed=self.search.seed)
        drawn = drawn.unflatten(0, (-1, self.search.samples)).masked_fill(~self._own, 0).numpy()
        candidates = {}
        for number, rows in enumerate(drawn):
            proposals = rows if proposed is None else np.concatenate([proposed[number].numpy()[None], rows])
            first = np.sort(np.unique(proposals, axis=0, return_index=True)[1])
            candidates[number] = proposals[first][: max(self.left(number) // self.search.samples, 1)]
        finalists = {}
        for number, values in self._values(candidates, self.search.samples).items():
            best = _best(values, min(FINALISTS, max(self._affordable(number), 1)))
            finalists[number] = candidates[number][best]
            self.games[number].orders = finalists[number][0]
        self._compare(finalists)
        for game in self.games:
            game.going = bool(game.legal.places)

    def improve(self) -> None:
        """Try all changes of the games' orders once; a game without an improvement stops."""
        changes = {number: game.legal.changes(game.orders) for number, game in enumerate(self.games) if game.going}
        for share, most in SCREENINGS:
            few = max(self.search.samples // share, LEAST_SAMPLES)
            affordable = {number: max(self.left(number) // few - 1, 0) for number in changes}
            changes = {number: listed[: affordable[number]] for number, listed in changes.items()}
            for number, gains in self._gains(changes, few).items():
                changes[number] = [changes[number][at] for at in _best(gains, most)]
        for number, listed in changes.items():
            changes[number] = listed[: max(self.left(number) // self.search.samples - 1, 0)]
        finalists = {}
        for number, gains in self._gains(changes, self.search.samples).items():
            order = _best(gains, SHORTLIST)
            ranked = [changes[number][at] for at in order[:FINALISTS]]
            better = [changes[number][at] for at in order if gains[at] > 0]
            tried = [*ranked[:1], *unions(better, UNIONS), *ranked[1:]]
            finalists[number] = apply(self.games[number].orders, tried[: self._affordable(number)])
        self._compare(finalists)

    def settle(self) -> None:
        """Draw the orders of each game among those that are nearly the best."""
        near_by = self.search.settings.near
        chance = uniform(self.search.seed, self.ids % 2**31, self._phases(), size=1).flatten().tolist()
        for game, drawn in zip(self.games, chance, strict=True):
            near = {rows.tobytes(): (value, rows) for value, rows in game.compared if value > game.value - near_by}
            if near_by and len(near) > 1:
                values = np.array([value for value, _ in near.values()])
                odds = np.exp((values - values.max()) / (SOFTNESS * near_by)).cumsum()
                chosen = int(np.searchsorted(odds / odds[-1], drawn, side="right"))
                game.value, game.orders = list(near.values())[min(chosen, len(near) - 1)]

    def match_regrets(self, searches: Sequence[Sequence[SearchedGame]]) -> None:
        """Choose between candidates of all powers; `searches` are those of the powers 0 to 6 places after its own."""
        tables = [
            Table([distinct(below.compared) for below in row], (self.search.seed, number))
            for row, number in zip(zip(*searches, strict=True), self.ids.tolist(), strict=True)
        ]
        longest = [
            LONGEST[phase] * sum(map(len, table.rows))
            for table, phase in zip(tables, self.state["phase"].tolist(), strict=True)
        ]
        for iteration in range(MOST_ITERATIONS):
            going = [number for number in range(len(tables)) if self.left(number) >= longest[number]]
            if not going:
                break
            self._learn(tables, going, iteration)
        for game, table in zip(self.games, tables, strict=True):
            chosen, game.value = table.choice()
            game.orders, game.going = table.rows[0][chosen], False

    def _learn(self, tables: Sequence[Table], going: Sequence[int], iteration: int) -> None:
        """Play on with the candidates of all powers in the games `going`, and add their regrets."""
        joint = {number: tables[number].joint() for number in going}
        at = torch.tensor(going).repeat_interleave(torch.tensor([len(rows) for rows in joint.values()]))
        steps = torch.tensor([step for number in going for step, rows in enumerate(tables[number].rows) for _ in rows])
        powers = ((self.powers[at] + steps) % codes.NUM_POWERS).to(torch.int32)
        ids = (self.ids.long()[at] * DRAWS_OF_A_GAME + iteration) % 2**31
        orders = torch.from_numpy(np.concatenate(list(joint.values())))
        bots = torch.full((len(at), 1), self.search.bot, dtype=torch.int32)
        values, phases = self.search.simulator.play_on(
            self.state, at, powers, orders, ids, bots=bots, seed=self.search.seed
        )
        for number in going:
            tables[number].learn(values[at == number].numpy())
            self.games[number].positions += int(phases[at == number].sum())

    def _gains(self, changes: Mapping[int, Sequence[Change]], samples: int) -> dict[int, np.ndarray]:
        """Return the gain of each change of the games' orders after one phase, in centres."""
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
            game.compared += zip(values.tolist(), finalists[number], strict=True)
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
            bots = self._bots[at, sample]
            values, phases = simulator.play_on(self.state, at, powers, played, ids, bots=bots, seed=self.search.seed)
        else:
            values, phases = simulator.screen(self.state, at, powers, played)
        for number in candidates:
            self.games[number].positions += int(phases[at == number].sum())
        split = np.split(values.view(-1, samples).mean(dim=1).numpy(), np.cumsum(counts)[:-1])
        return dict(zip(candidates, split, strict=True))

    def _affordable(self, number: int) -> int:
        """Return the number of finalists that the budget pays for."""
        longest = LONGEST[int(self.state["phase"][number])] if self.search.rollouts else 1
        return self.left(number) // (self.search.samples * longest)

    def left(self, number: int) -> int:
        """Return the positions that a game may still search."""
        settings = self.search.settings
        if settings.positions:
            return max(int(settings.positions - self.games[number].positions), 0)
        end = self.start + settings.seconds * len(self.games)
        going = sum(game.going for game in self.games)
        return int(max(end - time.perf_counter(), 0.0) * self.search.speed / going)

    def _phases(self) -> Tensor:
        return self.state["year"].long() * len(codes.PHASES) + self.state["phase"].long()


def _best(values: np.ndarray, most: int) -> list[int]:
    """Return the numbers of the highest values, the highest first, equal ones in their order."""
    order: list[int] = np.argsort(-values, kind="stable")[:most].tolist()
    return order
