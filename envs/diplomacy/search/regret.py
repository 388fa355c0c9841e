"""Regret matching over the candidates of all powers, as SearchBot does it (Gray et al., arXiv:2010.02923).

Every power i has up to `CANDIDATES` orders a, the best that a search one level below compared. In each iteration t all
powers draw orders from their strategies, and every candidate of every power is played on against the others' draws:

    r_i(a) += v_i(a, drawn others) - sum over b of sigma_i(b) v_i(b, drawn others)
    sigma_i(a) = max(r_i(a), 0) / sum over b of max(r_i(b), 0), equal shares if no regret is positive

The power plays a draw from its average strategy, the mean of sigma over the iterations. A Nash equilibrium is what
this converges to in games of two players with opposed interests; here there are seven, and a few dozen iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

REGRET = "regret"
"""Name of this form of search."""
CANDIDATES, MOST_ITERATIONS = 6, 1000


class Table:
    """Candidates of all powers in one game, int32 [n, 75] each, and their regrets; the first are the searcher's.

    Draws depend on `key`.
    """

    def __init__(self, rows: Sequence[np.ndarray], key: Sequence[int]) -> None:
        self.rows = rows
        self.regrets = [np.zeros(len(rows)) for rows in self.rows]
        self.sums = [np.zeros(len(rows)) for rows in self.rows]
        self.values = [np.zeros(len(rows)) for rows in self.rows]
        self._random = np.random.default_rng(list(key))

    def strategy(self, step: int) -> np.ndarray:
        """Return the shares of a power's candidates by their regrets."""
        positive = np.maximum(self.regrets[step], 0.0)
        return positive / positive.sum() if positive.sum() > 0 else np.full(len(positive), 1 / len(positive))

    def joint(self) -> np.ndarray:
        """Return the orders to play on with, int32 [n, 75]: each candidate of each power against the others' draws."""
        drawn = [rows[self._drawn(self.strategy(step))] for step, rows in enumerate(self.rows)]
        everyone = np.sum(drawn, axis=0)
        return np.concatenate([rows + (everyone - candidate) for rows, candidate in zip(self.rows, drawn, strict=True)])

    def learn(self, values: np.ndarray) -> None:
        """Add the regrets of an iteration from the values [n] of `joint`."""
        ends = np.cumsum([len(rows) for rows in self.rows])[:-1]
        for step, value in enumerate(np.split(values.astype(float), ends)):
            share = self.strategy(step)
            self.sums[step] += share
            self.values[step] += value
            self.regrets[step] += value - float(share @ value)

    def choice(self) -> tuple[int, float]:
        """Draw a candidate of the searcher from its average strategy; return its number and its mean value."""
        iterations = self.sums[0].sum()
        if not iterations:
            return 0, float("-inf")
        chosen = self._drawn(self.sums[0] / iterations)
        return chosen, float(self.values[0][chosen] / iterations)

    def _drawn(self, shares: np.ndarray) -> int:
        return min(int(np.searchsorted(np.cumsum(shares), self._random.random(), side="right")), len(shares) - 1)


def distinct(compared: Iterable[tuple[float, np.ndarray]]) -> np.ndarray:
    """Return the `CANDIDATES` best different orders among those with values, int32 [n, 75], the best first."""
    best = dict.fromkeys(rows.tobytes() for _, rows in sorted(compared, key=lambda pair: -pair[0]))
    return np.stack([np.frombuffer(rows, dtype=np.int32) for rows in list(best)[:CANDIDATES]])
