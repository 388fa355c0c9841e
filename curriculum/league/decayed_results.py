"""How somebody has done lately against somebody else: results that fade as newer ones come in.

Before g new games are added, what is remembered shrinks by m / (m + g). The memory therefore settles at m + g games,
however many matches an update finishes: long enough to tell 90 % from 80 %, short enough to follow a learner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

MEMORY = 200.0
KNOWN = 20.0
"""Games from which on a rate counts as known; a lucky first game must not end a stage."""


def faded(before: ArrayLike, result: Sequence[int], memory: float = MEMORY) -> np.ndarray:
    """What is remembered, float64 [3], after this (wins, draws, losses) on top of what was remembered `before` [3]."""
    fade = memory / (memory + sum(result))
    return fade * np.asarray(before, dtype=np.float64) + np.array(result, dtype=np.float64)
