"""The infrared missile: its flight, its seeker, flares, and the fuze (float64: `benchmarks/air_combat/reference`).

The seeker follows the brightest source within its field of view about its line of sight: intensity over distance
squared, of the opposing aircraft and of their flares. Sources that are too faint or beyond the gimbal are not seen. The
missile then flies straight on, holds its line of sight, and follows what comes into view.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import missile as data
from sparring.envs.air_combat.kernels.state import Plane
from sparring.envs.air_combat.kernels.tables import standard_air
from sparring.envs.air_combat.kernels.view import direction_of

M = data.MISSILE
DT = wp.constant(rules.DT)
G = wp.constant(9.80665)
LAUNCH_MASS, BURN_RATE = wp.constant(M.launch_mass), wp.constant(M.propellant / M.burn_s)
BURN_S, PUSH = wp.constant(M.burn_s), wp.constant(M.propellant / M.burn_s * M.exhaust)
AREA = wp.constant(M.area)
DRAG_SLOW, DRAG_PEAK, DRAG_LEAST = wp.constant(M.drag_slow), wp.constant(M.drag_peak), wp.constant(M.drag_least)
RISE_MACH, PEAK_MACH = wp.constant(M.rise_mach), wp.constant(M.peak_mach)
DRAG_FALL = wp.constant(M.drag_fall)
NORMAL_MOST, NORMAL_SLOPE = wp.constant(M.normal_most), wp.constant(M.normal_slope)
ACROSS_MOST = wp.constant(M.load_most * 9.80665)
LAG_PART = wp.constant(1.0 - math.exp(-rules.DT / M.lag_s))  # Part of the way covered in a tick.
NAVIGATION = wp.constant(M.navigation)
LIFE_TICKS, LEAST_SPEED = wp.constant(round(M.life_s / rules.DT)), wp.constant(M.least_speed)
ARMING_TICKS = wp.constant(round(data.ARMING_S / rules.DT))
FUZE_RADIUS, LETHAL_RADIUS = wp.constant(data.FUZE_RADIUS), wp.constant(data.LETHAL_RADIUS)
VIEW_COS, GIMBAL_COS = wp.constant(math.cos(data.VIEW_ANGLE)), wp.constant(math.cos(data.GIMBAL_ANGLE))
FAINTEST = wp.constant(1.0 / data.LOCK_RANGE**2)  # 1/m^2: intensity 1 at the lock range.
FRONT, IDLE = wp.constant(data.FRONT), wp.constant(data.IDLE)
MILITARY, AFTERBURNER = wp.constant(data.MILITARY), wp.constant(data.AFTERBURNER)
FLARE_TICKS, FLARE_INTENSITY = wp.constant(round(data.FLARE_BURN_S / rules.DT)), wp.constant(data.FLARE_INTENSITY)
FLARE_RISE = wp.constant(rules.DT / data.FLARE_RISE_S)
FLARE_FADE = wp.constant(rules.DT / data.FLARE_FADE_S)
FLARE_DRAG = wp.constant(9.80665 / data.FLARE_TERMINAL**2)
FLARE_SLOTS = wp.constant(data.FLARE_SLOTS)
LOST = wp.constant(-1)


@wp.struct
class Missile:
    """A missile in the air."""

    pos: wp.vec3
    vel: wp.vec3
    across: wp.vec3
    """Acceleration across its path behind the lag, m/s^2."""
    line: wp.vec3
    """Unit vector of the seeker's line of sight."""
    age: int
    """Ticks since the launch; 0 marks a free slot."""
    target: int
    """Aircraft that the seeker follows; from the number of aircraft on, a flare; LOST for none."""


@wp.struct
class Flare:
    """A flare in the air."""

    pos: wp.vec3
    vel: wp.vec3
    life: int
    """Ticks left; 0 marks a free slot."""


@wp.func
def aircraft_brightness(it: Plane, gap: wp.vec3) -> float:
    """Return intensity over distance squared of an aircraft at `gap` (m) from the seeker."""
    square = wp.max(wp.dot(gap, gap), 1.0)
    behind = 0.5 * (1.0 + wp.dot(direction_of(it), gap) / wp.sqrt(square))  # 1 from behind, 0 from ahead
    hot = IDLE + (MILITARY - IDLE) * it.power * 0.02  # linear between idle at 0 % and military power at 50 %
    if it.power > 50.0:
        hot = MILITARY + (AFTERBURNER - MILITARY) * (it.power - 50.0) * 0.02
    return hot * (FRONT + (1.0 - FRONT) * behind * behind) / square


@wp.func
def flare_brightness(flare: Flare, gap: wp.vec3) -> float:
    """Return intensity over distance squared of a flare."""
    age = float(FLARE_TICKS - flare.life)  # ticks
    part = wp.min(wp.min(age * FLARE_RISE, float(flare.life) * FLARE_FADE), 1.0)
    return FLARE_INTENSITY * part / wp.max(wp.dot(gap, gap), 1.0)


