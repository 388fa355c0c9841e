"""The rewards of one game as it is played: a weighted sum of the terms in `rewards.py`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from configs.names import choose
from envs.diplomacy import codes
from envs.diplomacy.rewards import FINAL, events, first_influence, influence_after, standing, strategic_standing

STANDINGS = {"dense": standing, "strategic": strategic_standing}
TERMS = (*FINAL, *STANDINGS)

Rows = Mapping[str, np.ndarray]


def reward_weights(reward: str | Mapping[str, float]) -> dict[str, float]:
    """The weight of every term named, from one name or from a mapping.

    Raises `UnknownNameError` for a term there is not, `ValueError` for a weight that is not finite.
    """
    weights = {reward: 1.0} if isinstance(reward, str) else dict(reward)
    for term, weight in weights.items():
        choose("reward", term, TERMS)
        if not np.isfinite(weight):
            raise ValueError(f"reward[{term!r}]={weight!r}: give a finite number")
    return weights


class Scorer:
    """Follows one game and says after every phase what each power has earned in it."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        self._influence = np.zeros((1, codes.NUM_PROVINCES), dtype=np.int64)

    def begin(self, row: Rows) -> None:
        """A game begins from these rows."""
        self._influence = first_influence(row["units"][None])

    def score(self, before: Rows, after: Rows, results: np.ndarray) -> np.ndarray:
        """Rewards float64 [7] of the phase between two positions, final scores among them where the game is over."""
        total = np.zeros(codes.NUM_POWERS)
        units, owner = after["units"][None], after["owner"][None]
        for term, weight in self.weights.items():
            if term in FINAL:
                earned = FINAL[term](owner, after["winner"].reshape(1))[0] * bool(after["done"])
            else:
                worth = STANDINGS[term]
                earned = (worth(units, owner) - worth(before["units"][None], before["owner"][None]))[0]
                earned += events(before["units"][None], units, results[None], self._influence)[0]
            total += weight * earned
        self._influence = influence_after(self._influence, units)
        return total
