"""The reward of one seat for one step; every weight is configuration.

Damage and results are events of the step's ticks. Approach, proximity, facing, alive and shaping compare the states
before and after the step, once per decision whatever the action repeat. Shaping is potential-based (Ng, Harada and
Russell, 1999): weight * (gamma * phi' - phi) with
phi = 0.5 cos(angle to the lead point) exp(-d / 400) + 0.5 exp(-d / 300), and phi' = 0 where a death ends the match.
"""

import math

import warp as wp

from envs.dogfight.sensing import Sight, angle_to, lead_point
from envs.dogfight.state import Fighter, Physics, RewardWeights

PROXIMITY_DISTANCE = wp.constant(250.0)
FACING_DISTANCE = wp.constant(300.0)
FACING_COS = wp.constant(math.cos(math.radians(30.0)))


@wp.func
def potential(me: Fighter, it: Fighter, s: Sight, p: Physics) -> float:
    """phi in [-0.5, 1]: high when close with the nose on the lead point."""
    aim = wp.cos(angle_to(me, lead_point(s, it, p, 1.0)))
    return 0.5 * aim * wp.exp(-s.distance / 400.0) + 0.5 * wp.exp(-s.distance / 300.0)


@wp.func
def step_reward(
    w: RewardWeights,
    before: float,
    after: float,
    s: Sight,
    distance_before: float,
    dealt: int,
    taken: int,
    alive: bool,
) -> float:
    """Everything but the result: potentials before and after, the sight after, hp dealt and taken."""
    r = w.damage_dealt * float(dealt) - w.damage_taken * float(taken)
    r += w.approach * (distance_before - s.distance) + w.shaping * (w.gamma * after - before)
    if alive:
        r += w.alive
    if s.distance < PROXIMITY_DISTANCE:
        r += w.proximity
    if s.distance < FACING_DISTANCE and s.ahead > FACING_COS:
        r += w.facing
    return r


@wp.func
def result_reward(w: RewardWeights, outcome: int, seat: int) -> float:
    """Win, lose or draw; `outcome` is 0 for a draw, 1 or 2 for the seat that won, negative while playing."""
    if outcome < 0:
        return 0.0
    if outcome == 0:
        return w.draw
    return wp.where(outcome == seat + 1, w.win, -w.lose)
