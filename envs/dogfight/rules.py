"""Rules of the dogfight as plain data: constants, physics parameters, levels, regimes, names.

Needs neither Warp nor torch, so configuration, evaluation and documentation can import it. Units are metres,
seconds and radians unless noted; one tick is 1/120 s. The simulator (`physics.py`) reads every number from this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparring.configs import games, schema
from sparring.configs.core.errors import ConfigError, choose
from sparring.envs.game import HELD_OUT_PREFIX

ENV_ID = games.DOGFIGHT
VERSION = 2

TICKS_PER_SECOND = 120
DT = 1.0 / TICKS_PER_SECOND
MAX_TICKS = 10_800  # 90 s.
ACTION_REPEAT = 10  # Ticks per decision: 12 decisions a second.

HALF_WIDTH = 500.0
HEIGHT = 600.0
WALL_BAND = 50.0  # Width of the soft walls.
WALL_PUSH = 300.0  # m/s, of a soft wall at the very edge.
ARENA_RADIUS = math.hypot(HALF_WIDTH, 0.5 * HEIGHT)  # Of the circle through the corners, with which a closing begins.
CLOSING_TICKS = 120  # From one hp to the next that a fighter outside a closing arena loses.

FIGHTER_RADIUS = 8.0
BULLET_RADIUS = 3.0
MUZZLE_OFFSET = 12.0
STALL_SPEED = 30.0
STALL_RECOVERY_SPEED = 40.0
STALL_TICKS = 36  # 0.3 s.
STALL_TURN_RATE = 2.5  # rad/s, of the nose falling toward -pi/2.
SPEED_LOST_PER_HP = 0.03  # Share of the maximum speed.
TURN_LOST_PER_HP = 0.02  # Share of the turn rate.

SPAWN_SPEED = 50.0
SPAWN_SPEED_MARGIN = 15.0  # Above `min_speed`, for random spawns.
SPAWN_SPEED_HIGH = 80.0
SPAWN_X = 200.0
SPAWN_Y = 300.0

BULLETS_PER_FIGHTER = 2
"""Most bullets of one fighter in flight: longest lifetime / shortest cooldown = 90 / 45 ticks at level full."""
OBSERVED_BULLETS = 8

CHALLENGE_GRAVITY = 130.0
CHALLENGE_DEADLY_ALTITUDE = 5.0
CHALLENGE_CEILING_DRAG = 80.0  # m/s^2, of the thin air at the full height.
CHALLENGE_CEILING_MIN_SPEED = 20.0
CHALLENGE_FRAMES = 4
CHALLENGE_FRAME_SIZE = 56

RULES = ("classic", "challenge")
BOT_RATES = ("tick", "agent")
SPAWNS = ("random", "fixed")
BOTS, LEVELS = schema.BOTS, schema.LEVELS
ACTIONS = -1
"""Used instead of a bot id (an index in `BOTS`) for a seat played by actions."""

_SCRIPTS = ("left", "right", "tight", "wide", "straight", "straight_fire", "pursuit", "lead", "runner", "random")
HELD_OUT_SCRIPTS = tuple(f"{HELD_OUT_PREFIX}{name}" for name in _SCRIPTS)
"""Opponents that no run trains against (`envs/dogfight/training/opponents/held_out.py`)."""
HELD_OUT = (*HELD_OUT_SCRIPTS, "released/dogfight_unified_dr", "released/dogfight_strong_dr")
"""The set `held_out`: these opponents and released policies of a recipe unrelated to `quickstart`."""

PRACTICE = ("perch:nose=flat", "perch:nose=steep", "zoom:height=200")
"""Scripted training opponents in addition to the bots (`envs/dogfight/training/opponents/practice.py`)."""


@dataclass(frozen=True)
class Parameter:
    """One randomizable physics parameter: default, the two ranges, and its normalizer in the observation."""

    name: str
    default: float
    narrow: tuple[float, float]
    full: tuple[float, float]
    normalizer: float
    unit: str
    integer: bool = False


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("gravity", 80.0, (60.0, 100.0), (40.0, 120.0), 200.0, "m/s^2"),
    Parameter("drag_coeff", 0.9, (0.7, 1.1), (0.5, 1.3), 2.0, "1/s"),
    Parameter("turn_bleed_coeff", 0.25, (0.15, 0.35), (0.05, 0.45), 1.0, "1/rad"),
    Parameter("max_speed", 250.0, (220.0, 280.0), (180.0, 320.0), 500.0, "m/s"),
    Parameter("min_speed", 20.0, (15.0, 30.0), (10.0, 40.0), 100.0, "m/s"),
    Parameter("max_thrust", 180.0, (140.0, 220.0), (100.0, 260.0), 400.0, "m/s^2"),
    Parameter("bullet_speed", 400.0, (350.0, 450.0), (300.0, 500.0), 800.0, "m/s"),
    Parameter("gun_cooldown_ticks", 90, (70, 110), (45, 135), 240.0, "ticks", integer=True),
    Parameter("bullet_lifetime_ticks", 60, (45, 75), (30, 90), 180.0, "ticks", integer=True),
    Parameter("max_hp", 5, (4, 7), (3, 8), 10.0, "hp", integer=True),
    Parameter("max_turn_rate", 4.0, (3.2, 4.8), (2.5, 5.5), 8.0, "rad/s"),
    Parameter("min_turn_rate", 0.8, (0.6, 1.0), (0.4, 1.2), 4.0, "rad/s"),
    Parameter("rear_aspect_cone", 0.785, (0.5, 1.0), (0.3, 1.2), math.pi, "rad"),
)
PARAMETER_INDEX = {parameter.name: index for index, parameter in enumerate(PARAMETERS)}

REGIMES: dict[str, dict[str, float]] = {
    "default": {},
    "high_gravity": {"gravity": 120.0},
    "low_gravity": {"gravity": 40.0},
    "glass_cannon": {"max_hp": 3, "bullet_lifetime_ticks": 75},
    "tank_fight": {"max_hp": 8, "gun_cooldown_ticks": 60},
    "knife_fight": {"bullet_speed": 300.0, "bullet_lifetime_ticks": 30, "max_turn_rate": 5.5},
    "energy_fighter": {"turn_bleed_coeff": 0.45, "drag_coeff": 1.3, "max_thrust": 100.0},
    "sniper": {"bullet_speed": 500.0, "bullet_lifetime_ticks": 90, "rear_aspect_cone": 0.3},
}


_FIGHTER_TRACE = ("x", "y", "cos_yaw", "sin_yaw", "speed", "hp", "cooldown", "stall")
TRACE_FIELDS: tuple[str, ...] = (
    *(f"{name}_{seat}" for seat in range(2) for name in _FIGHTER_TRACE),
    *(f"bullet_{slot}_{name}" for slot in range(2 * BULLETS_PER_FIGHTER) for name in ("x", "y", "life")),
    "tick",
)
"""Columns of `DogfightBatch.trace`, a row per tick.

