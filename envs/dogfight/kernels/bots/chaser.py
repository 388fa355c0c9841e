"""The chaser: pursuit with yo-yos, up when overshooting, down when falling behind."""

import math

import warp as wp

from sparring.envs.dogfight.kernels.bots.shared import count_down, dodge, dodging, enter
from sparring.envs.dogfight.kernels.bots.view import BotView, fire, smart_aim, steer
from sparring.envs.dogfight.kernels.state import BotMemory


@wp.func
def start_yo_yo(m: BotMemory, v: BotView) -> BotMemory:
    """Start a yo-yo if its conditions hold; the mode is its sign and is valid only while the timer runs."""
    if v.s.distance < 120.0 and v.closing > 50.0 and v.me.y < 500.0:
        return enter(m, 1, 40)  # High yo-yo: trade speed for height instead of overshooting.
    if v.s.distance > 300.0 and v.closing < -20.0 and v.me.y > 150.0:
        return enter(m, -1, 30)  # Low yo-yo: trade height for speed to catch up.
    return m


@wp.func
def chaser_bias(m: BotMemory, v: BotView) -> float:
    """Return the sum of yo-yo and altitude biases, rad."""
    bias = float(0.0)
    if m.timer > wp.int16(0):
        bias = 0.4 * float(m.mode)
    if v.me.y < 120.0 and v.me.sin_yaw < 0.1:
        bias += 0.25
    elif v.me.y > 520.0 and v.me.sin_yaw > -0.1:
        bias -= 0.25
    return bias


@wp.func
def chaser(m: BotMemory, v: BotView) -> tuple[BotMemory, wp.vec3]:
    """Return memory and action of one decision of the chaser, before the stall guard."""
    m.timer = count_down(m.timer)
    m = dodge(m, v, 80.0, 15)
    if dodging(m):
        return m, wp.vec3(float(m.evade_direction), 0.8, fire(v, wp.static(math.cos(0.3)), 320.0))
    if m.timer == wp.int16(0):
        m = start_yo_yo(m, v)
    turn = steer(2.5, smart_aim(v, 1.0) + chaser_bias(m, v))
    throttle = wp.where(v.me.speed > 120.0 and wp.abs(turn) > 0.7, 0.7, 1.0)
    return m, wp.vec3(turn, throttle, fire(v, wp.static(math.cos(0.22)), 320.0))
