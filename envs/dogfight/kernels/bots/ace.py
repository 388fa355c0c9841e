"""The ace: early dodges, hard breaks, steady altitude; without modes."""

import math

import warp as wp

from sparring.envs.dogfight.kernels.bots.shared import dodge, dodging, keep_off_edges
from sparring.envs.dogfight.kernels.bots.view import BotView, attack_throttle, break_angle, fire, smart_aim, steer, wrap
from sparring.envs.dogfight.kernels.state import BotMemory


@wp.func
def ace_bias(v: BotView) -> float:
    """Return the altitude bias that holds 250..480 m plus a dip of the nose when slow and high, rad."""
    y = v.me.y
    sin = v.me.sin_yaw
    bias = float(0.0)
    if y < 250.0 and sin < 0.2:
        bias += 0.35 * wp.min((250.0 - y) / 100.0, 1.0)
    if y > 480.0 and sin > -0.2:
        bias -= 0.3 * wp.min((y - 480.0) / 80.0, 1.0)
    if v.me.speed < 90.0 and y > 300.0 and sin > -0.1:
        bias -= 0.08
    return bias


@wp.func
def ace(m: BotMemory, v: BotView) -> tuple[BotMemory, wp.vec3]:
    """Return memory and action of one decision of the ace, before the stall guard."""
    m = dodge(m, v, 130.0, 18)
    if dodging(m):
        floor = wp.where(v.challenge, 120.0, 90.0)
        turn = keep_off_edges(float(m.evade_direction), v, floor, 540.0)
        return m, wp.vec3(turn, 0.7, fire(v, wp.static(math.cos(0.3)), 380.0))
    if v.tailed and v.s.distance < 250.0:
        throttle = wp.where(v.me.speed > 100.0, 0.3, 0.5)
        # Here the bias is part of the heading, so it is wrapped with it.
        turn = steer(3.5, wrap(break_angle(v) + 0.15))
        return m, wp.vec3(turn, throttle, fire(v, wp.static(math.cos(0.35)), 350.0))
    turn = steer(3.0, smart_aim(v, 1.0) + ace_bias(v))
    return m, wp.vec3(turn, attack_throttle(v, turn), fire(v, wp.static(math.cos(0.2)), 380.0))
