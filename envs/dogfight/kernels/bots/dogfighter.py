"""The dogfighter: attack, defend, regain energy, disengage; each mode is held for some decisions."""

import math

import warp as wp

from sparring.envs.dogfight.kernels.bots.shared import count_down, dodge, dodging, enter, keep_off_edges
from sparring.envs.dogfight.kernels.bots.view import BotView, attack_throttle, break_angle, fire, smart_aim, steer, up
from sparring.envs.dogfight.kernels.sensing import angle_to, energy
from sparring.envs.dogfight.kernels.state import BotMemory

ATTACK = wp.constant(0)
DEFEND = wp.constant(1)
ENERGY = wp.constant(2)
DISENGAGE = wp.constant(3)

NO_CEILING = wp.constant(1.0e6)


@wp.struct
class ModeRules:
    """Thresholds of mode changes, which differ between the two rule sets."""

    attack_poor: float
    """Energy ratio below which ATTACK turns to ENERGY."""
    defend_poor: float
    rich: float
    """Energy ratio above which ENERGY turns to ATTACK."""
    hold: int
    """Decisions for which ENERGY is held."""


@wp.func
def mode_rules(challenge: bool) -> ModeRules:
    """Return the thresholds of a rule set."""
    r = ModeRules()
    r.attack_poor = wp.where(challenge, 0.5, 0.7)
    r.defend_poor = wp.where(challenge, 0.4, 0.6)
    r.rich = wp.where(challenge, 0.7, 0.9)
    r.hold = wp.where(challenge, 30, 60)
    return r


@wp.func
def change_mode(m: BotMemory, v: BotView) -> BotMemory:
    """Take the first transition whose condition holds."""
    r = mode_rules(v.challenge)
    d = v.s.distance
    # Own energy over the opponent's, both v^2 + 2 g y; the floor of 1 m^2/s^2 avoids a division by zero.
    ratio = energy(v.me, v.p.gravity) / wp.max(energy(v.it, v.p.gravity), 1.0)
    if m.mode == wp.int16(ATTACK):
        if v.tailed and d < 200.0:
            return enter(m, DEFEND, 45)
        if ratio < r.attack_poor and v.me.y > 100.0:
            return enter(m, ENERGY, r.hold)
        if m.mode_ticks > wp.int16(360) and d < 250.0 and not v.challenge:
            return enter(m, DISENGAGE, 90)
    elif m.mode == wp.int16(DEFEND):
        if not v.tailed or d > 300.0:
            return enter(m, ATTACK, 30)
        if ratio < r.defend_poor:
            return enter(m, ENERGY, r.hold)
    else:
        if m.mode == wp.int16(ENERGY) and (ratio > r.rich or (v.challenge and d < 200.0)):
            return enter(m, ATTACK, 30)
        if m.mode == wp.int16(DISENGAGE) and (d > 350.0 or v.behind):
            return enter(m, ATTACK, 30)
        if v.tailed and d < 150.0:
            return enter(m, DEFEND, 45)
    return m


@wp.func
def attack_bias(v: BotView) -> float:
    """Return the sum of the three altitude biases of the attack, rad."""
    y = v.me.y
    sin = v.me.sin_yaw
    bias = float(0.0)
    if y > 550.0:
        if sin > 0.0:
            bias -= 0.3 * wp.min((y - 550.0) / 50.0, 1.0)
    elif y > 450.0 and sin > 0.3:
        bias -= 0.1
    low = wp.where(v.challenge, 130.0, 100.0)
    if y < low:
        if sin < 0.1:
            bias += 0.4 * wp.min((low - y) / 60.0, 1.0)
    elif y < 180.0 and sin < -0.2:
        bias += 0.15
    if v.me.speed < 100.0 and y > 250.0 and sin > -0.2:
        bias -= 0.08
    return bias


@wp.func
def energy_angle(v: BotView) -> float:
    """Return the angle off the nose, rad, to regain energy: a climb away from it below 400 m, then level flight."""
    direction = wp.vec2(wp.where(v.s.dx < 0.0, 2.0, -2.0), 1.0)
    if v.challenge:
        direction = wp.vec2(2.0, 1.0)
    if v.me.y >= 400.0:
        direction = wp.vec2(up(v.me), 0.0)
    return angle_to(v.me, direction)


@wp.func
def dogfighter(m: BotMemory, v: BotView) -> tuple[BotMemory, wp.vec3]:
    """Return memory and action of one decision of the dogfighter, before the stall guard."""
    m.timer = count_down(m.timer)
    m = dodge(m, v, 90.0, 18)
    if dodging(m):
        turn = keep_off_edges(float(m.evade_direction), v, 80.0, NO_CEILING)
        return m, wp.vec3(turn, 0.8, fire(v, wp.static(math.cos(0.3)), 350.0))
    if m.timer == wp.int16(0):
        m = change_mode(m, v)
    # The rules above see the count before this decision.
    m.mode_ticks = wp.where(m.mode == wp.int16(ATTACK), m.mode_ticks + wp.int16(1), wp.int16(0))
    if m.mode == wp.int16(DEFEND):
        throttle = wp.where(v.me.speed > 100.0, 0.3, 0.6)
        return m, wp.vec3(steer(3.5, break_angle(v)), throttle, fire(v, wp.static(math.cos(0.3)), 250.0))
    if m.mode == wp.int16(ENERGY):
        return m, wp.vec3(steer(2.0, energy_angle(v)), 1.0, fire(v, wp.static(math.cos(0.25)), 300.0))
    if m.mode == wp.int16(DISENGAGE):
        return m, wp.vec3(steer(2.5, angle_to(v.me, wp.vec2(-v.s.dx, -v.s.dy))), 1.0, 0.0)
    turn = steer(3.0, smart_aim(v, 1.0) + attack_bias(v))
    return m, wp.vec3(turn, attack_throttle(v, turn), fire(v, wp.static(math.cos(0.22)), 350.0))
