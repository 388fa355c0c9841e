"""The styles of one network as a game in matrix form, from the results of finished training matches.

Style i is a response to the equilibrium mixture of the lower styles, 0 to i - 1, and meets only these (S. Liu and
others, "NeuPL", ICLR 2022). The results below the diagonal are enough, because the game is zero-sum. Results decay as
newer ones come in, since all styles continue to learn. The equilibrium of a matrix jumps with small errors. So the
running mean of equilibria is used, with noise as large as the payoffs' standard errors: styles that the results cannot
distinguish get equal parts. A part of a style's matches is spread evenly over all lower styles to measure payoffs. K is
the number of styles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.curriculum.league.league import decayed
from sparring.curriculum.population.equilibrium import equilibrium

MEMORY = 1000.0
"""Games of two styles that count, about; the standard error of a payoff is then 3 %."""
RATE = 0.15
"""Part of the mean that a new equilibrium is."""
EXPLORED = 0.2
"""Part of the matches against lower styles that is equally divided."""
PRIOR = 2.0
"""Drawn games that are added to those of two styles."""


class StyleGame:
    """Results between `styles` styles, and the mean equilibria of the first 1, 2, ... of them."""

    def __init__(self, styles: int) -> None:
        self.styles = styles
        self.results = np.zeros((styles, styles, 3))
        """Decayed wins, draws and losses of style i against style j < i, [K, K, 3]."""
        self._means = np.tril(np.ones((styles, styles))) / np.arange(1, styles + 1)[:, None]  # row m: of m + 1 styles

    @property
    def mixture(self) -> np.ndarray:
        """Probability of each style in the equilibrium of all, [K]."""
        return self._means[-1].copy()

    @property
    def payoff(self) -> np.ndarray:
        """Mean payoff of the row's style against the column's, +1 for a win, -1 for a loss, [K, K]."""
        wins, _, losses = np.moveaxis(self.results, -1, 0)
        below = (wins - losses) / (self.results.sum(-1) + PRIOR)
        difference: np.ndarray = below - below.T
        return difference

    def record(self, style: int, other: int, result: np.ndarray) -> None:
        """Add wins, draws and losses [3] of `style` against a lower one."""
        if not 0 <= other < style < self.styles:
            raise ValueError(f"style={style}: meets the styles below it only, not {other}")
        self.results[style, other] = decayed(self.results[style, other], [int(count) for count in result], MEMORY)

    def solve(self, rng: np.random.Generator) -> None:
        """Move the means towards the equilibria of the present payoffs, with noise from `rng`."""
        noise = np.tril(rng.standard_normal(2 * (self.styles,)), -1) / np.sqrt(self.results.sum(-1) + PRIOR)
        payoff = self.payoff + noise - noise.T
        for last in range(self.styles):
            among = slice(0, last + 1)
            self._means[last, among] += RATE * (equilibrium(payoff[among, among]) - self._means[last, among])

    def opponents(self, style: int) -> np.ndarray:
        """Return the shares [style] of the lower styles among a style's matches with them; empty for style 0."""
        if not style:
            return np.zeros(0)
        return (1.0 - EXPLORED) * self._means[style - 1, :style] + EXPLORED / style

    def metrics(self) -> dict[str, float]:
        """Return every style's probability and payoff against the mixture below it; how many styles are in use."""
        payoff, mixture = self.payoff, self.mixture
        metrics = {f"styles/{style}/probability": float(part) for style, part in enumerate(mixture)}
        for style in range(1, self.styles):
            metrics[f"styles/{style}/payoff"] = float(payoff[style, :style] @ self._means[style - 1, :style])
        used = mixture[mixture > 0.0]
        return metrics | {"styles/effective": float(np.exp(-(used * np.log(used)).sum()))}

    def state_dict(self) -> dict[str, Any]:
        """Return results and means as plain data."""
        return {"results": self.results.tolist(), "means": self._means.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ValueError` for one of another number of styles."""
        results, means = np.array(state["results"], dtype=float), np.array(state["means"], dtype=float)
        if results.shape != self.results.shape or means.shape != self._means.shape:
            raise ValueError(f"styles: stores {len(means)}, this run has {self.styles}")
        self.results, self._means = results, means
