"""Bayesian ratings: a normal distribution of each player's strength, updated by games.

Model and update are those of R. C. Weng and C.-J. Lin, "A Bayesian approximation method for online ranking", Journal
of Machine Learning Research 12 (2011), algorithm 1 (Bradley-Terry, every pair of a game's players), with one player to
a team. For each opponent q of player i, with s = 1, 1/2 or 0 for a win, a draw or a loss:

    c^2 = sigma_i^2 + sigma_q^2 + 2 beta^2      p = 1 / (1 + exp((mu_q - mu_i) / c))
    omega += sigma_i^2 / c * (s - p)            delta += (sigma_i / c) * (sigma_i / c)^2 * p * (1 - p)
    mu_i <- mu_i + omega                        sigma_i^2 <- sigma_i^2 * max(1 - delta, kappa)

The constants, and the variance tau^2 that is added before, for strength that changes, are TrueSkill's (R. Herbrich,
T. Minka and T. Graepel, NIPS 2006).

A batch of games is rated at once, as in `elo.py`: each of the G games between two players counts 1 / G, and tau^2 is
added once. Each game alone would change the belief before the batch into another one; the quotient of the two is the
likelihood of the game, and the belief after the batch is the one before times all these likelihoods. For a single game
that is the update above, and the order of games makes no difference, to the bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparring.curriculum.ratings.game_results import GameResult, Pair, meetings, pair

MU, SIGMA = 25.0, 25.0 / 3.0
BETA = 25.0 / 6.0
"""Standard deviation of a player's performance from game to game."""
TAU = 25.0 / 300.0  # Per batch: strength may drift between batches.
KAPPA = 1e-4
"""Least factor by which one game may shrink a variance; keeps it positive."""


@dataclass(frozen=True)
class Belief:
    """Mean and standard deviation of a player's strength. In TrueSkill units, not Elo's."""

    mu: float = MU
    sigma: float = SIGMA

    @property
    def shown(self) -> float:
        """Conservative estimate of the strength, mu - 3 sigma, as TrueSkill leaderboards show it."""
        return self.mu - 3.0 * self.sigma


def win_chance(mine: Belief, theirs: Belief) -> float:
    """Return the probability, in (0, 1), that a player with belief `mine` is placed before one with `theirs`."""
    return 1.0 / (1.0 + math.exp((theirs.mu - mine.mu) / _spread(mine, theirs)))


def beliefs_after(before: Mapping[str, Belief], games: Sequence[GameResult]) -> dict[str, Belief]:
    """Return the new beliefs of all players with an opponent in this batch of games.

    `before` has the beliefs of all players, by name; raises `KeyError` for a missing one.
    """
    met = meetings(games)
    widened = {name: _widened(before[name]) for name in {name for key in met for name in key}}
    updated: dict[str, list[tuple[Belief, int]]] = {name: [] for name in widened}
    for game in games:
        for name, belief in _after_one(widened, game, met).items():
            updated[name].append((belief, game.count))
    return {name: _product(widened[name], beliefs) for name, beliefs in updated.items()}


def _widened(belief: Belief) -> Belief:
    return Belief(belief.mu, math.sqrt(belief.sigma**2 + TAU**2))


def _after_one(before: Mapping[str, Belief], game: GameResult, met: Counter[Pair]) -> dict[str, Belief]:
    """Return the beliefs of its players after this game alone, with its weight in the batch."""
    omega: dict[str, list[float]] = {}
    delta: dict[str, list[float]] = {}
    for one, other, score in game.comparisons():
        counts = 1.0 / met[pair(one, other)]
        for me, them, mine in ((one, other, score), (other, one, 1.0 - score)):
            spread, chance = _spread(before[me], before[them]), win_chance(before[me], before[them])
            variance = before[me].sigma ** 2
            omega.setdefault(me, []).append(counts * variance / spread * (mine - chance))
            # Weng and Lin's gamma, sigma_i / c: slows the decrease of the variance.
            gamma = before[me].sigma / spread
            delta.setdefault(me, []).append(counts * gamma * variance / spread**2 * chance * (1.0 - chance))
    return {
        me: Belief(
            before[me].mu + math.fsum(omega[me]),
            before[me].sigma * math.sqrt(max(1.0 - math.fsum(delta[me]), KAPPA)),
        )
        for me in omega
    }


def _product(prior: Belief, updated: Sequence[tuple[Belief, int]]) -> Belief:
    """Return `prior` times the likelihood of each game, given as (belief after it alone, number of such games).

    Gaussians multiply in natural parameters: precisions 1 / sigma^2 add, and so do precision-weighted means.
    """
    precision = 1.0 / prior.sigma**2  # Of the prior; each game may only add to it.
    gained = math.fsum(times * (1.0 / belief.sigma**2 - precision) for belief, times in updated)
    pull = math.fsum(times * (belief.mu - prior.mu) / belief.sigma**2 for belief, times in updated)
    return Belief(prior.mu + pull / (precision + gained), 1.0 / math.sqrt(precision + gained))


def _spread(mine: Belief, theirs: Belief) -> float:
    # c of the model: both uncertainties and both performance noises.
    return math.sqrt(mine.sigma**2 + theirs.sigma**2 + 2.0 * BETA**2)