Positions in m, speeds in m/s, cooldown, stall and life in ticks. Hp is 0 for a dead fighter, also for one that crashed
with hp left. Bullets 0 and 1 belong to seat 0, 2 and 3 to seat 1; life 0 marks a free slot."""


def defaults() -> np.ndarray:
    """Return the default parameters, float32 [13], in the order of `PARAMETERS`."""
    return np.array([parameter.default for parameter in PARAMETERS], dtype=np.float32)


def ranges(name: str) -> np.ndarray:
    """Return the lower and upper bound of every parameter, float32 [13, 2], in the order of `PARAMETERS`.

    `name` is a level (none, narrow, full) or a regime; a regime is one point. Raises `UnknownNameError`.
    """
    choose("randomization", name, LEVELS + tuple(REGIMES))
    if name in ("narrow", "full"):
        return np.array([getattr(parameter, name) for parameter in PARAMETERS], dtype=np.float32)
    point = defaults()
    for key, value in REGIMES.get(name, {}).items():
        point[PARAMETER_INDEX[key]] = value
    return np.stack([point, point], axis=1)


def check_ranges(ranges: np.ndarray) -> None:
    """Raise an error unless ranges [13, 2] (low, high) are finite, ordered, whole where needed and consistent."""
    if ranges.shape != (len(PARAMETERS), 2):
        raise ConfigError(f"ranges have shape {ranges.shape}, expected ({len(PARAMETERS)}, 2): low and high")
    for parameter, (low, high) in zip(PARAMETERS, ranges.tolist(), strict=True):
        _check_range(parameter, low, high)
    bounds = {parameter.name: ranges[index] for index, parameter in enumerate(PARAMETERS)}
    slowest, fastest = bounds["min_speed"][1], bounds["max_speed"][0]
    if fastest <= slowest:
        raise ConfigError(f"max_speed from {fastest:g}: must be above min_speed, which goes up to {slowest:g}")
    lifetime, most = bounds["bullet_lifetime_ticks"][1], BULLETS_PER_FIGHTER
    # A longer life would overflow the bullet slots of a fighter: `shoot` would overwrite a live bullet.
    if lifetime > most * bounds["gun_cooldown_ticks"][0]:
        raise ConfigError(f"bullet_lifetime_ticks up to {lifetime:g} needs gun_cooldown_ticks >= {lifetime / most:g}")


def _check_range(parameter: Parameter, low: float, high: float) -> None:
    allowed = f"range of {parameter.name} is {low:g}..{high:g}"
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ConfigError(f"{allowed}: both must be finite, low <= high")
    if parameter.integer and not (low.is_integer() and high.is_integer() and low >= 1):
        raise ConfigError(f"{allowed}: both must be whole numbers from 1 up")


INTEGERS = np.array([parameter.integer for parameter in PARAMETERS])


def ranges_between(previous: str, level: str, fraction: float) -> np.ndarray:
    """Return the bounds of every parameter `fraction` of the way from one level or regime to another, float32 [13, 2].

    Ranges move linearly: lower = (1 - f) lower0 + f lower1, upper alike. From none to narrow to full every level
    contains the previous one, so a growing f only widens a range. A regime is a single point, so the ranges move away
    from it. Bounds of integer parameters are rounded inward, which keeps that order and never leaves the new level; if
    no whole number lies between them, both become the nearest one.
    """
    start, end = ranges(previous).astype(np.float64), ranges(level).astype(np.float64)
    bounds = (1.0 - fraction) * start + fraction * end
    bounds[INTEGERS] = _whole(bounds[INTEGERS])
    return bounds.astype(np.float32)


def _whole(bounds: np.ndarray) -> np.ndarray:
    """Return bounds [K, 2] rounded inward to whole numbers."""
    # The tolerance keeps whole bounds whole where interpolation left them off by rounding.
    lower, upper = np.ceil(bounds[:, 0] - 1e-9), np.floor(bounds[:, 1] + 1e-9)
    nearest = np.rint(bounds.mean(axis=1))
    empty = lower > upper
    return np.stack([np.where(empty, nearest, lower), np.where(empty, nearest, upper)], axis=1)


def bot_id(name: str) -> int:
    """Return the id of a scripted opponent; raises `UnknownNameError` with the choices and the nearest match."""
    return BOTS.index(choose("bot", name, BOTS))


def read_practice(name: str) -> str:
    """Return the name of a practice opponent; raises `UnknownNameError` for another."""
    return choose("practice opponent", name, PRACTICE)


OPPONENT_X = {"classic": 6, "challenge": 8}
"""Column of the opponent's relative x; the newest of the four challenge frames decides for all."""
_NEGATED = {"classic": (1, 6, 9), "challenge": (1, 6, 8, 11, 16, 18, 51, 52, 53)}
"""Columns that change sign in the mirror: horizontal components, turn rates and signed angles."""
_BULLETS = {"classic": 13, "challenge": 19}
_BULLET_SIZE = 4


