"""Recent results of one player against another, decayed as newer ones come in.

Before g new games are added, the stored counts are multiplied by m / (m + g). They therefore converge to m + g games,
however many games an update finishes: enough to tell 90 % from 80 %, few enough to follow a learner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

MEMORY = 200.0  # Games; the standard error of a rate near 0.8 is then about 3 %.
KNOWN = 20.0
"""Least games for a rate to count as known; a lucky first game must not end a stage."""


def decayed(before: ArrayLike, result: Sequence[int], memory: float = MEMORY) -> np.ndarray:
    """Return the counts float64 [3] after (wins, draws, losses) are added to the decayed counts `before` [3]."""
    kept = memory / (memory + sum(result))
    return kept * np.asarray(before, dtype=np.float64) + np.array(result, dtype=np.float64)
