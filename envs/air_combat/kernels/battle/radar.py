"""Radar tracks of opponents with `rules.CombatOptions.radar`: fields of view, the notch, and track memory.

A radar detects an opponent within 60 degrees of the nose and 40 km. Against ground clutter, an opponent below that
flies across, with less than 30 m/s towards or away, is lost (the notch). Within 1,500 m pilots see all round. A side
shares its tracks. A track without detection is extrapolated with its last velocity for 10 s, then dropped.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Plane

RADAR_COS, RADAR_RANGE = wp.constant(math.cos(rules.RADAR_ANGLE)), wp.constant(rules.RADAR_RANGE)
EYE_RANGE, NOTCH_SPEED = wp.constant(rules.EYE_RANGE), wp.constant(rules.NOTCH_SPEED)
MEMORY_TICKS = wp.constant(rules.TRACK_TICKS)
DT = wp.constant(rules.DT)


@wp.struct
class Track:
    """The other side's track of an aircraft."""

    plane: Plane
    """Last detected state, extrapolated with its velocity."""
    age: int
    """Ticks since detection; beyond the memory for no track."""


@wp.func
def finds(me: Plane, it: Plane) -> bool:
    """Return whether an aircraft detects another, by radar or by eye."""
    gap = it.pos - me.pos
    distance = wp.max(wp.length(gap), 1.0)
    if distance < EYE_RANGE:
        return True
    if distance > RADAR_RANGE or wp.dot(me.nose, gap) < RADAR_COS * distance:
        return False
    return gap[2] <= 0.0 or wp.abs(wp.dot(it.vel, gap)) >= NOTCH_SPEED * distance


@wp.func
def followed(
    planes: wp.array2d[Plane], tracks: wp.array2d[Track], match: int, i: int, ticks: int, size: int, fresh: bool
) -> Track:
    """Return the track of aircraft `i` after `ticks` more; a `fresh` one is without memory."""
    track = tracks[match, i]
    foes = wp.where(i < size, size, 0)
    visible = bool(False)
    for j in range(foes, foes + size):
        if planes[match, j].hp > 0.0:
            visible = visible or finds(planes[match, j], planes[match, i])
    if visible:
        track.plane = planes[match, i]
        track.age = 0
    else:
        if fresh:
            track.age = MEMORY_TICKS + 1
        track.age = wp.min(track.age + ticks, MEMORY_TICKS + 1)
        track.plane.pos = track.plane.pos + track.plane.vel * (float(ticks) * DT)
    return track
