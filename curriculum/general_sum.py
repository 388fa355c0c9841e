"""Whether the rewards of a run make its match zero-sum, as results on the convergence of self-play assume.

In a match of two seats that is constant-sum, both seats' rewards add up to the same number whatever happens. Fictitious
play, its population form and regularized descent then have guarantees. A drawn match that pays both seats like a loss
is general-sum: two players that agree to fight on both gain, and a cycle or a bad equilibrium is possible.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

RESULTS, DAMAGE = ("win", "lose", "draw"), ("damage_dealt", "damage_taken")
POTENTIAL = ("shaping", "exposure")
"""Options of potential-based terms, which change no best response: A. Y. Ng, D. Harada and S. Russell, ICML 1999."""


def general_sum_note(config: Any) -> str:
    """Return a line on why the seats' rewards do not add up to a constant in a run's matches; empty if they do.

    `config` belongs to a run; games without weights of win, loss and draw state nothing here.
    """
    reward: Any = getattr(config.env, "reward", None)
    if not all(hasattr(reward, name) for name in RESULTS):
        return ""
    if preset := getattr(config, "reward", ""):
        return f"reward={preset}: is not known to be zero-sum, which results on the convergence of self-play assume"
    if getattr(reward, "zero_sum", False):
        return ""
    reasons = []
    decided, drawn = reward.win - reward.lose, 2.0 * reward.draw
    if not math.isclose(decided, drawn, abs_tol=1e-9):
        reasons.append(f"both seats together get {drawn:g} for a draw and {decided:g} for a decided match")
    dealt, taken = (getattr(reward, name, 0.0) for name in DAMAGE)
    if dealt != taken:
        reasons.append(f"damage_dealt={dealt:g} is not damage_taken={taken:g}")
    recognized = (*RESULTS, *DAMAGE, *POTENTIAL)
    extra = [field.name for field in fields(reward) if field.name not in recognized and getattr(reward, field.name)]
    reasons += [f"what a seat gains by {', '.join(extra)} the other does not lose"] if extra else []
    if not reasons:
        return ""
    return (
        f"general-sum: {'; '.join(reasons)}. Results on the convergence of self-play are of zero-sum games "
        "(docs/algorithms/self_play.md)"
    )