class ArrayMirror:
    """The mirror on NumPy arrays, and the columns of observations [..., D] that it changes."""

    def __init__(self, rule_set: str, obs_dim: int) -> None:
        frames = CHALLENGE_FRAMES if rule_set == "challenge" else 1
        first, beyond = _BULLETS[rule_set], _BULLETS[rule_set] + _BULLET_SIZE * OBSERVED_BULLETS
        self.opponent_x = OPPONENT_X[rule_set]
        columns = np.arange(obs_dim).reshape(frames, -1)
        self.bullet_x = columns[:, first:beyond:_BULLET_SIZE].flatten()
        self.bearing = columns[:, first + 3 : beyond : _BULLET_SIZE].flatten()
        negated = columns[:, list(_NEGATED[rule_set])].flatten()
        self.sign = np.ones(obs_dim, np.float32)
        self.sign[np.concatenate([negated, self.bullet_x, self.bearing])] = -1.0

    def show(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return observations [B, D] with the opponent on the right, and side [B]: -1.0 where mirrored, else 1."""
        mirrored = obs[:, self.opponent_x] < 0.0
        bearing, x = obs[:, self.bearing], obs[:, self.bullet_x]
        # A bearing b, in units of pi, becomes 1 - b, or -1 - b if negative. A free slot (b = 0 and x = 0) stays 0.
        signs = np.where((bearing == 0.0) & (x <= 0.0), 0.0, np.where(bearing < 0.0, -1.0, 1.0))
        turned = obs * self.sign
        turned[:, self.bearing] = signs - bearing
        return np.where(mirrored[:, None], turned, obs), np.where(mirrored, -1.0, 1.0).astype(np.float32)

    @staticmethod
    def back(actions: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Return the actions [B, 3] in the original match for actions chosen on the output of `show`."""
        return np.concatenate([actions[:, :1] * side[:, None], actions[:, 1:]], axis=1)
