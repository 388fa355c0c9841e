"""One tick of the six-degree-of-freedom F-16: the textbook's forces, an inner loop, actuators, and the integration.

Forces and moments are the book's, in its units within this file (float64: `benchmarks/air_combat/reference`). The state
is integrated in world axes with a quaternion, which does not have singular attitudes. Velocity and rates use
Adams-Bashforth, `x_(k+1) = x_k + h (3 f_k - f_(k-1)) / 2`, position and attitude the trapezoidal rule. This is second
order with one evaluation of the forces per tick.

The inner loop turns commands of load factor and roll rate into surfaces by incremental dynamic inversion. It moves each
surface by the angular acceleration error over the surface's effectiveness, `du = (wanted - actual) / (d rate / d u)`.
Sideslip is held at zero and alpha within limits.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16
from sparring.envs.air_combat.kernels.state import Command, Plane, Scales
from sparring.envs.air_combat.kernels.tables import (
    AirframeTables,
    book_air,
    cell,
    commanded_power,
    drag_rise,
    power_rate,
    thrust_lbf,
)

DT = wp.constant(rules.DT)
FT = wp.constant(f16.FT)
PER_FT = wp.constant(1.0 / f16.FT)
DEGREES = wp.constant(180.0 / math.pi)
GRAVITY = wp.constant(f16.GRAVITY)
INVERSE_MASS = wp.constant(f16.INVERSE_MASS)
AREA = wp.constant(f16.WING_AREA)
SPAN = wp.constant(f16.SPAN)
CHORD = wp.constant(f16.CHORD)
CG_STABLE = wp.constant(f16.STABLE_CG)
CG_REFERENCE = wp.constant(f16.REFERENCE_CG)
ENGINE = wp.constant(f16.ENGINE_MOMENTUM)
C1, C2, C3, C4, C5, C6, C7, C8, C9 = (wp.constant(value) for value in f16.INERTIA)
SLOWEST = wp.constant(f16.LEAST_SPEED)
ELEVATOR_MOST, AILERON_MOST, RUDDER_MOST = (wp.constant(limit) for limit in f16.SURFACE_LIMITS)
ELEVATOR_STEP, AILERON_STEP, RUDDER_STEP = (wp.constant(rate * rules.DT) for rate in f16.SURFACE_RATES)
ACTUATOR = wp.constant(1.0 - math.exp(-rules.DT / f16.SURFACE_LAG_S))  # Part of the way covered in a tick.
ALPHA_MOST, ALPHA_LEAST = wp.constant(math.radians(25.0)), wp.constant(math.radians(-8.0))
LOAD_GAIN = wp.constant(1.0 / 0.4)  # 1/s; the commands' time constants follow.
ALPHA_GAIN = wp.constant(1.0 / 0.3)
BRAKE = wp.constant(8.0)  # Degrees of elevator that stop a pitch in time: its rate is limited.
BETA_GAIN = wp.constant(1.2)
PITCH_GAIN, ROLL_GAIN, YAW_GAIN = wp.constant(5.0), wp.constant(4.0), wp.constant(4.0)
PITCH_MOST = wp.constant(1.2)  # rad/s.
ROLL_LOST = wp.constant(0.75)  # Part of the roll rate lost at the limit of alpha.
ROLL_PRESSURE = wp.constant(125.0)  # Dynamic pressure, lbf/ft^2, below which the roll rate falls.
WEAKEST = wp.constant(0.002)  # Effect of a surface, 1/degree, below which its division is held.


@wp.struct
class Motion:
    """Aerodynamic forces and moments, in the book's units."""

    force: wp.vec3
    """Specific force, ft/s^2, body axes, without gravity."""
    rotation: wp.vec3
    """Angular acceleration, rad/s^2, body axes."""
    effects: wp.vec3
    """Angular acceleration per degree of elevator (pitch), aileron (roll) and rudder (yaw)."""
    lift_slope: float
    """Change of the load factor with alpha, g/rad."""
    pressure: float
    """Dynamic pressure, lbf/ft^2."""


