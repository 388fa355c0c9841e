"""Missiles and flares of an aircraft: launch, warnings, observations, and use by scripted pilots.

Seats 0 to T - 1 are one side, T to 2T - 1 the other; a missile's slot is its seat times the load plus its number.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import missile as data
from sparring.envs.air_combat.kernels.battle.missile import (
    FAINTEST,
    FLARE_SLOTS,
    FLARE_TICKS,
    Flare,
    Missile,
    aircraft_brightness,
)
from sparring.envs.air_combat.kernels.low_pilots import (
    CLIMBER,
    DECK,
    DRAGGER,
    EXTENDER,
    RUNNER,
    SCISSORS,
    SPIRAL,
    WEAVER,
)
from sparring.envs.air_combat.kernels.pilots import (
    ACE,
    BRAWLER,
    CHASER,
    DO_NOTHING,
    DOGFIGHTER,
    EVADER,
    STRAIGHT,
    TURNING,
)
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.steering import MILITARY as MILITARY_THROTTLE
from sparring.envs.air_combat.kernels.view import View, write_vector
from sparring.envs.kernel_bots import check_branches

LAUNCH_COS = wp.constant(math.cos(data.LAUNCH_ANGLE))
LAUNCH_TICKS = wp.constant(round(data.LAUNCH_INTERVAL_S / rules.DT))
FLARE_WAIT = wp.constant(round(data.FLARE_INTERVAL_S / rules.DT))
EJECTION = wp.constant(data.FLARE_EJECTION)
WARNING_RANGE = wp.constant(data.WARNING_RANGE)
RADAR_COS, RADAR_RANGE = wp.constant(math.cos(rules.RADAR_ANGLE)), wp.constant(rules.RADAR_RANGE)
G = wp.constant(9.80665)
NEAREST_SHOT = wp.constant(500.0)  # m, within which pilots use the gun.
SURE_PART = wp.constant(0.7)  # Part of the lock range within which pilots launch.
FLARES_FROM = wp.constant(2500.0)  # m of an incoming missile from which pilots drop flares.
SLOWEST_CLOSING = wp.constant(50.0)


@wp.struct
class Stores:
    """What an aircraft carries."""

    missiles: int
    flares: int
    launch_wait: int
    """Ticks until the next missile may leave."""
    flare_wait: int


@wp.struct
class Orders:
    """A pilot's orders for a step."""

    command: Command
    launch: bool
    flare: bool


@wp.struct
class Threat:
    """The nearest of the missiles that home on an aircraft."""

    distance: float
    """m; beyond the range of the warning without a missile."""
    bearing: wp.vec3
    closure: float


@wp.func
def lock_on(planes: wp.array2d[Plane], match: int, seat: int, size: int) -> int:
    """Return the opposing aircraft that the seeker locks on before a launch, the brightest ahead; -1 without one."""
    me = planes[match, seat]
    foes = wp.where(seat < size, size, 0)
    chosen = int(-1)
    brightest = FAINTEST
    for i in range(foes, foes + size):
        it = planes[match, i]
        gap = it.pos - me.pos
        if it.hp > 0.0 and wp.dot(me.nose, gap) > LAUNCH_COS * wp.length(gap):
            bright = aircraft_brightness(it, gap)
            if bright > brightest:
                brightest = bright
                chosen = i
    return chosen


