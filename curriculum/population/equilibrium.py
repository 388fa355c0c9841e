"""The equilibrium of a zero-sum game in matrix form, by the simplex method.

All payoffs a_ij must be positive. Let y maximize sum(y) subject to A y <= 1, y >= 0. The value is v = 1 / sum(y) and
the column player's strategy is y v (Dantzig 1951). The dual is the row player's strategy. Bland's rule (1977) picks the
pivots and prevents cycling in ties.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

SMALL = 1e-10


def equilibrium(payoff: ArrayLike) -> np.ndarray:
    """Return the row player's strategy float64 [R] whose least mean payoff is the largest, of payoffs [R, C].

    Raises `ValueError` for an empty matrix and for payoffs that are not finite.
    """
    game = np.asarray(payoff, dtype=np.float64)
    if game.ndim != 2 or not game.size or not np.isfinite(game).all():
        raise ValueError(f"payoff has shape {game.shape}; give a matrix [R, C] of finite numbers")
    rows, columns = game.shape
    table = np.zeros((rows + 1, columns + rows + 1))
    table[:rows, :columns] = game - game.min() + 1.0
    table[:rows, columns:-1], table[:rows, -1], table[-1, :columns] = np.eye(rows), 1.0, -1.0
    basis = np.arange(columns, columns + rows)
    while len(entering := np.flatnonzero(table[-1, :-1] < -SMALL)):
        column = entering[0]
        able = np.flatnonzero(table[:rows, column] > SMALL)
        ratio = table[able, -1] / table[able, column]
        ties = able[ratio <= ratio.min() + SMALL]
        row = ties[np.argmin(basis[ties])]
        table[row] /= table[row, column]
        rest = np.arange(rows + 1) != row
        table[rest] -= table[rest, column : column + 1] * table[row]
        basis[row] = column
    dual = np.clip(table[-1, columns:-1], 0.0, None)
    strategy: np.ndarray = dual / dual.sum()
    return strategy