@wp.func
def motion(
    tables: AirframeTables,
    air: wp.vec3,
    rates: wp.vec3,
    surfaces: wp.vec3,
    height_ft: float,
    power: float,
    cg: float,
    scales: Scales,
) -> Motion:
    """Return forces and moments; `air` is the velocity through the air in body axes, ft/s."""
    m = Motion()
    speed = wp.max(wp.length(air), SLOWEST)
    alpha = wp.atan2(air[2], air[0]) * DEGREES  # degrees, as the tables
    beta = wp.asin(wp.clamp(air[1] / speed, -1.0, 1.0)) * DEGREES
    atmosphere = book_air(height_ft)
    mach = speed / atmosphere[1]  # atmosphere: density in slug/ft^3, speed of sound in ft/s
    m.pressure = 0.5 * atmosphere[0] * speed * speed  # q = rho V^2 / 2
    elevator = surfaces[0] / 12.0  # in cells of the table
    ailerons = surfaces[1] / 20.0  # in units of the table of increments
    rudders = surfaces[2] / 30.0
    # Cells of the tables.
    a = wp.clamp(alpha * 0.2 + 2.0, 0.0, 11.0)
    i = cell(a, 10)
    t = a - float(i)
    k = cell(elevator + 2.0, 3)
    e = elevator + 2.0 - float(k)  # The outer cells are extrapolated by one degree, the travel beyond the table.
    side = wp.where(beta < 0.0, -1.0, 1.0)
    slip = wp.clamp(beta * side * 0.2, 0.0, 6.0)  # |beta| in cells of 5 degrees; these tables are odd in beta
    j = cell(slip, 5)
    b = slip - float(j)
    skew = wp.clamp(beta * 0.1 + 3.0, 0.0, 6.0)  # beta in cells of 10 degrees
    s = cell(skew, 5)
    c = skew - float(s)
    row = tables.by_alpha[i] * (1.0 - t) + tables.by_alpha[i + 1] * t
    weak = tables.by_elevator[i, k] * (1.0 - t) + tables.by_elevator[i + 1, k] * t
    strong = tables.by_elevator[i, k + 1] * (1.0 - t) + tables.by_elevator[i + 1, k + 1] * t
    pitch = weak + (strong - weak) * e
    low = tables.by_slip[i, j] * (1.0 - t) + tables.by_slip[i + 1, j] * t
    high = tables.by_slip[i, j + 1] * (1.0 - t) + tables.by_slip[i + 1, j + 1] * t
    slips = (low + (high - low) * b) * side
    left = tables.by_beta[i, s] * (1.0 - t) + tables.by_beta[i + 1, s] * t
    right = tables.by_beta[i, s + 1] * (1.0 - t) + tables.by_beta[i + 1, s + 1] * t
    increments = left + (right - left) * c
    # Coefficients, body axes.
    p = rates[0]
    q = rates[1]
    r = rates[2]
    span = SPAN / (2.0 * speed)  # b / 2V makes the rates of roll and yaw non-dimensional,
    chord = CHORD / (2.0 * speed)  # and c / 2V that of pitch
    slip_rad = beta / DEGREES
    x = pitch[0] + chord * q * row[0]
    y = -0.02 * beta + 0.021 * ailerons + 0.086 * rudders + span * (row[1] * r + row[2] * p)
    z = row[9] * (1.0 - slip_rad * slip_rad) - 0.0076 * surfaces[0] + chord * q * row[3]
    roll = slips[0] + increments[0] * ailerons + increments[2] * rudders + span * (row[4] * r + row[5] * p)
    nod = pitch[1] + chord * q * row[6] + z * (CG_REFERENCE - cg)  # the normal force acts at the reference, not at cg
    yaw = slips[1] + increments[1] * ailerons + increments[3] * rudders + span * (row[7] * r + row[8] * p)
    yaw -= y * (CG_REFERENCE - cg) * CHORD / SPAN
    # Equations of motion.
    surface = m.pressure * AREA / scales.mass  # Forces are those on the nominal mass.
    push = scales.thrust * thrust_lbf(tables, mach, height_ft, power) / scales.mass
    ahead = air / speed
    coefficients = wp.vec3(x, y, z)
    along = wp.dot(coefficients, ahead)
    rise = drag_rise(mach)
    lift_squared = wp.dot(coefficients, coefficients) - along * along  # of all that is across the velocity
    coefficients = coefficients - ahead * (rise[0] + rise[1] * lift_squared)
    coefficients = coefficients + ahead * (wp.dot(coefficients, ahead) * (scales.drag - 1.0))
    force = surface * coefficients  # lbf
    m.force = INVERSE_MASS * (force + wp.vec3(push, 0.0, 0.0))
    moments = surface * SPAN
    m.rotation = wp.vec3(
        (C2 * p + C1 * r + C4 * ENGINE) * q + moments * (C3 * roll + C4 * yaw),
        (C5 * p - C7 * ENGINE) * r + C6 * (r * r - p * p) + surface * CHORD * C7 * nod,
        (C8 * p - C2 * r + C9 * ENGINE) * q + moments * (C4 * roll + C9 * yaw),
    )
    # At high alpha a table's slope may vanish: bound a surface's effectiveness from below.
    m.effects = wp.vec3(
        surface * CHORD * C7 * wp.min((strong[1] - weak[1]) / 12.0, -WEAKEST),
        moments * (C3 * wp.min(increments[0], -20.0 * 0.25 * WEAKEST) + C4 * increments[1]) / 20.0,
        moments * (C9 * wp.min(increments[3], -30.0 * 0.25 * WEAKEST) + C4 * increments[2]) / 30.0,
    )
    slope = (tables.by_alpha[i + 1][9] - tables.by_alpha[i][9]) * 0.2 * DEGREES  # dCZ / dalpha, 1/rad
    m.lift_slope = INVERSE_MASS * surface * wp.max(-slope, 1.0) / GRAVITY  # at least 1: it is divided by
    return m


