"""The state of a match as Warp structs.

Headings are unit vectors (`cos_yaw`, `sin_yaw`) rather than angles. A tick turns by less than 0.05 rad, so the rotation
is two short polynomials instead of two trigonometric calls. It also loses less precision over a match than adding small
angles to a large one. Lengths are in metres, speeds in m/s, times in ticks of 1/120 s.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.dogfight.rules import BULLETS_PER_FIGHTER

SLOTS = wp.constant(BULLETS_PER_FIGHTER)


@wp.struct
class Fighter:
    """One fighter. Alive while `hp > 0` and not `crashed`; in a stall while `stall > 0`."""

    x: float
    y: float
    cos_yaw: float
    sin_yaw: float
    speed: float
    turn_rate: float
    """Angular velocity of the last tick, rad/s (observed under challenge rules)."""
    hp: wp.int16
    cooldown: wp.int16
    stall: wp.int16
    crashed: wp.int16
    """1 after a crash into the ground under challenge rules, which kills without costing hp."""


@wp.struct
class Bullet:
    """One bullet; its slot tells the shooter. `dx, dy` is its unit direction, `life` (ticks) 0 marks a free slot."""

    x: float
    y: float
    dx: float
    dy: float
    life: int


@wp.struct
class BotMemory:
    """Memory of a scripted opponent between ticks; all zeros at the start of a match except `evade_direction`."""

    mode: wp.int16
    timer: wp.int16
    """Decisions for which the mode is held (or the chaser's yo-yo lasts)."""
    mode_ticks: wp.int16
    """Decisions spent attacking (dogfighter), decisions left of a punish (brawler)."""
    evade_ticks: wp.int16
    evade_direction: wp.int16
    pad: wp.int16


@wp.struct
class MatchClock:
    """Ticks played in this match, and the number of matches started in this row of the batch (a counter for draws)."""

    tick: int
    matches: int
    closing: float
    """Closing speed over the last tick, m/s; kept under challenge rules only, 0 at the start."""


@wp.struct
class Physics:
    """The 13 randomizable parameters of one match, in the order of `rules.PARAMETERS`."""

    gravity: float
    drag_coeff: float
    turn_bleed_coeff: float
    max_speed: float
    min_speed: float
    max_thrust: float
    bullet_speed: float
    gun_cooldown_ticks: float
    bullet_lifetime_ticks: float
    max_hp: float
    max_turn_rate: float
    min_turn_rate: float
    rear_aspect_cone: float


@wp.struct
class RewardWeights:
    """Weights of the reward terms; see `reward.py`."""

    damage_dealt: float
    damage_taken: float
    win: float
    lose: float
    draw: float
    approach: float
    alive: float
    proximity: float
    facing: float
    shaping: float
    exposure: float
    zero_sum: float
    gamma: float


@wp.struct
class Settings:
    """Options shared by all matches of a batch."""

    challenge: bool
    bot_every_tick: bool
    fixed_spawn: bool
    observe_physics: bool
    ticks_per_step: int
    max_ticks: int
    closing_tick: int
    """Tick from which the arena closes; 0: never."""
    seed: int
