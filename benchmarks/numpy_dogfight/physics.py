"""One tick of N matches: fighters, bullets, hits, in the order of the rules.

Everything is written with masks instead of branches: all three cases of a fighter's tick (stalled, entering a stall,
flying) are computed or selected with `np.where`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.numpy_dogfight.sensing import distance, measure_closing
from benchmarks.numpy_dogfight.state import Array, State, wrap_angle, wrap_x
from sparring.envs.dogfight import rules

HIT_DISTANCE = rules.FIGHTER_RADIUS + rules.BULLET_RADIUS


@dataclass
class Hits:
    """Effect of one tick's bullets, by shooter: int [N, 2]."""

    damage: Array
    glances: Array


def tick(state: State, actions: Array, *, challenge: bool, active: Array) -> Hits:
    """Advance the active matches ([N] bool) by one tick with actions [N, 2, 3]; `state` changes in place."""
    before = distance(state, challenge=challenge)
    for seat in (0, 1):
        _fly(state, seat, actions[:, seat], active & state.alive[:, seat], challenge=challenge)
    live = (state.bullet_life > 0) & active[:, None, None]
    dt = np.where(live, rules.DT, 0.0).astype(state.x.dtype)
    state.bullet_x += state.bullet_vx * dt
    state.bullet_y += state.bullet_vy * dt
    state.bullet_life -= live
    hits = _hit(state, active, challenge=challenge)
    state.tick += active
    if challenge:
        state.closing[:] = np.where(active, measure_closing(state, before), state.closing)
    return hits


def _fly(state: State, seat: int, action: Array, who: Array, *, challenge: bool) -> None:
    """Move one seat's fighter in the matches `who` [N] and let it shoot."""
    p = state.parameter
    yaw, speed = state.yaw[:, seat], state.speed[:, seat]
    lost = p("max_hp") - state.hp[:, seat]
    vmax = p("max_speed") * (1.0 - rules.SPEED_LOST_PER_HP * lost)
    stalled = who & (state.stall[:, seat] > 0)
    entering = who & ~stalled & (speed < rules.STALL_SPEED)
    flying = who & ~stalled & ~entering
    turn, throttle = np.clip(action[:, 0], -1.0, 1.0), np.clip(action[:, 1], 0.0, 1.0)

    share = np.clip((speed - p("min_speed")) / (p("max_speed") - p("min_speed")), 0.0, 1.0)
    rate = p("max_turn_rate") + share * (p("min_turn_rate") - p("max_turn_rate"))
    commanded = turn * rate * (1.0 - rules.TURN_LOST_PER_HP * lost) * rules.DT
    limit = rules.STALL_TURN_RATE * rules.DT
    falling = np.clip(wrap_angle(-np.pi / 2 - yaw, challenge=challenge), -limit, limit)
    dyaw = np.where(stalled, falling, commanded)
    new_yaw = wrap_angle(yaw + dyaw, challenge=challenge)
    sin, cos = np.sin(new_yaw), np.cos(new_yaw)

    pull = -p("gravity") * sin * rules.DT
    in_stall = (speed + pull) * (1.0 - p("drag_coeff") * rules.DT)
    bled = speed - p("turn_bleed_coeff") * np.abs(commanded) * speed
    in_flight = bled + (throttle * p("max_thrust") - p("drag_coeff") * bled) * rules.DT + pull
    new_speed = np.clip(np.where(stalled, in_stall, in_flight), p("min_speed"), vmax)

    moving = stalled | flying
    state.stall[:, seat] -= stalled
    state.stall[:, seat][stalled & (new_speed > rules.STALL_RECOVERY_SPEED)] = 0
    state.stall[:, seat][entering] = rules.STALL_TICKS
    state.turn_rate[:, seat] = np.where(moving, dyaw / rules.DT, np.where(entering, 0.0, state.turn_rate[:, seat]))
    x = state.x[:, seat] + new_speed * cos * rules.DT
    y = state.y[:, seat] + new_speed * sin * rules.DT
    x, y, new_speed, alive = _border_challenge(x, y, new_speed) if challenge else _walls_classic(x, y, new_speed)
    for array, value in ((state.x, x), (state.y, y), (state.yaw, new_yaw), (state.speed, new_speed)):
        array[:, seat] = np.where(moving, value, array[:, seat])
    state.alive[:, seat] &= alive | ~moving
    state.cooldown[:, seat] -= moving & state.alive[:, seat] & (state.cooldown[:, seat] > 0)
    shooting = flying & state.alive[:, seat] & (action[:, 2] > 0.0) & (state.cooldown[:, seat] == 0)
    _shoot(state, seat, np.flatnonzero(shooting))


