"""Relative geometry of two fighters, shared by bots, observations and rewards.

Angles stay cosines and sines where comparisons suffice; only steering and observations need an arc tangent.
"""

import warp as wp

from sparring.envs.dogfight.kernels.physics import wrap_dx
from sparring.envs.dogfight.kernels.state import Fighter, Physics


@wp.struct
class Sight:
    """The opponent as seen by one fighter (in the comments, `me` and `it`)."""

    dx: float
    dy: float
    """Vector to it, m (the short way round where the arena wraps)."""
    distance: float
    ahead: float
    """Cosine of `off`, the signed angle from my nose to it."""
    side: float
    """Sine of `off`; positive when it is on my left."""
    its_ahead: float
    """Cosine of the angle from its nose to me."""
    its_side: float
    along: float
    """My heading . its heading."""
    closing: float
    """Rate at which the distance shrinks, m/s."""


@wp.func
def distance(a: Fighter, b: Fighter, challenge: bool) -> float:
    """Return the distance between two fighters, m."""
    dx = wrap_dx(b.x - a.x, challenge)
    dy = b.y - a.y
    return wp.sqrt(dx * dx + dy * dy)


@wp.func
def look(me: Fighter, it: Fighter, challenge: bool) -> Sight:
    """Return the geometry of the pair as seen by `me`; a distance of zero counts as 1e-6 m."""
    s = Sight()
    s.dx = wrap_dx(it.x - me.x, challenge)
    s.dy = it.y - me.y
    s.distance = wp.max(wp.sqrt(s.dx * s.dx + s.dy * s.dy), 1.0e-6)
    ux = s.dx / s.distance
    uy = s.dy / s.distance
    s.ahead = me.cos_yaw * ux + me.sin_yaw * uy
    s.side = me.cos_yaw * uy - me.sin_yaw * ux
    s.its_ahead = -(it.cos_yaw * ux + it.sin_yaw * uy)
    s.its_side = it.sin_yaw * ux - it.cos_yaw * uy
    s.along = me.cos_yaw * it.cos_yaw + me.sin_yaw * it.sin_yaw
    s.closing = me.speed * s.ahead + it.speed * s.its_ahead
    return s


@wp.func
def lead_point(s: Sight, it: Fighter, p: Physics, reach: float) -> wp.vec2:
    """Return the point to aim at, relative to `me`, m: its position when a bullet has flown `reach` metres."""
    # First order: the time of flight to its present position, not to the point of interception.
    time = reach / p.bullet_speed  # s
    return wp.vec2(s.dx + it.speed * it.cos_yaw * time, s.dy + it.speed * it.sin_yaw * time)


@wp.func
def energy(f: Fighter, gravity: float) -> float:
    """Return twice the specific energy, v^2 + 2 g y, m^2/s^2."""
    return f.speed * f.speed + 2.0 * gravity * f.y


@wp.func
def angle_to(me: Fighter, v: wp.vec2) -> float:
    """Return the signed angle from the nose of `me` to a direction, rad in [-pi, pi]."""
    return wp.atan2(me.cos_yaw * v[1] - me.sin_yaw * v[0], me.cos_yaw * v[0] + me.sin_yaw * v[1])
