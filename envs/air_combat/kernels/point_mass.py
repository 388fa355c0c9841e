"""One tick of the point mass: a velocity, a lift direction, and load factor and roll rate behind first-order lags.

The velocity is a vector and the lift direction is carried along it without twist, which avoids singular attitudes. A
tick turns the velocity by lift for half of it, moves under gravity, thrust and drag, and turns for the other half
(Strang's splitting). Turning keeps the speed, and the middle step keeps m g h + m v^2 / 2 exactly. Without thrust and
drag, the energy is constant at any length of the tick.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16, fighter
from sparring.envs.air_combat.kernels.state import Command, Plane, Scales
from sparring.envs.air_combat.kernels.tables import (
    AirframeTables,
    cell,
    commanded_power,
    drag_rise,
    power_rate,
    standard_air,
    thrust_lbf,
)

DT = wp.constant(rules.DT)
G = wp.constant(fighter.STANDARD_GRAVITY)
PER_FT = wp.constant(1.0 / f16.FT)
NEWTONS = wp.constant(fighter.POUND_FORCE)
LIFT_AT_ZERO = wp.constant(fighter.LIFT_AT_ZERO)
ALPHA_PER_LIFT = wp.constant(math.radians(1.0 / fighter.LIFT_SLOPE))
POLAR_0, POLAR_1, POLAR_2 = (wp.constant(value) for value in fighter.POLAR)
HIGH_0, HIGH_1, HIGH_2, HIGH_3, HIGH_4 = (wp.constant(value) for value in fighter.POLAR_HIGH)
POLAR_FROM = wp.constant(fighter.POLAR_FROM)
LOAD_STEP = wp.constant(fighter.LOAD_RATE * rules.DT)
LOAD_PART = wp.constant(1.0 - math.exp(-rules.DT / fighter.LOAD_LAG_S))  # Part of the way covered in a tick.
ROLL_PART = wp.constant(1.0 - math.exp(-rules.DT / fighter.ROLL_LAG_S))
ROLL_PRESSURE = wp.constant(fighter.ROLL_PRESSURE)
ROLL_LOST = wp.constant(fighter.ROLL_LOST)
SLOWEST = wp.constant(1.0)  # m/s; keeps a direction at standstill.


@wp.func
def drag_coefficient(lift: float) -> float:
    """Return the drag coefficient of the F-16 at a lift coefficient, at low speed."""
    drag = POLAR_0 + lift * (POLAR_1 + lift * POLAR_2)
    if lift > POLAR_FROM:
        high = HIGH_0 + lift * (HIGH_1 + lift * (HIGH_2 + lift * (HIGH_3 + lift * HIGH_4)))
        drag = wp.max(drag, high)
    return drag


@wp.func
def polar(tables: AirframeTables, lift: float, mach: float) -> wp.vec2:
    """Return alpha (rad) and the drag coefficient at a lift coefficient."""
    if tables.by_mach.shape[0] > 0:
        at = wp.clamp(mach * 10.0, 0.0, 20.0)  # in cells of Mach 0.1
        i = cell(at, 19)
        row = tables.by_mach[i] * (1.0 - (at - float(i))) + tables.by_mach[i + 1] * (at - float(i))
        return wp.vec2(lift / row[0], row[1] + row[2] / row[0] * lift * lift)  # C0 + e a alpha^2, alpha = lift / a
    rise = drag_rise(mach)
    return wp.vec2((lift - LIFT_AT_ZERO) * ALPHA_PER_LIFT, drag_coefficient(lift) + rise[0] + rise[1] * lift * lift)


@wp.func
def fly_point_mass(tables: AirframeTables, plane: Plane, command: Command, scales: Scales) -> Plane:
    """Return the plane after a tick."""
    speed = wp.max(wp.length(plane.vel), SLOWEST)
    ahead = plane.vel / speed
    lifting = wp.normalize(plane.up - ahead * wp.dot(plane.up, ahead))  # across the velocity
    height = -plane.pos[2]
    air = standard_air(height)
    mach = speed / air[1]
    pressure = 0.5 * air[0] * speed * speed  # rho V^2 / 2, Pa
    surface = pressure * tables.wing_area / scales.mass  # Forces are those on the nominal mass.
    push = scales.thrust * NEWTONS * thrust_lbf(tables, mach, height * PER_FT, plane.power) / scales.mass
    # Load factor: lag, rate limit, and the lift that there is at this speed.
    raised = push * wp.dot(plane.nose, lifting)  # sin(alpha) of the last tick
    wanted = wp.min(command.load, tables.load_most)
    load = plane.load + wp.clamp((wanted - plane.load) * LOAD_PART, -LOAD_STEP, LOAD_STEP)
    lift = wp.clamp((load * tables.weight - raised) / surface, tables.lift_least, tables.lift_most)
    load = (lift * surface + raised) / tables.weight  # what the clamped lift gives, g
    flown = polar(tables, lift, mach)
    plane.alpha = flown[0]
    up = wp.sin(plane.alpha)
    level = wp.sqrt(1.0 - up * up)  # cos(alpha)
    drag = scales.drag * surface * flown[1]  # N
    thrust = (push * level - drag) * tables.inverse_mass
    # Roll about the velocity.
    grip = wp.clamp(pressure / ROLL_PRESSURE, 0.1, 1.0) * (
        1.0 - ROLL_LOST * wp.clamp(lift / tables.lift_most, 0.0, 1.0)
    )
    plane.roll_rate = plane.roll_rate + (command.roll_rate * grip - plane.roll_rate) * ROLL_PART
    roll = plane.roll_rate * DT
    lifting = lifting * (1.0 - 0.5 * roll * roll) + wp.cross(ahead, lifting) * roll  # cos and sin to second order
    # Half a turn, the move, half a turn. A turn rotates both directions in their plane, by atan(half / speed).
    half = load * G * 0.5 * DT  # m/s gained across the path in half a tick
    part = 1.0 / wp.sqrt(speed * speed + half * half)
    turned = (ahead * speed + lifting * half) * part
    lifting = (lifting * speed - ahead * half) * part
    moved = turned * (speed + thrust * DT) + wp.vec3(0.0, 0.0, G * DT)
    plane.pos = plane.pos + (turned * speed + moved) * (0.5 * DT)  # the mean velocity: keeps m g h + m v^2 / 2
    speed = wp.max(wp.length(moved), SLOWEST)
    ahead = moved / speed
    lifting = lifting - ahead * wp.dot(lifting, ahead)
    part = 1.0 / wp.sqrt(speed * speed + half * half)
    turned = (ahead * speed + lifting * half) * part
    lifting = (lifting * speed - ahead * half) * part
    plane.vel = turned * speed
    plane.load = load
    plane.nose = turned * level + lifting * up
    plane.up = lifting * level - turned * up
    plane.power = plane.power + DT * power_rate(plane.power, commanded_power(command.throttle))
    return plane
