"""The reward of both seats for one decision.

Damage and the result are summed over the ticks of the decision; the rest is computed once from the states before and
after it:

    r = dealt * hp_dealt - taken * hp_lost + result
        + approach * (d - d') + shaping * (gamma * phi' - phi)
        + [alive'] * (alive + proximity [d' < 250] + facing [1 < d' < 300 and cos off' > 0.866])

with phi' = 0 after a death. A dead fighter gets no alive, proximity or facing term; its opponent still does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.numpy_dogfight.sensing import Sight, lead_point, sight
from benchmarks.numpy_dogfight.state import Array, State
from sparring.envs.dogfight.config import RewardConfig

FACING_COS = 0.866


@dataclass
class Standing:
    """Quantities of a state that the reward compares, each [N, 2]."""

    distance: Array
    ahead: Array
    """Cosine of the angle between the nose and the line to the opponent."""
    potential: Array


def standing(state: State, *, challenge: bool) -> Standing:
    """Return distance, cosine of the bearing and potential of both seats."""
    views = [sight(state, seat, slice(None), challenge=challenge) for seat in (0, 1)]
    return Standing(
        distance=np.stack([view.distance for view in views], axis=1),
        ahead=np.stack([_ahead(view) for view in views], axis=1),
        potential=np.stack([potential(view) for view in views], axis=1),
    )


def _ahead(view: Sight) -> Array:
    return (view.dx * view.me.cos + view.dy * view.me.sin) / np.maximum(view.distance, 1e-6)


def potential(view: Sight) -> Array:
    """Return the potential: 0.5 cos(nose, lead point) exp(-d / 400) + 0.5 exp(-d / 300)."""
    x, y = lead_point(view)
    cosine = (x * view.me.cos + y * view.me.sin) / np.maximum(np.hypot(x, y), 1e-6)
    return 0.5 * cosine * np.exp(-view.distance / 400.0) + 0.5 * np.exp(-view.distance / 300.0)


def reward(
    before: Standing,
    after: Standing,
    alive: Array,
    damage: Array,
    outcome: Array,
    terminated: Array,
    *,
    weights: RewardConfig,
    gamma: float,
) -> Array:
    """Return rewards [N, 2]; `alive` [N, 2] after the step, `damage` [N, 2] hp dealt, `outcome` [N] as of the batch."""
    seat = np.arange(2)
    won = outcome[:, None] == seat + 1
    lost = (outcome[:, None] > 0) & ~won
    total = weights.damage_dealt * damage - weights.damage_taken * damage[:, ::-1]
    total = total + weights.win * won - weights.lose * lost + weights.draw * (outcome == 0)[:, None]
    total += weights.approach * (before.distance - after.distance) + weights.alive * alive
    total += weights.proximity * (alive & (after.distance < 250.0))
    in_front = (after.distance > 1.0) & (after.distance < 300.0) & (after.ahead > FACING_COS)
    total += weights.facing * (alive & in_front)
    later = np.where(terminated[:, None], 0.0, after.potential)
    return total + weights.shaping * (gamma * later - before.potential)