@wp.func
def approach(gap: float, brake: float) -> float:
    """Return the greatest rate towards a limit of alpha, rad/s, that an angular deceleration `brake` still stops."""
    return wp.min(ALPHA_GAIN * gap, wp.sqrt(2.0 * brake * wp.max(gap, 0.0)))


@wp.func
def command_surfaces(plane: Plane, m: Motion, air: wp.vec3, weight: wp.vec3, command: Command) -> wp.vec3:
    """Return the surfaces (degrees) that the inner loop commands; `weight` is gravity in body axes, ft/s^2."""
    speed = wp.max(wp.length(air), SLOWEST)
    alpha = wp.atan2(air[2], air[0])
    beta = wp.asin(wp.clamp(air[1] / speed, -1.0, 1.0))
    ca = wp.cos(alpha)
    sa = wp.sin(alpha)
    p = plane.rates[0]
    q = plane.rates[1]
    r = plane.rates[2]
    pull = m.force + weight
    load = -m.force[2] / GRAVITY  # body z points down
    # Pitch: alpha' = q - tan(beta) (p cos a + r sin a) + (fz cos a - fx sin a) / (V cos beta), solved for q.
    wanted = LOAD_GAIN * (command.load - load) / m.lift_slope
    brake = -BRAKE * m.effects[0]
    wanted = wp.clamp(wanted, -approach(alpha - ALPHA_LEAST, brake), approach(ALPHA_MOST - alpha, brake))
    cb = wp.max(wp.cos(beta), 0.2)  # kept away from 0, as is cos a below
    turn = (pull[2] * ca - pull[0] * sa) / (speed * cb)
    pitch_rate = wp.clamp(wanted + wp.tan(beta) * (p * ca + r * sa) - turn, -PITCH_MOST, PITCH_MOST)
    # Roll about the velocity; the rate falls with alpha and at low dynamic pressure.
    grip = wp.clamp(m.pressure / ROLL_PRESSURE, 0.1, 1.0) * (1.0 - ROLL_LOST * wp.clamp(alpha / ALPHA_MOST, 0.0, 1.0))
    roll_rate = command.roll_rate * grip * ca
    # Yaw: beta' = p sin a - r cos a + side force / V, solved for r.
    drift = (pull[1] * wp.cos(beta) - (pull[0] * ca + pull[2] * sa) * wp.sin(beta)) / speed
    yaw_rate = (p * sa + drift + BETA_GAIN * beta) / wp.max(ca, 0.3)
    gap = wp.vec3(ROLL_GAIN * (roll_rate - p), PITCH_GAIN * (pitch_rate - q), YAW_GAIN * (yaw_rate - r)) - m.rotation
    return wp.vec3(
        wp.clamp(plane.surfaces[0] + gap[1] / m.effects[0], -ELEVATOR_MOST, ELEVATOR_MOST),
        wp.clamp(plane.surfaces[1] + gap[0] / m.effects[1], -AILERON_MOST, AILERON_MOST),
        wp.clamp(plane.surfaces[2] + gap[2] / m.effects[2], -RUDDER_MOST, RUDDER_MOST),
    )


@wp.func
def move_surface(now: float, commanded: float, step: float) -> float:
    """Return a surface after a tick of its actuator: a first-order lag with a limit of its rate."""
    return now + wp.clamp((commanded - now) * ACTUATOR, -step, step)


