"""Prioritized fictitious self-play (PFSP): weights of opponents by how the learner does against them, and the draw.

With p the learner's win rate against an opponent, its weight is (1 - p)^power + floor, which prefers the strongest
opponents. The floor keeps every opponent in play: without games a win rate would never change again.
Source: Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement learning", Nature 575 (2019).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sparring.configs.core.errors import moved

MOVED = ("Opponents", "SeatDraw", "draw_opponents", "seat_draws", "league_metrics", "ReferenceRow", "reference_table")
__getattr__ = moved(__name__, dict.fromkeys(MOVED, "sparring.agents.language.grpo.matchmaking"))


def weights(win_rates: ArrayLike, *, power: float = 1.0, floor: float = 0.1) -> np.ndarray:
    """Turn the learner's win rates [K] in [0, 1] into sampling weights [K], positive and not normalized.

    Raises `ValueError` for a rate outside [0, 1].
    """
    p = np.asarray(win_rates, dtype=np.float64)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"win rates {p.tolist()} are outside [0, 1]; give shares of points")
    return (1.0 - p) ** power + floor


def draw(names: Sequence[str], weight: ArrayLike, count: int, rng: np.random.Generator) -> list[str]:
    """Draw `count` of `names` in proportion to `weight` [K], all different while there are enough of them.

    With `count` above the number of names, every name is drawn once before any is drawn again. Raises `ValueError`
    without names.
    """
    if len(names) == 0 and count:
        raise ValueError("cannot draw opponents from an empty pool; add a snapshot first")
    share = np.asarray(weight, dtype=np.float64)
    share = share / max(share.sum(), 1e-300)  # numpy's choice requires probabilities that sum to 1.
    drawn: list[str] = []
    while len(drawn) < count:
        size = min(count - len(drawn), len(names))
        # Without replacement: different opponents for as many slots as possible.
        drawn.extend(names[index] for index in rng.choice(len(names), size=size, replace=False, p=share))
    return drawn
