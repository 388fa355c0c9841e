"""Action and observation spaces, and the check of actions before they reach the simulator.

The bounds of observations are derived from the rules: each is the largest value over the full randomization ranges, in
normalized units. A bullet, for instance, is never farther from a fighter than the width of the arena plus the distance
it can fly. Every bound includes `SLACK` for float32 rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from sparring.envs.dogfight import rules

ACTION_NAMES = ("turn", "throttle", "shoot")
ACTION_LOW = (-1.0, 0.0, -1.0)
ACTION_HIGH = (1.0, 1.0, 1.0)

LENGTH_SCALE = 1000.0
"""Positions and distances are divided by this many metres."""
SLACK = 1e-5

Bounds = list[tuple[float, float]]
_FRACTION = (0.0, 1.0)
_SIGNED = (-1.0, 1.0)


def action_space() -> Box:
    """Return the action space: turn, throttle and shoot, float32 [3]."""
    return Box(np.array(ACTION_LOW, dtype=np.float32), np.array(ACTION_HIGH, dtype=np.float32), dtype=np.float32)


def observation_space(rule_set: str, observe_physics: bool) -> Box:
    """Return a player's observation space: float32 [59], [46] without physics, [224] under challenge rules."""
    bounds = _challenge_bounds() if rule_set == "challenge" else _classic_bounds(observe_physics)
    low, high = np.array(bounds, dtype=np.float64).T
    return Box((low - SLACK).astype(np.float32), (high + SLACK).astype(np.float32), dtype=np.float32)


def check_actions(actions: Any, shape: tuple[int, ...], whose: str = "actions") -> np.ndarray:
    """Return `actions` as float32 of `shape` [..., 3]; values outside the space are clamped later, by the simulator.

    Raises `ValueError` for a wrong shape, or with the position of a non-finite value.
    """
    array = np.asarray(actions, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"{whose}: shape {array.shape} is not {shape}; give {', '.join(ACTION_NAMES)}")
    finite = np.isfinite(array)
    if np.count_nonzero(finite) < finite.size:  # `all` takes twice the time
        where = tuple(int(index) for index in np.argwhere(~finite)[0])
        name, low, high = ACTION_NAMES[where[-1]], ACTION_LOW[where[-1]], ACTION_HIGH[where[-1]]
        raise ValueError(f"{whose}{list(where)} ({name}) = {array[where]} is not finite; give [{low:g}, {high:g}]")
    return array


def _classic_bounds(observe_physics: bool) -> Bounds:
    fighter = [_FRACTION, _SIGNED, _SIGNED, _FRACTION, _FRACTION, _FRACTION]
    opponent = [*_relative(0.0), _FRACTION, _SIGNED, _SIGNED, _FRACTION, _distance()]
    return fighter + opponent + _bullets() + [_FRACTION] + (_parameters() if observe_physics else [])


def _challenge_bounds() -> Bounds:
    lifted = 2.0 * rules.CHALLENGE_GRAVITY * rules.HEIGHT  # energy is v^2 + 2 g y: here top speed under the ceiling
    energy = (0.0, (_highest("max_speed") ** 2 + lifted) / (250.0**2 + lifted))
    fighter = [_FRACTION, _SIGNED, _SIGNED, _FRACTION, _FRACTION, _FRACTION, _SIGNED, energy]
    opponent = [*_relative(0.0), _FRACTION, _SIGNED, _SIGNED, _FRACTION, _distance()]
    velocity = 2.0 * _highest("max_speed") / 250.0  # both at top speed, flying apart
    geometry = [_SIGNED, _SIGNED, (-velocity, velocity), (-velocity, velocity)]
    frame = fighter + opponent + [_SIGNED, _SIGNED, energy, _SIGNED] + _bullets() + geometry + [_FRACTION]
    return frame * rules.CHALLENGE_FRAMES


def _relative(beyond: float) -> Bounds:
    """Return bounds of relative x and y for objects at most `beyond` metres outside the arena, seen from inside."""
    x = (2.0 * rules.HALF_WIDTH + beyond) / LENGTH_SCALE
    y = (rules.HEIGHT + beyond) / LENGTH_SCALE
    return [(-x, x), (-y, y)]


def _distance() -> tuple[float, float]:
    return 0.0, math.hypot(2.0 * rules.HALF_WIDTH, rules.HEIGHT) / LENGTH_SCALE


def _bullets() -> Bounds:
    reach = rules.MUZZLE_OFFSET + _highest("bullet_speed") * _highest("bullet_lifetime_ticks") * rules.DT
    return [*_relative(reach), _FRACTION, _SIGNED] * rules.OBSERVED_BULLETS


def _parameters() -> Bounds:
    return [(p.full[0] / p.normalizer, p.full[1] / p.normalizer) for p in rules.PARAMETERS]


def _highest(parameter: str) -> float:
    return rules.PARAMETERS[rules.PARAMETER_INDEX[parameter]].full[1]