def _walls_classic(x: Array, y: Array, speed: Array) -> tuple[Array, Array, Array, Array]:
    band, push = rules.WALL_BAND, rules.WALL_PUSH * rules.DT
    depth = np.clip((np.abs(x) - (rules.HALF_WIDTH - band)) / band, 0.0, 1.0)
    x = np.clip(x - np.sign(x) * push * depth**2, -rules.HALF_WIDTH, rules.HALF_WIDTH)
    below, above = np.clip((band - y) / band, 0.0, 1.0), np.clip((y - (rules.HEIGHT - band)) / band, 0.0, 1.0)
    y = np.clip(y + push * below**2 - push * above**2, 0.0, rules.HEIGHT)
    return x, y, speed, np.ones(len(x), bool)


def _border_challenge(x: Array, y: Array, speed: Array) -> tuple[Array, Array, Array, Array]:
    depth = np.clip((y - (rules.HEIGHT - rules.WALL_BAND)) / rules.WALL_BAND, 0.0, 1.0)
    slowed = np.maximum(speed - rules.CHALLENGE_CEILING_DRAG * depth**2 * rules.DT, 20.0)
    speed = np.where(depth > 0.0, slowed, speed)
    alive = y > rules.CHALLENGE_DEADLY_ALTITUDE
    return wrap_x(x, challenge=True), np.minimum(y, rules.HEIGHT), speed, alive


def _shoot(state: State, seat: int, matches: Array) -> None:
    """Put a bullet into the first free slot of the given matches ([K] indices)."""
    slot = np.argmax(state.bullet_life[matches, seat] <= 0, axis=1)
    yaw = state.yaw[matches, seat]
    cos, sin = np.cos(yaw), np.sin(yaw)
    where = (matches, seat, slot)
    speed = state.parameter("bullet_speed")[matches]
    state.bullet_x[where] = state.x[matches, seat] + rules.MUZZLE_OFFSET * cos
    state.bullet_y[where] = state.y[matches, seat] + rules.MUZZLE_OFFSET * sin
    state.bullet_vx[where], state.bullet_vy[where] = speed * cos, speed * sin
    state.bullet_life[where] = state.parameter("bullet_lifetime_ticks")[matches]
    state.cooldown[matches, seat] = state.parameter("gun_cooldown_ticks")[matches]


def _hit(state: State, active: Array, *, challenge: bool) -> Hits:
    """Consume the bullets that reach a living enemy; a bullet from behind glances off."""
    damage, glances = np.zeros_like(state.hp), np.zeros_like(state.hp)
    cone = np.cos(state.parameter("rear_aspect_cone"))
    for seat in (0, 1):
        target = 1 - seat
        dx = wrap_x(state.bullet_x[:, seat] - state.x[:, target, None], challenge=challenge)
        dy = state.bullet_y[:, seat] - state.y[:, target, None]
        near = (dx * dx + dy * dy <= HIT_DISTANCE**2) & (state.bullet_life[:, seat] > 0)
        near &= (active & state.alive[:, target])[:, None]
        if not near.any():
            continue
        speed = np.hypot(state.bullet_vx[:, seat], state.bullet_vy[:, seat]) + ~near
        heading = np.cos(state.yaw[:, target])[:, None], np.sin(state.yaw[:, target])[:, None]
        along = (state.bullet_vx[:, seat] * heading[0] + state.bullet_vy[:, seat] * heading[1]) / speed
        glancing = near & (along > cone[:, None])
        # A target that one bullet has killed lets the next one pass.
        damaging = near & ~glancing
        near &= np.cumsum(damaging, axis=1) - damaging < state.hp[:, target, None]
        glances[:, seat] = (near & glancing).sum(axis=1)
        damage[:, seat] = (near & damaging).sum(axis=1)
        state.bullet_life[:, seat][near] = 0
        state.hp[:, target] -= damage[:, seat]
        state.alive[:, target] &= state.hp[:, target] > 0
    return Hits(damage, glances)
