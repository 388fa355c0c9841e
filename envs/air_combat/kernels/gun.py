"""Two gun models: a cone with damage that falls with range, and single rounds with flight time and spread."""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Plane

DT = wp.constant(rules.DT)
NEAR, FAR = wp.constant(rules.CONE_NEAR), wp.constant(rules.CONE_FAR)
CONE_COS = wp.constant(rules.CONE_COS)
CONE_DAMAGE = wp.constant(rules.CONE_RATE * rules.DT)
SLOTS = wp.constant(rules.SLOTS)
BURST = wp.constant(rules.BURST)
BURST_TICKS = wp.constant(rules.BURST_TICKS)
ROUND_SPEED = wp.constant(rules.ROUND_SPEED)
ROUND_TICKS = wp.constant(rules.ROUND_TICKS)
ROUND_KEPT = wp.constant(math.exp(-rules.ROUND_DRAG * rules.DT))  # Part of the speed left after a tick.
ROUND_DROP = wp.constant(9.80665 * rules.DT)  # m/s in a tick.
SPREAD = wp.constant(rules.ROUND_SPREAD)
HIT_SQUARED = wp.constant(rules.HIT_RADIUS**2)
HIT_DAMAGE = wp.constant(rules.HIT_DAMAGE + 1.0e-6)  # five fifths in float32 would leave 3e-8 of a life


@wp.struct
class Round:
    """A burst in the air."""

    pos: wp.vec3
    vel: wp.vec3
    life: int
    """Ticks left; 0 marks a free slot."""


@wp.func
def cone_damage(me: Plane, it: Plane) -> float:
    """Return the damage of a tick of the cone to `it`, of a life of 1."""
    gap = it.pos - me.pos
    distance = wp.length(gap)
    if distance < NEAR or distance > FAR or wp.dot(me.nose, gap) < CONE_COS * distance:
        return 0.0
    return CONE_DAMAGE * (1.0 - 0.75 * (distance - NEAR) / (FAR - NEAR))  # a quarter is left at the far end


@wp.func
def fire(rounds: wp.array2d[Round], match: int, seat: int, me: Plane, rng: wp.uint32) -> Plane:
    """Put a burst into the air and return the plane with fewer rounds; its slot is free, as older bursts have ended."""
    right = wp.cross(me.nose, me.up)
    spread = right * (wp.randn(rng) * SPREAD) + me.up * (wp.randn(rng) * SPREAD)
    burst = Round()
    burst.pos = me.pos
    burst.vel = me.vel + wp.normalize(me.nose + spread) * ROUND_SPEED
    burst.life = ROUND_TICKS
    rounds[match, seat * SLOTS + (me.rounds // BURST) % SLOTS] = burst
    me.rounds = me.rounds - BURST
    return me


@wp.func
def fly_rounds(rounds: wp.array2d[Round], match: int, seat: int, it: Plane, before: wp.vec3) -> float:
    """Move a seat's bursts by a tick and return the damage to `it`, which was at `before` at its start.

    A burst hits when its path relative to the opponent comes within the hit radius; it then ends.
    """
    damage = float(0.0)
    for k in range(SLOTS):
        burst = rounds[match, seat * SLOTS + k]
        if burst.life > 0:
            start = burst.pos - before
            burst.vel = burst.vel * ROUND_KEPT + wp.vec3(0.0, 0.0, ROUND_DROP)
            burst.pos = burst.pos + burst.vel * DT
            path = (burst.pos - it.pos) - start  # relative to the opponent, in this tick
            part = wp.clamp(-wp.dot(start, path) / wp.max(wp.dot(path, path), 1.0e-6), 0.0, 1.0)
            miss = start + path * part  # the closest approach: part minimizes |start + part path|
            burst.life = burst.life - 1
            if wp.dot(miss, miss) < HIT_SQUARED:
                damage = damage + HIT_DAMAGE
                burst.life = 0
            rounds[match, seat * SLOTS + k] = burst
    return damage
