"""How the learner has done lately against each opponent: results that fade as newer ones come in.

Before g new games are added, what is remembered shrinks by m / (m + g). The memory therefore settles at m + g games,
however many matches an update finishes: long enough to tell 90 % from 80 %, short enough to follow a learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from curriculum.pfsp import win_rate

MEMORY = 200.0
KNOWN = 20.0
"""Games from which on a score counts as known; a lucky first game must not end a stage."""


def faded(before: ArrayLike, result: Sequence[int], memory: float = MEMORY) -> np.ndarray:
    """What is remembered, float64 [3], after this (wins, draws, losses) on top of what was remembered `before` [3]."""
    fade = memory / (memory + sum(result))
    return fade * np.asarray(before, dtype=np.float64) + np.array(result, dtype=np.float64)


class Scores:
    """Faded (wins, draws, losses) of the learner per opponent name.

    The schedule steers by win rates, because a draw against a bot is a failure to beat it; drawing opponents from the
    pool goes by shares of points, where a draw is worth half.
    """

    def __init__(self, memory: float = MEMORY) -> None:
        self.memory = memory
        self._results: dict[str, np.ndarray] = {}

    def add(self, results: Mapping[str, tuple[int, int, int]]) -> None:
        """Let earlier results fade and add these."""
        for name, result in results.items():
            self._results[name] = faded(self._results.get(name, np.zeros(3)), result, self.memory)

    def forget(self, name: str) -> None:
        """Drop an opponent that is no longer met."""
        self._results.pop(name, None)

    def state_dict(self) -> dict[str, list[float]]:
        """What is remembered, as plain data."""
        return {name: result.tolist() for name, result in self._results.items()}

    def load_state_dict(self, state: Mapping[str, list[float]]) -> None:
        """Remember what `state` says and nothing else."""
        self._results = {name: np.array(result) for name, result in state.items()}

    def win_rates(self) -> dict[str, float]:
        """Wins by games of every opponent met in at least `KNOWN` games."""
        return {name: float(r[0] / r.sum()) for name, r in self._results.items() if r.sum() >= KNOWN}

    def guesses(self, names: Iterable[str]) -> np.ndarray:
        """Share of points with a prior, float64 [K], for any opponents: 0.5 for one never met."""
        wins, draws, losses = np.array([self._results.get(name, np.zeros(3)) for name in names]).T
        return win_rate(wins, draws, losses)