@wp.func
def axes_of(q: wp.quat) -> wp.mat33:
    """Return nose, right wing and belly in world axes as columns.

    Sums are grouped such that half a circle of heading changes signs only: both seats of a start then fly
    bit-identically. The same holds for `turned_by`.
    """
    x = q[0]
    y = q[1]
    z = q[2]
    w = q[3]
    return wp.mat33(
        (w * w + x * x) - (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), (w * w + y * y) - (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), (w * w + z * z) - (x * x + y * y),
    )  # fmt: skip


@wp.func
def turned_by(q: wp.quat, v: wp.vec3) -> wp.quat:
    """Return the attitude after a small rotation; `v` is half its vector in body axes, rad: q (v, 1)."""
    x = (q[3] * v[0] - q[2] * v[1]) + (q[0] + q[1] * v[2])
    y = (q[3] * v[1] + q[2] * v[0]) + (q[1] - q[0] * v[2])
    z = (q[3] * v[2] + q[2]) + (q[0] * v[1] - q[1] * v[0])
    w = (q[3] - q[2] * v[2]) - (q[0] * v[0] + q[1] * v[1])
    part = 1.0 / wp.sqrt((x * x + y * y) + (z * z + w * w))
    return wp.quat(x * part, y * part, z * part, w * part)


@wp.func
def start_f16(tables: AirframeTables, plane: Plane, scales: Scales) -> Plane:
    """Return a plane whose attitude, axes and past accelerations agree with its fields; called once at a start."""
    axes = axes_of(plane.attitude)
    air = wp.transpose(axes) * plane.vel * PER_FT  # m/s to ft/s, world to body axes
    m = motion(tables, air, plane.rates, plane.surfaces, -plane.pos[2] * PER_FT, plane.power, CG_STABLE, scales)
    plane.past_acceleration = axes * (m.force * FT) + wp.vec3(0.0, 0.0, GRAVITY * FT)
    plane.past_rotation = m.rotation
    plane.nose = wp.vec3(axes[0, 0], axes[1, 0], axes[2, 0])
    plane.up = wp.vec3(-axes[0, 2], -axes[1, 2], -axes[2, 2])
    plane.alpha = wp.atan2(air[2], air[0])
    plane.load = -m.force[2] / GRAVITY
    return plane


@wp.func
def fly_f16(tables: AirframeTables, plane: Plane, command: Command, scales: Scales) -> Plane:
    """Return the plane after a tick."""
    axes = axes_of(plane.attitude)
    air = wp.transpose(axes) * plane.vel * PER_FT
    weight = wp.vec3(axes[2, 0], axes[2, 1], axes[2, 2]) * GRAVITY
    m = motion(tables, air, plane.rates, plane.surfaces, -plane.pos[2] * PER_FT, plane.power, CG_STABLE, scales)
    aim = command_surfaces(plane, m, air, weight, command)
    plane.surfaces = wp.vec3(
        move_surface(plane.surfaces[0], aim[0], ELEVATOR_STEP),
        move_surface(plane.surfaces[1], aim[1], AILERON_STEP),
        move_surface(plane.surfaces[2], aim[2], RUDDER_STEP),
    )
    plane.power = plane.power + DT * power_rate(plane.power, commanded_power(command.throttle))
    acceleration = axes * (m.force * FT) + wp.vec3(0.0, 0.0, GRAVITY * FT)
    vel = plane.vel + (1.5 * acceleration - 0.5 * plane.past_acceleration) * DT  # Adams-Bashforth
    rates = plane.rates + (1.5 * m.rotation - 0.5 * plane.past_rotation) * DT
    plane.pos = plane.pos + (plane.vel + vel) * (0.5 * DT)  # trapezoidal rule
    turn = (plane.rates + rates) * (0.25 * DT)  # half the mean rotation of the tick, rad
    plane.attitude = turned_by(plane.attitude, turn)
    axes = axes_of(plane.attitude)
    plane.vel = vel
    plane.rates = rates
    plane.past_acceleration = acceleration
    plane.past_rotation = m.rotation
    plane.nose = wp.vec3(axes[0, 0], axes[1, 0], axes[2, 0])
    plane.up = wp.vec3(-axes[0, 2], -axes[1, 2], -axes[2, 2])
    plane.alpha = wp.atan2(air[2], air[0])
    plane.load = -m.force[2] / GRAVITY
    plane.roll_rate = wp.dot(rates, air) / wp.max(wp.length(air), SLOWEST)  # about the velocity, as it is commanded
    return plane
