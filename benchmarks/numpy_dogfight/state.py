"""The state of N matches as NumPy arrays, and geometry shared by all other modules.

N is the number of matches; the second axis is the seat; B is the number of bullets a seat can have in flight. Yaw is an
angle. Angles and wrapped distances go through the few functions at the end, the only place where the rule sets differ.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from sparring.envs.dogfight import rules

B = rules.BULLETS_PER_FIGHTER
Array = np.ndarray


@dataclass
class Memory:
    """Memory of a scripted opponent, one value per seat: int32 [N, 2]."""

    mode: Array
    """Mode of the dogfighter, phase of the brawler, sign of the chaser's yo-yo."""
    timer: Array
    """Decisions before the mode may change; decisions left of the chaser's yo-yo."""
    mode_ticks: Array
    """Decisions spent in ATTACK (dogfighter), decisions left of PUNISH (brawler)."""
    evade_ticks: Array
    """Decisions left of the dodge."""
    evade_direction: Array
    """+1 or -1: the direction of the last dodge."""

    @classmethod
    def fresh(cls, matches: int) -> Memory:
        """Return the memory at the start of a match."""
        shape = (matches, 2)
        memory = cls(*(np.zeros(shape, np.int32) for _ in fields(cls)))
        memory.evade_direction[:] = 1
        return memory


@dataclass
class State:
    """State of N matches.

    A fighter is out of the match once `alive` is False; under challenge rules the ground does that and leaves its hp.
    """

    x: Array
    y: Array
    yaw: Array
    speed: Array
    turn_rate: Array
    """Signed yaw rate of the last tick, rad/s [N, 2]; only the challenge observation shows it."""
    hp: Array
    cooldown: Array
    stall: Array
    alive: Array
    bullet_x: Array
    bullet_y: Array
    bullet_vx: Array
    bullet_vy: Array
    bullet_life: Array
    physics: Array
    """[N, 13] in the order of `rules.PARAMETERS`."""
    tick: Array
    closing: Array
    """Closing speed over the last tick, m/s [N]; kept under challenge rules only."""
    memory: Memory

    @classmethod
    def empty(cls, matches: int, dtype: np.dtype | type = np.float32) -> State:
        """Return N matches with all numbers zero and no fighter alive; `NumpyDogfight` fills them."""
        seats, slots = (matches, 2), (matches, 2, B)
        return cls(
            **{name: np.zeros(seats, dtype) for name in ("x", "y", "yaw", "speed", "turn_rate")},
            **{name: np.zeros(seats, np.int32) for name in ("hp", "cooldown", "stall")},
            **{f"bullet_{name}": np.zeros(slots, dtype) for name in ("x", "y", "vx", "vy")},
            alive=np.zeros(seats, bool),
            bullet_life=np.zeros(slots, np.int32),
            physics=np.zeros((matches, len(rules.PARAMETERS)), dtype),
            tick=np.zeros(matches, np.int32),
            closing=np.zeros(matches, dtype),
            memory=Memory.fresh(matches),
        )

    @property
    def both_alive(self) -> Array:
        """Return whether both fighters are alive, bool [N]."""
        return self.alive[:, 0] & self.alive[:, 1]

    def parameter(self, name: str) -> Array:
        """Return one physics parameter of every match, [N]."""
        return self.physics[:, rules.PARAMETER_INDEX[name]]


def wrap_angle(angle: Array, *, challenge: bool) -> Array:
    """Return the same direction within [-pi, pi]: half a turn changes its sign, or keeps it under challenge rules."""
    turns = np.abs(angle) / (2.0 * np.pi)
    whole = np.ceil(turns - 0.5) if challenge else np.floor(turns + 0.5)
    return angle - 2.0 * np.pi * np.copysign(whole, angle)


def wrap_x(x: Array, *, challenge: bool) -> Array:
    """Return the shortest difference on the 1000 m circle under challenge rules; unchanged under classic rules."""
    width = 2.0 * rules.HALF_WIDTH
    return x - width * np.round(x / width) if challenge else x


def energy(speed: Array, y: Array, gravity: Array) -> Array:
    """Return twice the specific energy, v^2 + 2 g y, m^2/s^2."""
    return speed * speed + 2.0 * gravity * y
