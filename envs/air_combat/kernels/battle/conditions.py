"""Physics drawn for a match (`rules.PARAMETERS`): mass, thrust, drag, wind, gusts, and errors of observations.

Positions drift with the air at the height of the start, so only the change of the wind with height has an effect. Gusts
are Dryden's (MIL-F-8785C, above 2,000 ft, L = 533 m), independent for each aircraft: white noise through the filters

    u: s sqrt(2 T) / (1 + T p),    v and w: s sqrt(T) (1 + sqrt(3) T p) / (1 + T p)^2,    T = L / airspeed,

each of standard deviation s. The filters' states are scaled not to depend on the speed.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Plane, Scales
from sparring.envs.air_combat.kernels.view import write_vector

DT = wp.constant(rules.DT)
PI = wp.constant(math.pi)
GUST_RATE = wp.constant(rules.DT / 533.0)  # Ticks over L, s/m.
ROOT_3, HALF_ROOT = wp.constant(math.sqrt(3.0)), wp.constant(math.sqrt(0.5))
NOISE_RATE = wp.constant(rules.NOISE_RATE)


@wp.struct
class Conditions:
    """Physics of one match, the same for all its aircraft."""

    mass: float
    thrust: float
    drag: float
    """Factors."""
    shear: wp.vec3
    """Change of the wind with height, m/s per m."""
    height: float
    """At which positions drift with the air, m."""
    turbulence: float
    """Standard deviation of the gusts, m/s."""
    noise: float
    """Standard deviation of the observed position of other aircraft, m."""
    delay: int
    """Delay in steps of the observation of other aircraft."""


@wp.struct
class Gust:
    """States of an aircraft's gust filters, each of unit variance or less."""

    along: float
    side: wp.vec2
    down: wp.vec2


@wp.func
def draw_conditions(ranges: wp.array2d[float], rng: wp.uint32, height: float) -> Conditions:
    """Draw the physics of a match from `ranges` [7, 2]; as many draws for all ranges."""
    c = Conditions()
    c.mass = wp.randf(rng, ranges[0, 0], ranges[0, 1])
    c.thrust = wp.randf(rng, ranges[1, 0], ranges[1, 1])
    c.drag = wp.randf(rng, ranges[2, 0], ranges[2, 1])
    change = wp.randf(rng, ranges[3, 0], ranges[3, 1]) * 0.001  # m/s per km to m/s per m
    course = wp.randf(rng, -PI, PI)
    c.shear = wp.vec3(wp.cos(course), wp.sin(course), 0.0) * change
    c.turbulence = wp.randf(rng, ranges[4, 0], ranges[4, 1])
    c.noise = wp.randf(rng, ranges[5, 0], ranges[5, 1])
    # In float32 a draw can round up to the upper end.
    c.delay = int(wp.min(wp.floor(wp.randf(rng, ranges[6, 0], ranges[6, 1] + 1.0)), ranges[6, 1]))
    c.height = height
    return c


@wp.func
def scales_of(c: Conditions) -> Scales:
    """Return the factors of the flight models."""
    scales = Scales()
    scales.mass = c.mass
    scales.thrust = c.thrust
    scales.drag = c.drag
    return scales


@wp.func
def second_order(state: wp.vec2, decay: float, part: float, noise: float) -> wp.vec2:
    """Return both states of the filter of v or w after a tick."""
    first = decay * state[0] + wp.sqrt(1.0 - decay * decay) * noise  # keeps the variance at 1
    return wp.vec2(first, decay * (state[1] + part * state[0]))


@wp.func
def next_gust(gust: Gust, speed: float, rng: wp.uint32) -> Gust:
    """Return the filters' states after a tick at an airspeed in m/s."""
    part = GUST_RATE * speed  # dt / T, with T = L / airspeed
    decay = wp.exp(-part)
    gust.along = decay * gust.along + wp.sqrt(1.0 - decay * decay) * wp.randn(rng)
    gust.side = second_order(gust.side, decay, part, wp.randn(rng))
    gust.down = second_order(gust.down, decay, part, wp.randn(rng))
    return gust


@wp.func
def shaped(state: wp.vec2) -> float:
    """Return the output of the filter of v or w, of unit variance."""
    return HALF_ROOT * (ROOT_3 * state[0] + (1.0 - ROOT_3) * state[1])


@wp.func
def air_motion(c: Conditions, gust: Gust, plane: Plane) -> wp.vec3:
    """Return the velocity of the air at an aircraft, m/s, world axes."""
    right = wp.cross(plane.nose, plane.up)
    felt = plane.nose * gust.along + right * shaped(gust.side) - plane.up * shaped(gust.down)
    return c.shear * (-plane.pos[2] - c.height) + felt * c.turbulence  # shear times the height above that of the start


@wp.func
def blurred(it: Plane, noise: float, rng: wp.uint32) -> Plane:
    """Return an aircraft as a sensor sees it, with errors of place and velocity."""
    it.pos = it.pos + wp.vec3(wp.randn(rng), wp.randn(rng), wp.randn(rng)) * noise
    it.vel = it.vel + wp.vec3(wp.randn(rng), wp.randn(rng), wp.randn(rng)) * (noise * NOISE_RATE)
    return it


@wp.func
def observe_conditions(obs: wp.array2d[float], row: int, at: int, c: Conditions, me: Plane) -> None:
    """Write `rules.OBSERVATION_PHYSICS` to columns from `at`."""
    obs[row, at] = (c.mass - 1.0) * 4.0
    obs[row, at + 1] = (c.thrust - 1.0) * 4.0
    obs[row, at + 2] = (c.drag - 1.0) * 4.0
    write_vector(obs, row, at + 3, c.shear * 200.0, me.nose, wp.cross(me.nose, me.up), me.up)
    obs[row, at + 6] = c.turbulence * 0.2
    obs[row, at + 7] = c.noise * 0.04
    obs[row, at + 8] = float(c.delay) * 0.3333333
