"""Both seats' observations: 59 floats (46 without the physics), or one 56-float frame under challenge rules.

The layout is the one documented by the environment. Bullets are sorted by distance, nearest first, and padded with
zeros to eight.
"""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.sensing import CLOSING_LIMIT, Sight, sight
from benchmarks.numpy_dogfight.state import Array, State, wrap_x
from sparring.envs.dogfight import rules

NORMALIZERS = np.array([parameter.normalizer for parameter in rules.PARAMETERS])
ENERGY_SCALE = 250.0**2 + 2.0 * rules.CHALLENGE_GRAVITY * rules.HEIGHT
VELOCITY_SCALE = 250.0
FAR = 1e9


def observe(state: State, *, challenge: bool, observe_physics: bool = True, max_ticks: int = rules.MAX_TICKS) -> Array:
    """Return observations [N, 2, 59 or 46], or under challenge rules the newest frame [N, 2, 56]."""
    seats = []
    for seat in (0, 1):
        view = sight(state, seat, slice(None), challenge=challenge)
        clock = (max_ticks - state.tick) / max_ticks
        bullets = _bullets(state, seat, challenge=challenge)
        columns = _challenge(view, bullets, clock) if challenge else _classic(view, bullets, clock)
        if observe_physics and not challenge:
            columns += list((state.physics / NORMALIZERS).T)
        seats.append(np.stack(columns, axis=1))
    return np.stack(seats, axis=1).astype(state.x.dtype)


def _classic(view: Sight, bullets: list[Array], clock: Array) -> list[Array]:
    me, foe, p = view.me, view.foe, view.physics
    return [
        me.speed / p["max_speed"],
        me.cos,
        me.sin,
        me.hp / p["max_hp"],
        me.cooldown / p["gun_cooldown_ticks"],
        me.y / rules.HEIGHT,
        view.dx / 1000.0,
        view.dy / 1000.0,
        foe.speed / p["max_speed"],
        foe.cos,
        foe.sin,
        foe.hp / p["max_hp"],
        view.distance / 1000.0,
        *bullets,
        clock,
    ]


def _challenge(view: Sight, bullets: list[Array], clock: Array) -> list[Array]:
    me, foe, p = view.me, view.foe, view.physics
    return [
        me.speed / p["max_speed"],
        me.cos,
        me.sin,
        me.hp / p["max_hp"],
        me.cooldown / p["gun_cooldown_ticks"],
        me.y / rules.HEIGHT,
        me.x / rules.HALF_WIDTH,
        me.energy / ENERGY_SCALE,
        view.dx / 1000.0,
        view.dy / 1000.0,
        foe.speed / p["max_speed"],
        foe.cos,
        foe.sin,
        foe.hp / p["max_hp"],
        view.distance / 1000.0,
        view.closing / CLOSING_LIMIT,
        np.clip(foe.turn_rate / 4.0, -1.0, 1.0),
        foe.energy / ENERGY_SCALE,
        view.foe_off / np.pi,
        *bullets,
        view.off / np.pi,
        view.foe_off / np.pi,
        (me.speed * me.cos - foe.speed * foe.cos) / VELOCITY_SCALE,
        (me.speed * me.sin - foe.speed * foe.sin) / VELOCITY_SCALE,
        clock,
    ]


def _bullets(state: State, seat: int, *, challenge: bool) -> list[Array]:
    """Return 32 columns: relative x, y, mine, direction of each of the eight bullets nearest to `seat`."""
    order = [seat, 1 - seat]
    live = state.bullet_life[:, order].reshape(len(state.x), -1) > 0
    dx = state.bullet_x[:, order].reshape(live.shape) - state.x[:, seat, None]
    dy = state.bullet_y[:, order].reshape(live.shape) - state.y[:, seat, None]
    dx = wrap_x(dx, challenge=challenge)
    mine = np.arange(live.shape[1]) < live.shape[1] // 2
    nearest = np.argsort(np.where(live, dx * dx + dy * dy, FAR), axis=1, kind="stable")
    columns = np.stack([dx / 1000.0, dy / 1000.0, mine + 0.0 * dx, np.arctan2(dy, dx) / np.pi], axis=2)
    columns = np.take_along_axis(columns * live[:, :, None], nearest[:, :, None], axis=1)
    rows = columns[:, : rules.OBSERVED_BULLETS].reshape(len(state.x), -1)
    return [*rows.T, *np.zeros((4 * rules.OBSERVED_BULLETS - rows.shape[1], len(state.x)))]
