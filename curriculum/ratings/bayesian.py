"""Bayesian ratings: what is believed of a player's strength, as a normal distribution, before and after games.

Model and update are those of R. C. Weng and C.-J. Lin, "A Bayesian approximation method for online ranking", Journal
of Machine Learning Research 12 (2011), algorithm 1 (Bradley-Terry, every pair of a game's players), with one player to
a team. For each opponent q of player i, with s = 1, 1/2 or 0 for a win, a draw or a loss:

    c^2 = sigma_i^2 + sigma_q^2 + 2 beta^2      p = 1 / (1 + exp((mu_q - mu_i) / c))
    omega += sigma_i^2 / c * (s - p)            delta += (sigma_i / c) * (sigma_i / c)^2 * p * (1 - p)
    mu_i <- mu_i + omega                        sigma_i^2 <- sigma_i^2 * max(1 - delta, kappa)

The constants, and the variance tau^2 that is added before, for strength that changes, are TrueSkill's (R. Herbrich,
T. Minka and T. Graepel, NIPS 2006).

A batch of games is one moment here as it is in ratings.py: a game that two players have G of in it counts 1 / G
between them, and tau comes in once. Each game alone would turn the belief before the batch into another one; the
quotient of the two is what the game says, and the belief after the batch is the one before times all of these. For a
single game that is the update above, and the order of games makes no difference, to the bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparring.curriculum.ratings.game_results import GameResult, Pair, meetings, pair

MU, SIGMA = 25.0, 25.0 / 3.0
BETA = 25.0 / 6.0
"""How much a player's performance scatters from game to game."""
TAU = 25.0 / 300.0
KAPPA = 1e-4
"""The least that one game leaves of a variance."""


@dataclass(frozen=True)
class Belief:
    """Mean and standard deviation of a player's strength. The unit is not Elo's: BETA is what 1.0 is in c."""

    mu: float = MU
    sigma: float = SIGMA

    @property
    def shown(self) -> float:
        """The strength that the player has almost surely: mu - 3 sigma."""
        return self.mu - 3.0 * self.sigma


def win_chance(mine: Belief, theirs: Belief) -> float:
    """Return the chance, in (0, 1), that a player of whom `mine` is believed comes before one of whom `theirs` is."""
    return 1.0 / (1.0 + math.exp((theirs.mu - mine.mu) / _spread(mine, theirs)))


def beliefs_after(before: Mapping[str, Belief], games: Sequence[GameResult]) -> dict[str, Belief]:
    """Return what is believed of everyone who met somebody else in this batch of games.

    `before` has the beliefs about all players, by name; raises `KeyError` for one it lacks.
    """
    met = meetings(games)
    widened = {name: _widened(before[name]) for name in {name for key in met for name in key}}
    said: dict[str, list[tuple[Belief, int]]] = {name: [] for name in widened}
    for game in games:
        for name, belief in _after_one(widened, game, met).items():
            said[name].append((belief, game.count))
    return {name: _product(widened[name], beliefs) for name, beliefs in said.items()}


def _widened(belief: Belief) -> Belief:
    return Belief(belief.mu, math.sqrt(belief.sigma**2 + TAU**2))


def _after_one(before: Mapping[str, Belief], game: GameResult, met: Counter[Pair]) -> dict[str, Belief]:
    """What would be believed of its players after this game alone, with what it counts in its batch."""
    omega: dict[str, list[float]] = {}
    delta: dict[str, list[float]] = {}
    for one, other, score in game.comparisons():
        counts = 1.0 / met[pair(one, other)]
        for me, them, mine in ((one, other, score), (other, one, 1.0 - score)):
            spread, chance = _spread(before[me], before[them]), win_chance(before[me], before[them])
            variance = before[me].sigma ** 2
            omega.setdefault(me, []).append(counts * variance / spread * (mine - chance))
            gamma = before[me].sigma / spread
            delta.setdefault(me, []).append(counts * gamma * variance / spread**2 * chance * (1.0 - chance))
    return {
        me: Belief(
            before[me].mu + math.fsum(omega[me]),
            before[me].sigma * math.sqrt(max(1.0 - math.fsum(delta[me]), KAPPA)),
        )
        for me in omega
    }


def _product(prior: Belief, said: Sequence[tuple[Belief, int]]) -> Belief:
    """The belief that is `prior` times the quotient of each of `said` to it, so many times."""
    precision = 1.0 / prior.sigma**2
    gained = math.fsum(times * (1.0 / belief.sigma**2 - precision) for belief, times in said)
    pull = math.fsum(times * (belief.mu - prior.mu) / belief.sigma**2 for belief, times in said)
    return Belief(prior.mu + pull / (precision + gained), 1.0 / math.sqrt(precision + gained))


def _spread(mine: Belief, theirs: Belief) -> float:
    return math.sqrt(mine.sigma**2 + theirs.sigma**2 + 2.0 * BETA**2)
