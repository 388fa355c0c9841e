"""Rewards of G games in progress: a weighted sum of final scores and step rewards.

`Scorer` carries the one piece of state that rewards need between phases, the influence on provinces.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Real

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.rewards.phase_rewards import first_influence, influence_after, step_rewards
from sparring.envs.diplomacy.rewards.scoring import FINAL, count_centres

STEPS = ("dense", "strategic")
TERMS = (*FINAL, *STEPS)


def reward_weights(reward: str | Mapping[str, float]) -> dict[str, float]:
    """Return the weight of every term, from one name or a mapping.

    Raises `InputError` for an unknown term, a weight that is not a finite number, and for no term at all.
    """
    if not (isinstance(reward, str | Mapping) and reward):
        raise InputError(f"reward={reward!r}: give a term or weights of several; terms are {', '.join(TERMS)}")
    weights = {reward: 1.0} if isinstance(reward, str) else dict(reward)
    for term, weight in weights.items():
        choose("reward", term, TERMS)
        if isinstance(weight, bool) or not isinstance(weight, Real) or not isfinite(weight):
            raise InputError(f"reward[{term!r}]={weight!r}: give a finite number")
    return weights


class Scorer:
    """Computes the rewards of G games after every phase.

    It keeps the `influence` int64 [G, 75] (`phase_rewards.influence_after`); a copied game needs that of its source.
    """

    influence: Tensor

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)

    def begin(self, state: State, influence: Tensor | None = None) -> None:
        """Start the games at `state`, with the `influence` of their history if it is known."""
        self.influence = first_influence(state["units"]) if influence is None else influence

    def score(self, before: State, after: State, results: Tensor) -> Tensor:
        """Return the rewards float64 [G, 7] of the phase between two positions, with final scores in games it ended."""
        ended = ((after["done"] > 0) & (before["done"] == 0)).unsqueeze(1)
        total = torch.zeros_like(count_centres(after["owner"]), dtype=torch.float64)
        for term, weight in self.weights.items():
            if term in FINAL:
                total += weight * ended * FINAL[term](after["owner"])
            else:
                strategic = term == "strategic"
                total += weight * step_rewards(before, after, results, self.influence, strategic=strategic)
        self.influence = influence_after(self.influence, before, after["units"])
        return total
