"""Prioritized fictitious self-play (PFSP): sampling weights of snapshots by the learner's win rates.

With p the learner's win rate against an opponent, "hard" gives it the weight (1 - p)^power + floor, which prefers the
strongest opponents; "variance" gives p (1 - p) + floor, which prefers even ones. The floor keeps every opponent in
play: without games a win rate would never change again.
Source: Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement learning", Nature 575 (2019).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sparring.configs.core.errors import choose

FLOORS = {"hard": 0.1, "variance": 0.01}  # Added to weights of at most 1 and 0.25.


def win_rate(wins: ArrayLike, draws: ArrayLike, losses: ArrayLike) -> np.ndarray:
    """Return the share of points, (wins + draws / 2 + 1) / (games + 2), elementwise, as float64.

    The added win and loss are a prior (Laplace): without games a rate is 0.5, and a single game moves it little.
    """
    won, drawn, lost = (np.asarray(count, dtype=np.float64) for count in (wins, draws, losses))
    return (won + 0.5 * drawn + 1.0) / (won + drawn + lost + 2.0)


def weights(win_rates: ArrayLike, form: str = "hard", *, power: float = 1.0, floor: float | None = None) -> np.ndarray:
    """Turn the learner's win rates [K] in [0, 1] into sampling weights [K], positive and not normalized.

    `power` is that of the form "hard"; `floor` is the form's own of `FLOORS` unless given. Raises `UnknownNameError`
    for an unknown form and `ValueError` for a rate outside [0, 1].
    """
    p = np.asarray(win_rates, dtype=np.float64)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"win rates {p.tolist()} are outside [0, 1]; give shares of points")
    usual = FLOORS[choose("form of sampling", form, FLOORS)]
    least = usual if floor is None else floor
    return (1.0 - p) ** power + least if form == "hard" else p * (1.0 - p) + least


def draw(names: Sequence[str], weight: ArrayLike, count: int, rng: np.random.Generator) -> list[str]:
    """Draw `count` of `names` in proportion to `weight` [K], all different while there are enough of them.

    With `count` above the number of names, every name is drawn once before any is drawn again. Raises `ValueError`
    without names.
    """
    if len(names) == 0:
        raise ValueError("cannot draw opponents from an empty pool; add a snapshot first")
    share = np.asarray(weight, dtype=np.float64)
    share = share / share.sum()  # numpy's choice requires probabilities that sum to 1.
    drawn: list[str] = []
    while len(drawn) < count:
        size = min(count - len(drawn), len(names))
        # Without replacement: different opponents for as many slots as possible.
        drawn.extend(names[index] for index in rng.choice(len(names), size=size, replace=False, p=share))
    return drawn