@wp.func
def release(
    planes: wp.array2d[Plane],
    stores: wp.array2d[Stores],
    missiles: wp.array2d[Missile],
    flares: wp.array2d[Flare],
    match: int,
    seat: int,
    size: int,
    launch: bool,
    flare: bool,
) -> None:
    """Launch a missile that has a lock, and drop a flare, as ordered, loaded and after the interval."""
    me = planes[match, seat]
    load = stores[match, seat]
    load.launch_wait = wp.max(load.launch_wait - 1, 0)
    load.flare_wait = wp.max(load.flare_wait - 1, 0)
    if launch and load.missiles > 0 and load.launch_wait == 0:
        target = lock_on(planes, match, seat, size)
        if target >= 0:
            m = Missile()
            m.pos = me.pos
            m.vel = me.vel
            m.line = wp.normalize(planes[match, target].pos - me.pos)
            ahead = wp.normalize(me.vel)
            m.across = wp.vec3(0.0, 0.0, -G) + ahead * (G * ahead[2])
            m.age = 1
            m.target = target
            load.missiles = load.missiles - 1
            missiles[match, seat * (missiles.shape[1] // (2 * size)) + load.missiles] = m
            load.launch_wait = LAUNCH_TICKS
    if flare and load.flares > 0 and load.flare_wait == 0:
        f = Flare()
        f.pos = me.pos
        f.vel = me.vel - me.up * EJECTION
        f.life = FLARE_TICKS
        load.flares = load.flares - 1
        flares[match, seat * FLARE_SLOTS + load.flares % FLARE_SLOTS] = f
        load.flare_wait = FLARE_WAIT
    stores[match, seat] = load


@wp.func
def threat_to(planes: wp.array2d[Plane], missiles: wp.array2d[Missile], match: int, seat: int, size: int) -> Threat:
    """Return the nearest missile that homes on a seat's aircraft."""
    me = planes[match, seat]
    threat = Threat()
    threat.distance = 2.0 * WARNING_RANGE
    slots = missiles.shape[1] // (2 * size)
    foes = wp.where(seat < size, size, 0)
    for k in range(foes * slots, (foes + size) * slots):
        m = missiles[match, k]
        if m.age > 0 and m.target == seat:
            gap = m.pos - me.pos
            distance = wp.max(wp.length(gap), 1.0)
            if distance < wp.min(threat.distance, WARNING_RANGE):
                threat.distance = distance
                threat.bearing = gap / distance
                threat.closure = -wp.dot(m.vel - me.vel, threat.bearing)
    return threat


@wp.func
def equip(
    bot: int, orders: Orders, me: Plane, it: Plane, v: View, locked: bool, homing: bool, threat: Threat
) -> Orders:
    """Return a scripted pilot's orders with its missiles and flares.

    Fighting pilots launch one at a time well within the lock range, not at close quarters; the dogfighter and the ace
    only from behind. All but the six targets drop flares before a missile. A hot engine would outshine the flares, so
    the ace leaves the afterburner and the evader goes to idle.
    """
    if bot == DO_NOTHING or bot == STRAIGHT or bot == TURNING:  # noqa: SIM109
        return orders
    if bot == WEAVER or bot == SPIRAL or bot == RUNNER:  # noqa: SIM109
        return orders
    peaceful = bot != CHASER and bot != DOGFIGHTER and bot != ACE and bot != BRAWLER and bot != DECK
    peaceful = peaceful and bot != EXTENDER and bot != DRAGGER and bot != SCISSORS and bot != CLIMBER
    if not peaceful and locked and not homing and v.distance > NEAREST_SHOT:
        brightness = wp.sqrt(aircraft_brightness(it, it.pos - me.pos) / FAINTEST)
        orders.launch = brightness * SURE_PART > 1.0
        if v.off_tail < 0.0:
            orders.launch = orders.launch and bot != DOGFIGHTER and bot != ACE
    orders.flare = threat.distance < FLARES_FROM
    if bot == ACE and threat.distance < FLARES_FROM:
        orders.command.throttle = wp.min(orders.command.throttle, MILITARY_THROTTLE)
    if bot == EVADER and threat.distance < WARNING_RANGE:
        orders.command.throttle = 0.0
    return orders


check_branches(tuple(rules.BOTS), equip)


@wp.func
def homes(missiles: wp.array2d[Missile], match: int, seat: int, size: int) -> bool:
    """Return whether a missile of this seat homes on an aircraft."""
    slots = missiles.shape[1] // (2 * size)
    for k in range(seat * slots, (seat + 1) * slots):
        m = missiles[match, k]
        if m.age > 0 and m.target >= 0 and m.target < 2 * size:
            return True
    return False


@wp.func
def observe_stores(
    obs: wp.array2d[float],
    row: int,
    at: int,
    planes: wp.array2d[Plane],
    load: Stores,
    full: wp.vec2,
    missiles: wp.array2d[Missile],
    match: int,
    seat: int,
    it: Plane,
    size: int,
) -> None:
    """Write `rules.OBSERVATION_ARMED` to columns from `at`; `full` has the missiles and flares of the start."""
    me = planes[match, seat]
    right = wp.cross(me.nose, me.up)
    obs[row, at] = float(load.missiles) / wp.max(full[0], 1.0)
    obs[row, at + 1] = float(load.flares) / wp.max(full[1], 1.0)
    obs[row, at + 2] = wp.where(lock_on(planes, match, seat, size) >= 0, 1.0, 0.0)
    obs[row, at + 3] = wp.min(wp.sqrt(aircraft_brightness(it, it.pos - me.pos) / FAINTEST), 4.0)
    flying = float(0.0)
    homing = float(0.0)
    soonest = float(20.0)
    slots = missiles.shape[1] // (2 * size)
    for k in range(seat * slots, (seat + 1) * slots):
        m = missiles[match, k]
        if m.age > 0:
            flying = 1.0
            if m.target >= 0 and m.target < 2 * size:
                homing = 1.0
                gap = planes[match, m.target].pos - m.pos
                distance = wp.max(wp.length(gap), 1.0)
                closing = -wp.dot(planes[match, m.target].vel - m.vel, gap) / distance
                soonest = wp.min(soonest, distance / wp.max(closing, SLOWEST_CLOSING))
    obs[row, at + 4] = flying
    obs[row, at + 5] = homing
    obs[row, at + 6] = wp.where(homing > 0.0, soonest / 10.0, 0.0)
    threat = threat_to(planes, missiles, match, seat, size)
    warned = threat.distance < WARNING_RANGE
    obs[row, at + 7] = wp.where(warned, 1.0, 0.0)
    write_vector(obs, row, at + 8, threat.bearing, me.nose, right, me.up)
    obs[row, at + 11] = wp.where(warned, threat.distance / 5000.0, 0.0)
    obs[row, at + 12] = wp.where(warned, wp.exp(-threat.distance / 1000.0), 0.0)
    obs[row, at + 13] = threat.closure / 1000.0
    emitter = wp.vec3(0.0, 0.0, 0.0)
    nearest = RADAR_RANGE
    foes = wp.where(seat < size, size, 0)
    for i in range(foes, foes + size):
        other = planes[match, i]
        gap = other.pos - me.pos
        distance = wp.max(wp.length(gap), 1.0)
        if other.hp > 0.0 and distance < nearest and -wp.dot(other.nose, gap) > RADAR_COS * distance:
            nearest = distance
            emitter = gap / distance
    obs[row, at + 14] = wp.where(nearest < RADAR_RANGE, 1.0, 0.0)
    write_vector(obs, row, at + 15, emitter, me.nose, right, me.up)
