"""Spaces of air combat's interfaces: bounds of observations, and actions.

Bounds exceed the flight envelope: Mach 4 and 1,200 m/s, while the fastest dive stays below Mach 2.5. The interfaces
clip to them, so they always hold.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from sparring.envs.air_combat.rules import CombatOptions

UNIT, PART = (-1.0, 1.0), (0.0, 1.0)
BOUNDS = {
    **dict.fromkeys(("speed", "mach", "its_speed", "range_far", "seeker_range", "warned_range_far"), (0.0, 4.0)),
    "height": (-0.1, 1.6),
    "energy_height": (-0.1, 9.0),
    "ground_distance": (0.0, 1.2),
    **dict.fromkeys(("load", "its_load"), (-4.0, 4.0)),
    "alpha": (-6.3, 6.3),
    "own_missile_time": (0.0, 4.0),
    **dict.fromkeys(
        ("roll_rate", "its_height", "closure", "warned_closure", "relative_x", "relative_y", "relative_z"), (-8.0, 8.0)
    ),
    **dict.fromkeys(("power", "hp", "its_hp", "rounds", "time_left", "range_near", "warned_range_near"), PART),
    **dict.fromkeys(("aim_angle", "aim_angle_fine", "missiles", "flares", "lock", "own_missile"), PART),
    **dict.fromkeys(("own_missile_homing", "warned", "radar_warned", "tracked", "track_age", "flies"), PART),
}
"""Bounds of observations by name without the aircraft; other columns are parts of unit vectors."""
PHYSICS = (-2.0, 2.0)
"""Of drawn physics."""
SLACK = 1e-3
"""Beyond a bound by rounding."""


def observation_space(options: CombatOptions) -> Box:
    """Return the space of a seat's observations, float32 [D]."""
    low, high = np.array([_bounds(name) for name in options.observation]).T
    return Box((low - SLACK).astype(np.float32), (high + SLACK).astype(np.float32), dtype=np.float32)


def action_space(options: CombatOptions) -> Box | MultiDiscrete:
    """Return the space of a seat's actions: numbers in [-1, 1], or choices."""
    if options.choices:
        return MultiDiscrete([*options.choices])
    return Box(-1.0, 1.0, (len(options.actions),), np.float32)


def _bounds(name: str) -> tuple[float, float]:
    who, _, rest = name.partition("_")
    if who in ("mate", "foe"):
        name = rest.partition("_")[2]
    if name in ("mass", "thrust", "drag", "turbulence") or name.startswith(("shear", "sensor")):
        return PHYSICS
    return BOUNDS.get(name, UNIT)
