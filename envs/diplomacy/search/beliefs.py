"""What a search believes of the other powers: a probability of each candidate for each power of each game.

    evidence    e(k) = sum over the movements of the game of log p_k(orders)
    belief      w(k) = (1 - FLOOR) prior(k) exp(e(k) / TEMPERATURE) / sum of the same over all k + FLOOR prior(k)

The temperature makes up for units that are counted as independent. The floor keeps every candidate in play, since a
power may change its strategy or match none of them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS

TEMPERATURE, FLOOR = 2.0, 0.05
FIRST = 0.5
"""Prior probability of the first candidate; the others share the rest."""


class Beliefs:
    """Evidence on the powers of G games for K candidates."""

    def __init__(self, games: int, candidates: int) -> None:
        self._evidence = torch.zeros(games, codes.NUM_POWERS, candidates, dtype=torch.float64)
        self._prior = prior(candidates)

    def forget(self, games: Tensor) -> None:
        """Start again in the games bool [G]."""
        self._evidence[games] = 0.0

    def learn(self, rows: Tensor, log_likelihoods: Tensor) -> None:
        """Add log-likelihoods [n, 7, K] of orders in the games `rows` [n], each named once."""
        self._evidence[rows] += log_likelihoods

    def shares(self, rows: Tensor) -> Tensor:
        """Return the beliefs on the powers of the games `rows` [n], float64 [n, 7, K]."""
        weights = (self._prior.log() + self._evidence[rows] / TEMPERATURE).softmax(2)
        return (1 - FLOOR) * weights + FLOOR * self._prior


def described(shares: Sequence[Mapping[str, float]], but: Container[int] = ()) -> list[str]:
    """Return a line for each power except those in `but`, with its likeliest player: "TURKEY: 93 % dumbbot"."""
    lines = []
    for power, players in enumerate(shares):
        if power not in but:
            name = max(players, key=lambda player: players[player])
            lines.append(f"{POWERS[power]}: {100 * players[name]:.0f} % {name}")
    return lines


def prior(candidates: int) -> Tensor:
    """Return the beliefs before the first movement, float64 [K]."""
    if candidates == 1:
        return torch.ones(1, dtype=torch.float64)
    shares = torch.full((candidates,), (1 - FIRST) / (candidates - 1), dtype=torch.float64)
    shares[0] = FIRST
    return shares


def picked(shares: Tensor, samples: int, uniform: Tensor) -> Tensor:
    """Return the candidate of each power in each sample, int64 [n, S, 7], by systematic sampling from the shares.

    The shares are [n, 7, K]; a candidate with a share w has S w of the samples, rounded up or down. `uniform` [n, 7,
    1 + S] are random numbers: where the systematic sample begins, and the order of the samples. The order makes the
    samples of different powers independent.
    """
    points = (torch.arange(samples) + uniform[..., :1]) / samples  # [n, 7, S]
    limits = shares.cumsum(2)
    limits[..., -1] = 1.0
    chosen = (points.unsqueeze(3) >= limits.unsqueeze(2)).sum(3).clamp_max(shares.shape[2] - 1)
    return chosen.gather(2, uniform[..., 1:].argsort(2)).transpose(1, 2)
