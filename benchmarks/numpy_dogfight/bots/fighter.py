"""Common parts of the four fighters: aim and headings, trigger rule, guards, mode changes.

Comparisons are strict and headings are angles counter-clockwise from +x. A bias is added after the difference of
heading and yaw has been wrapped, and the sum is not wrapped again. A positive bias turns counter-clockwise whichever
way the fighter flies, so the bots have a left and a right.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from benchmarks.numpy_dogfight.sensing import Sight, lead_point
from benchmarks.numpy_dogfight.state import Array, Memory, wrap_angle

REAR = 2.0
"""Beyond this angle off the nose, rad, the other fighter counts as behind."""
SIDE_OFFSET = 60.0
CHALLENGE_READY = 0.01
"""Under challenge rules the gun counts as ready below this share of its cooldown."""

Transition = tuple[int, Array, int, int]
"""A row of a mode table: mode, condition [K], next mode, ticks for which that is held."""


@dataclass
class Choice:
    """A decision for K matches; `shoot` is a bool array."""

    turn: Array
    throttle: Array
    shoot: Array


def select(masks: list[Array], choices: list[Choice], otherwise: Choice) -> Choice:
    """Return the first choice whose mask holds, match by match."""
    return Choice(
        *(
            np.select(masks, [getattr(choice, field.name) for choice in choices], getattr(otherwise, field.name))
            for field in fields(Choice)
        )
    )


def full(view: Sight, value: float) -> Array:
    """Return the same number for every match, [K]."""
    return np.full_like(view.distance, value)


def hold_fire(view: Sight) -> Array:
    """Return no shot in any match, bool [K]."""
    return np.zeros(len(view.distance), bool)


# Geometry


def tailed(view: Sight) -> Array:
    """Return whether the opponent is behind me."""
    return np.abs(view.off) > REAR


def behind(view: Sight) -> Array:
    """Return whether I am behind the opponent."""
    return np.abs(view.foe_off) > REAR


def energy_ratio(view: Sight) -> Array:
    """Return my energy over the opponent's."""
    ratio = view.me.energy / np.maximum(view.foe.energy, 1.0)
    return np.where(view.foe.energy <= 1.0, 2.0, ratio) if view.challenge else ratio


def off_heading(view: Sight, heading: Array) -> Array:
    """Return the signed angle from my nose to a heading, rad."""
    return wrap_angle(heading - view.me.yaw, challenge=view.challenge)


def steer(view: Sight, heading: Array, gain: float) -> Array:
    """Return the turn command toward a heading."""
    return np.clip(gain * off_heading(view, heading), -1.0, 1.0)


def smart_heading(view: Sight, lead: float) -> Array:
    """Return the heading to the lead point, or from behind to the point 60 m beside it, on the side away from me."""
    x, y = lead_point(view, lead)
    normal_x, normal_y = -view.foe.sin, view.foe.cos
    projection = view.dx * normal_x + view.dy * normal_y
    far_side = projection > 0.0 if view.challenge else projection >= 0.0
    offset = np.where(far_side, SIDE_OFFSET, -SIDE_OFFSET) * behind(view)
    return np.arctan2(y + offset * normal_y, x + offset * normal_x)


def break_heading(view: Sight) -> Array:
    """Return the heading that leaves the opponent abeam, on the side opposite to its present one."""
    left = view.off > 0.0 if view.challenge else view.off >= 0.0
    return view.bearing + np.where(left, np.pi / 2, -np.pi / 2)


def upward(view: Sight) -> Array:
    """Return the turn direction that raises the nose: +1 flying right, else -1."""
    return np.where(view.me.cos > 0.0, 1.0, -1.0)


# Gun and throttle


def fire(view: Sight, angle: float, reach: float) -> Array:
    """Return whether to shoot: on target, in reach, gun ready and the shot not wasted on the rear armour."""
    cooldown = view.me.cooldown
    ready = cooldown == 0
    if view.challenge:
        ready = cooldown / view.physics["gun_cooldown_ticks"] < CHALLENGE_READY
    aligned = np.cos(view.me.yaw - view.foe.yaw) > np.cos(view.physics["rear_aspect_cone"])
    wasted = (np.abs(view.off) <= 0.5) & aligned
    return (np.abs(view.off) < angle) & (view.distance < reach) & ready & ~wasted


def attack_throttle(view: Sight, turn: Array) -> Array:
    """Return the throttle: full when slow or far, half in a hard turn."""
    cases = [view.me.speed < 80.0, np.abs(turn) > 0.7, view.distance > 250.0]
    return np.select(cases, [1.0, 0.5, 1.0], 0.7)


# Guards


def altitude_guard(view: Sight) -> tuple[Array, Choice]:
    """Return where to pull away from the ground or the ceiling, bool [K], and the action for it."""
    y, sin = view.me.y, view.me.sin
    low = (y < 70.0) & (sin < -0.3)
    if view.challenge:
        low = ((y < 50.0) & (sin < 0.5)) | ((y < 100.0) & (sin < 0.0)) | ((y < 150.0) & (sin < -0.3))
    high = (y > 570.0) & (sin > 0.3)
    return low | high, Choice(np.where(low, upward(view), -upward(view)), full(view, 1.0), hold_fire(view))


def stall_guard(view: Sight, choice: Choice) -> Choice:
    """Limit the turn and raise the throttle below 45 m/s."""
    slow = np.clip((45.0 - view.me.speed) / 15.0, 0.0, 1.0)
    limit = 1.0 - 0.7 * slow
    return Choice(np.clip(choice.turn, -limit, limit), np.maximum(choice.throttle, 0.8 * slow), choice.shoot)


# Modes


def transit(memory: Memory, table: list[Transition], free: Array) -> None:
    """Enter, where `free` [K], the first row of the table whose mode and condition hold."""
    before = memory.mode.copy()
    for source, condition, target, hold in table:
        take = free & (before == source) & condition
        memory.mode[take], memory.timer[take] = target, hold
        free = free & ~take
