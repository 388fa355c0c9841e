"""The reward of one seat for one step; all weights are configurable.

Damage and results are events of the step's ticks. Approach, proximity, facing, alive and shaping compare the states
before and after the step, once per decision whatever the action repeat. A dead fighter does not get alive, proximity or
facing. Shaping is potential-based (Ng, Harada and Russell, 1999): `weight * (gamma * phi' - phi)`. The potential is
`phi = 0.5 u cos(angle to the lead point) exp(-d / 400) + 0.5 exp(-d / 300)`, and phi' = 0 where a death ends the match.
`u = 1 - exposure (1 - e)`, where e in [0, 1] is 1 if a shot along the nose would pass the opponent's rear armour.
Without it the potential is highest right behind a target that cannot be hurt from there.

With `zero_sum` a seat gets (r - r_opponent) / 2, so every term cancels between the seats. The time limit is then also
an ending with phi' = 0: over a match, shaping adds only -phi of its start.
"""

import warp as wp

from sparring.envs.dogfight.kernels.sensing import Sight, angle_to, lead_point, look
from sparring.envs.dogfight.kernels.state import Fighter, Physics, RewardWeights, Settings

PROXIMITY_DISTANCE = wp.constant(250.0)  # m
FACING_DISTANCE = wp.constant(300.0)  # m
EXPOSURE_RAMP = wp.constant(0.5)  # Of a cosine: e rises linearly, since a step would have no gradient to follow.
FACING_MIN_DISTANCE = wp.constant(1.0)  # m; closer, the direction is undefined.
FACING_COS = wp.constant(0.866)  # cos 30 degrees, in the digits of the original.


@wp.func
def potential(me: Fighter, it: Fighter, s: Sight, p: Physics, exposure: float) -> float:
    """Return the potential in [-0.5, 1]: high when close, with the nose on the lead point."""
    aim = wp.cos(angle_to(me, lead_point(s, it, p, s.distance)))
    exposed = wp.clamp((wp.cos(p.rear_aspect_cone) - s.along) / EXPOSURE_RAMP, 0.0, 1.0)
    aim = aim * (1.0 - exposure * (1.0 - exposed))
    return 0.5 * aim * wp.exp(-s.distance / 400.0) + 0.5 * wp.exp(-s.distance / 300.0)


@wp.struct
class Geometry:
    """Quantities that the reward compares before and after a step."""

    distance: float
    ahead_a: float
    ahead_b: float
    """Cosine of the angle from each seat's nose to the other."""
    potential_a: float
    potential_b: float


@wp.func
def measure(a: Fighter, b: Fighter, p: Physics, w: RewardWeights, settings: Settings) -> Geometry:
    """Measure a state; the potentials only if shaping has a weight."""
    sight_a = look(a, b, settings.challenge)
    sight_b = look(b, a, settings.challenge)
    g = Geometry()
    g.distance = sight_a.distance
    g.ahead_a = sight_a.ahead
    g.ahead_b = sight_b.ahead
    if w.shaping != 0.0:
        g.potential_a = potential(a, b, sight_a, p, w.exposure)
        g.potential_b = potential(b, a, sight_b, p, w.exposure)
    return g


@wp.func
def step_reward(
    w: RewardWeights, before: Geometry, after: Geometry, seat: int, dealt: int, taken: int, alive: bool
) -> float:
    """Return one seat's reward without the result; `dealt` and `taken` are hp of this step."""
    gain = wp.where(
        seat == 0,
        w.gamma * after.potential_a - before.potential_a,
        w.gamma * after.potential_b - before.potential_b,
    )
    ahead = wp.where(seat == 0, after.ahead_a, after.ahead_b)
    r = w.damage_dealt * float(dealt) - w.damage_taken * float(taken)
    r += w.approach * (before.distance - after.distance) + w.shaping * gain
    if not alive:
        return r
    r += w.alive
    if after.distance < PROXIMITY_DISTANCE:
        r += w.proximity
    if after.distance > FACING_MIN_DISTANCE and after.distance < FACING_DISTANCE and ahead > FACING_COS:
        r += w.facing
    return r


@wp.func
def result_reward(w: RewardWeights, outcome: int, seat: int) -> float:
    """Return the reward for the result; `outcome` is 0 for a draw, 1 + the winning seat, negative while playing."""
    if outcome < 0:
        return 0.0
    if outcome == 0:
        return w.draw
    return wp.where(outcome == seat + 1, w.win, -w.lose)
