"""Recorded rows as match states, decisions and outcomes; README.md explains the arrays.

States are those of the NumPy peer (`State`), which both implementations can be given. Every function makes new ones, so
that a test may change them. `seat` is where the deciding bot, or the first fighter of a row, is put.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.numpy_dogfight.state import State
from sparring.envs.dogfight import rules

MEMORY = ("mode", "timer", "mode_ticks", "evade_ticks", "evade_direction")
YAW, X_Y = 2, slice(0, 2)


@dataclass
class Decisions:
    """Decisions of N bots: turn, throttle [N] float, shoot [N] bool, memory [N, 5] afterwards."""

    turn: np.ndarray
    throttle: np.ndarray
    shoot: np.ndarray
    memory: np.ndarray


@dataclass
class BotRows:
    """N situations, the bot [N] that decides in each from `seat`, what it decided, and which rows are stable."""

    state: State
    bots: np.ndarray
    seat: int
    challenge: bool
    decided: Decisions
    stable: np.ndarray


@functools.cache
def array(name: str) -> np.ndarray:
    """Return one recorded array, read-only."""
    with np.load(Path(__file__).with_name("dogfight.npz")) as archive:
        values = archive[name]
    values.flags.writeable = False
    return values


def bot_rows(rule_set: str, seat: int) -> BotRows:
    """Return every recorded bot decision of one rule set, made from `seat`."""
    challenge = rule_set == "challenge"
    prefix = "ch_bot" if challenge else "bot"
    state = _bot_state(prefix, seat, challenge=challenge)
    _set_memory(state, array(f"{prefix}_memory"), seat)
    turn, throttle = array(f"{prefix}_action").T
    decided = Decisions(turn, throttle, array(f"{prefix}_shoot"), array(f"{prefix}_memory_after"))
    return BotRows(state, array(f"{prefix}_id"), seat, challenge, decided, array(f"{prefix}_stable"))


def step_state(suffix: str = "", *, swapped: bool = False) -> State:
    """Return states before the recorded steps, or after (`suffix` "_after"); `swapped` exchanges seats."""
    fighters = array(f"step_fighters{suffix}")
    state = _state(fighters[:, :, :4], fighters[:, :, 4:], swapped)
    _set_bullets(state, array(f"step_bullets{suffix}"), swapped)
    state.physics[:] = array("step_physics")
    state.tick[:] = array(f"step_tick{suffix}")
    return state


def challenge_state(where: np.ndarray) -> State:
    """Return states of the challenge observations `where` (mask or indices), each with its last tick."""
    fighters, counts = array("ch_obs_fighters")[where], array("ch_obs_counts")[where]
    state = _state(fighters, counts, swapped=False)
    state.alive[:] = counts[:, :, 3] > 0
    _set_bullets(state, array("ch_obs_bullets")[where], swapped=False)
    state.physics[:] = challenge_physics()
    state.tick[:] = array("ch_obs_tick")[where]
    set_last_tick(state, array("ch_obs_previous")[where])
    return state


def set_last_tick(state: State, previous: np.ndarray) -> None:
    """Set turn rate and closing rate from x, y, yaw a tick earlier, [N, 2, 3]; both are 0 at tick 0."""
    started = state.tick > 0
    yaw_change = np.remainder(state.yaw - previous[:, :, YAW] + np.pi, 2.0 * np.pi) - np.pi
    state.turn_rate[:] = started[:, None] * yaw_change / rules.DT
    now = np.stack([state.x, state.y], axis=2)
    state.closing[:] = started * (_gap(previous[:, :, X_Y]) - _gap(now)) / rules.DT


def challenge_physics() -> np.ndarray:
    """Return the 13 parameters of every challenge row: defaults except gravity."""
    physics = rules.defaults()
    physics[rules.PARAMETER_INDEX["gravity"]] = rules.CHALLENGE_GRAVITY
    return physics


def _gap(places: np.ndarray) -> np.ndarray:
    """Return the distance of two places [N, 2, 2] on the wrapped arena."""
    dx, dy = (places[:, 1].astype(np.float64) - places[:, 0]).T
    width = 2.0 * rules.HALF_WIDTH
    return np.hypot(dx - width * np.round(dx / width), dy)


def _bot_state(prefix: str, seat: int, *, challenge: bool) -> State:
    swapped = seat == 1
    state = _state(array(f"{prefix}_fighters"), array(f"{prefix}_counts"), swapped)
    if challenge:
        bullets = array("ch_bot_bullets").copy()
        bullets[:, :, 4] = 1.0 - bullets[:, :, 4]  # recorded is 1 for the bot's own, whose index is 0
        _set_bullets(state, bullets, swapped)
        state.physics[:] = challenge_physics()
        state.tick[:] = array("ch_bot_tick")
        set_last_tick(state, array("ch_bot_previous")[:, _order(swapped)])
        # The bot reads the observation, which is more exact than a difference of rounded places.
        state.closing[:] = array("ch_bot_obs")[:, 15] * 250.0
        return state
    state.bullet_x[:, 1 - seat], state.bullet_y[:, 1 - seat] = np.moveaxis(array("bot_bullets"), 2, 0)
    state.bullet_life[:, 1 - seat] = array("bot_bullet_life")
    state.physics[:] = array("bot_physics")[array("bot_physics_row")]
    return state


def _state(fighters: np.ndarray, counts: np.ndarray, swapped: bool) -> State:
    """Return states from x, y, yaw, speed [N, 2, 4] and hp, cooldown, stall [N, 2, >= 3]."""
    state = State.empty(len(fighters), np.float32)
    seats = _order(swapped)
    for column, name in enumerate(("x", "y", "yaw", "speed")):
        getattr(state, name)[:] = fighters[:, seats, column]
    for column, name in enumerate(("hp", "cooldown", "stall")):
        getattr(state, name)[:] = counts[:, seats, column]
    state.alive[:] = state.hp > 0
    return state


def _order(swapped: bool) -> list[int]:
    return [1, 0] if swapped else [0, 1]


def _set_bullets(state: State, bullets: np.ndarray, swapped: bool) -> None:
    """Put bullets [N, S, 6] (x, y, vx, vy, owner, ticks left) into their owners' slots."""
    used = np.zeros(state.x.shape, int)
    for x, y, vx, vy, owner, life in np.moveaxis(bullets, (1, 2), (0, 1)):
        match = np.flatnonzero(life > 0)
        seat = owner[match].astype(int) ^ swapped
        slot = match, seat, used[match, seat]
        used[match, seat] += 1
        for target, values in (("x", x), ("y", y), ("vx", vx), ("vy", vy), ("life", life)):
            getattr(state, f"bullet_{target}")[slot] = values[match]


def _set_memory(state: State, memory: np.ndarray, seat: int) -> None:
    for column, name in enumerate(MEMORY):
        getattr(state.memory, name)[:, seat] = memory[:, column]
