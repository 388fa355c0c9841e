"""Geometry of a pair of fighters from the view of one seat: distance, bearings, closing speed, lead point.

One `Sight` holds these for K matches at once (K is a subset of the batch: the matches a given bot plays, or all of
them). Bots, observations and rewards read it, so each angle is defined once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.numpy_dogfight.state import Array, State, energy, wrap_angle, wrap_x
from sparring.envs.dogfight import rules

CLOSING_LIMIT = 250.0
"""Largest closing speed that the challenge observation can show, m/s."""


@dataclass
class Craft:
    """One fighter, each field [K]."""

    x: Array
    y: Array
    yaw: Array
    cos: Array
    sin: Array
    speed: Array
    turn_rate: Array
    hp: Array
    cooldown: Array
    energy: Array


@dataclass
class Sight:
    """One seat's view of K matches."""

    me: Craft
    foe: Craft
    dx: Array
    """From me to the opponent, wrapped under challenge rules."""
    dy: Array
    distance: Array
    bearing: Array
    """Direction from me to the opponent."""
    off: Array
    """Signed angle from my nose to the opponent."""
    foe_off: Array
    """Signed angle from the opponent's nose to me."""
    closing: Array
    """Closing speed, m/s: from both velocities, or under challenge rules over the last tick."""
    physics: dict[str, Array]
    challenge: bool


def sight(state: State, seat: int, where: Array | slice, *, challenge: bool) -> Sight:
    """Return the view of `seat` in the matches `where`."""
    physics = {name: state.physics[where, index] for name, index in rules.PARAMETER_INDEX.items()}
    me = _craft(state, seat, where, physics["gravity"])
    foe = _craft(state, 1 - seat, where, physics["gravity"])
    dx, dy = wrap_x(foe.x - me.x, challenge=challenge), foe.y - me.y
    distance = np.hypot(dx, dy)
    bearing = np.arctan2(dy, dx)
    return Sight(
        me=me,
        foe=foe,
        dx=dx,
        dy=dy,
        distance=distance,
        bearing=bearing,
        off=wrap_angle(bearing - me.yaw, challenge=challenge),
        foe_off=wrap_angle(np.arctan2(-dy, -dx) - foe.yaw, challenge=challenge),
        closing=_measured_closing(state, where) if challenge else _closing(me, foe, dx, dy),
        physics=physics,
        challenge=challenge,
    )


def lead_point(view: Sight, lead: float | Array = 1.0) -> tuple[Array, Array]:
    """Return the opponent's position after `lead` times a bullet's flight (classic: at least 1 m), relative to me."""
    distance = view.distance if view.challenge else np.maximum(view.distance, 1.0)
    time = lead * distance / view.physics["bullet_speed"]
    return view.dx + view.foe.speed * view.foe.cos * time, view.dy + view.foe.speed * view.foe.sin * time


def measure_closing(state: State, before: Array) -> Array:
    """Return the closing speed over one tick, m/s [N]; `before` [N] is `distance` a tick ago."""
    return (before - distance(state, challenge=True)) / rules.DT


def distance(state: State, *, challenge: bool) -> Array:
    """Return the distance between the two fighters of every match, m [N]."""
    dx = wrap_x(state.x[:, 1] - state.x[:, 0], challenge=challenge)
    return np.hypot(dx, state.y[:, 1] - state.y[:, 0])


def _measured_closing(state: State, where: Array | slice) -> Array:
    """Return the value of `State.closing` in the challenge observation, m/s."""
    return np.clip(state.closing[where], -CLOSING_LIMIT, CLOSING_LIMIT)


def _closing(me: Craft, foe: Craft, dx: Array, dy: Array) -> Array:
    """Project the relative velocity on the line between the two, m/s."""
    along = dx * (me.speed * me.cos - foe.speed * foe.cos) + dy * (me.speed * me.sin - foe.speed * foe.sin)
    return along / np.maximum(np.hypot(dx, dy), 1.0)


def _craft(state: State, seat: int, where: Array | slice, gravity: Array) -> Craft:
    yaw, speed, y = state.yaw[where, seat], state.speed[where, seat], state.y[where, seat]
    return Craft(
        x=state.x[where, seat],
        y=y,
        yaw=yaw,
        cos=np.cos(yaw),
        sin=np.sin(yaw),
        speed=speed,
        turn_rate=state.turn_rate[where, seat],
        hp=state.hp[where, seat],
        cooldown=state.cooldown[where, seat],
        energy=energy(speed, y, gravity),
    )