@wp.func
def fly_flares(flares: wp.array2d[Flare], match: int) -> None:
    """Move every flare of a match by a tick."""
    for k in range(flares.shape[1]):
        flare = flares[match, k]
        if flare.life > 0:
            vel = flare.vel - flare.vel * (FLARE_DRAG * wp.length(flare.vel) * DT) + wp.vec3(0.0, 0.0, G * DT)
            flare.pos = flare.pos + (flare.vel + vel) * (0.5 * DT)
            flare.vel = vel
            flare.life = flare.life - 1
            flares[match, k] = flare


@wp.func
def seek(planes: wp.array2d[Plane], flares: wp.array2d[Flare], match: int, foes: int, size: int, m: Missile) -> Missile:
    """Return the missile with the brightest source in view; `foes` is the first opposing aircraft of `size`."""
    ahead = m.vel / wp.max(wp.length(m.vel), 1.0)
    m.target = LOST
    brightest = FAINTEST
    aircraft = 2 * size
    for i in range(foes, foes + size):
        it = planes[match, i]
        gap = it.pos - m.pos
        distance = wp.length(gap)
        if it.hp > 0.0 and wp.dot(m.line, gap) > VIEW_COS * distance and wp.dot(ahead, gap) > GIMBAL_COS * distance:
            bright = aircraft_brightness(it, gap)
            if bright > brightest:
                brightest = bright
                m.target = i
    slots = flares.shape[1] // aircraft
    for i in range(foes * slots, (foes + size) * slots):
        flare = flares[match, i]
        if flare.life > 0:
            gap = flare.pos - m.pos
            distance = wp.length(gap)
            if wp.dot(m.line, gap) > VIEW_COS * distance and wp.dot(ahead, gap) > GIMBAL_COS * distance:
                bright = flare_brightness(flare, gap)
                if bright > brightest:
                    brightest = bright
                    m.target = aircraft + i
    return m


@wp.func
def shortened(vector: wp.vec3, ahead: wp.vec3, most: float) -> wp.vec3:
    """Return the part of a vector across a unit vector, shortened to `most`."""
    part = vector - ahead * wp.dot(vector, ahead)
    return part * wp.min(1.0, most / wp.max(wp.length(part), 1.0e-9))


@wp.func
def fly_missile(m: Missile, visible: bool, target: wp.vec3, velocity: wp.vec3) -> Missile:
    """Return the missile after a tick, homing on a place and velocity if `visible`, else flying straight on."""
    speed = wp.max(wp.length(m.vel), 1.0)
    ahead = m.vel / speed
    air = standard_air(-m.pos[2])
    pressure = 0.5 * air[0] * speed * speed * AREA  # q S, N
    mach = speed / air[1]
    age = float(m.age) * DT
    mass = LAUNCH_MASS - BURN_RATE * wp.min(age + 0.5 * DT, BURN_S)  # in the middle of the tick
    most = wp.min(ACROSS_MOST, NORMAL_MOST * pressure / mass)  # m/s^2: structure, and what the fins give
    demand = wp.vec3(0.0, 0.0, -G)  # without a target it compensates for gravity
    if visible:
        gap = target - m.pos
        relative = velocity - m.vel
        distance = wp.max(wp.length(gap), 1.0)
        line = gap / distance
        closing = -wp.dot(line, relative)
        # a = N closing (omega x line), with omega = line x relative / distance.
        demand = demand + wp.cross(wp.cross(line, relative), line) * (NAVIGATION * closing / distance)
        m.line = line
    across = m.across + (shortened(demand, ahead, most) - m.across) * LAG_PART
    across = shortened(across, ahead, most)
    drag = DRAG_SLOW + (DRAG_PEAK - DRAG_SLOW) * wp.clamp((mach - RISE_MACH) / (PEAK_MACH - RISE_MACH), 0.0, 1.0)
    if mach > PEAK_MACH:
        drag = wp.max(DRAG_PEAK - DRAG_FALL * (mach - PEAK_MACH), DRAG_LEAST)
    normal = mass * wp.length(across)  # N
    along = -drag * pressure - normal * normal / (NORMAL_SLOPE * pressure)  # the second is the induced drag
    if age < BURN_S - 0.5 * DT:
        along = along + PUSH
    turned = wp.normalize(m.vel + across * DT) * speed  # a turn keeps the speed
    vel = turned + ahead * (along / mass * DT) + wp.vec3(0.0, 0.0, G * DT)
    m.pos = m.pos + (m.vel + vel) * (0.5 * DT)
    m.vel = vel
    m.across = across
    m.age = m.age + 1
    if m.age >= LIFE_TICKS or m.pos[2] >= 0.0 or (age > BURN_S and wp.length(vel) < LEAST_SPEED):
        m.age = 0
    return m


@wp.func
def burst_damage(gap: wp.vec3, path: wp.vec3) -> float:
    """Return the damage of a warhead to an aircraft, which moved by `path` from `gap` relative to it in a tick.

    Negative while the fuze waits: out of reach, or the least distance lies ahead.
    """
    part = -wp.dot(gap, path) / wp.max(wp.dot(path, path), 1.0e-6)
    if part >= 1.0:  # the least distance is yet to come
        return -1.0
    miss = wp.length(gap + path * wp.max(part, 0.0))
    if miss > FUZE_RADIUS:
        return -1.0
    return wp.clamp((FUZE_RADIUS - miss) / (FUZE_RADIUS - LETHAL_RADIUS), 0.0, 1.0)
