"""The rules of air combat as data. Importing this file needs neither torch nor Warp."""

from __future__ import annotations

from zlib import crc32

from sparring.configs.core.errors import choose

ENV_ID = "sparring/AirCombat-v1"
VERSION = 1
TICKS_PER_SECOND = 60
DT = 1.0 / TICKS_PER_SECOND
"""Length of a tick, s."""
ACTION_REPEAT = 4
"""Ticks for which an action is held: 15 actions a second."""
MAX_TICKS = 7200
"""Two minutes."""
MODELS = ("point_mass", "f16")
"""Flight models."""
GUNS = ("cone", "rounds")
"""cone: damage while the opponent is in front. rounds: single rounds that fly and hit."""
FLOOR, CEILING = 0.0, 15_000.0
"""Heights in m that end an aircraft's flight: the ground, and the top of the tables."""

LOAD_MOST, LOAD_LEAST = 9.0, -3.0
"""Load factors that full stick commands, g."""
ROLL_MOST = 3.8
"""Roll rate that full stick commands, rad/s."""
ACTION_NAMES = ("pull", "roll", "throttle", "trigger")
"""Columns of an action. The first three are in [-1, 1]: pull 0 is 1 g; roll to the right; throttle -1 is idle.

The trigger fires above 0.
"""

START_HEIGHT = (3000.0, 8000.0)
START_SPEED = (180.0, 260.0)
START_DISTANCE = (1500.0, 5000.0)
"""Ranges of the start, m and m/s. Height and speed are those of both; the second aircraft is the first turned by half a
circle about the middle, so that no seat has an advantage."""

CONE_NEAR, CONE_FAR = 150.0, 915.0
"""Ranges in m within which the cone does damage (about 500 to 3000 ft)."""
CONE_COS = 0.99939
"""Cosine of the half angle of the cone, 2 degrees."""
CONE_RATE = 0.8
"""Damage per second at the near end of the cone, of a life of 1; a quarter of it at the far end."""

MAGAZINE = 510
"""Rounds at the start."""
BURST, BURST_TICKS = 5, 3
"""Rounds that fly as one, and ticks between two of these: 100 rounds a second."""
ROUND_SPEED = 1030.0
"""m/s at the muzzle, relative to the aircraft."""
ROUND_DRAG = 0.45
"""Part of its speed that a round loses in a second."""
ROUND_TICKS = 72
ROUND_SPREAD = 0.003
"""Standard deviation of the direction of a burst, rad."""
HIT_RADIUS = 5.0
"""m."""
HIT_DAMAGE = 0.2
"""Of a life of 1, per burst that hits."""
SLOTS = ROUND_TICKS // BURST_TICKS
"""Bursts of a seat in the air at once."""

BOTS = {
    "do_nothing": "hands off: 1 g and no roll, wherever the nose points, at a quarter of the throttle",
    "straight": "flies level on its heading at about 200 m/s",
    "turning": "a level turn to the right at 3 g and about 200 m/s",
    "chaser": "points its velocity at the opponent, full throttle, fires when the opponent is ahead",
    "dogfighter": "points its nose ahead of the opponent, and dives to gain speed when it is slow",
    "ace": "as dogfighter, but flies at its best turning speed and pulls up out of the plane of an overshoot",
    "brawler": "turns at the limit of lift in every position and fires early",
    "evader": "breaks across the path of an opponent that points at it, leaves others at military power, never fires",
}
"""Scripted pilots and what each does; its index is its id."""
HELD_OUT = ("ace", "evader")
"""Pilots that no run file trains against."""
ACTIONS = -1
"""In place of a bot id: the seat is played by actions."""

OBSERVATION = (
    *("speed", "mach", "height", "energy_height", "climb", "nose_elevation", "roof_elevation", "wing_elevation"),
    *("load", "roll_rate", "alpha", "power", "hp", "rounds", "time_left", "ground_distance"),
    *("bearing_x", "bearing_y", "bearing_z", "range_far", "range_near", "closure"),
    *("aim_x", "aim_y", "aim_z", "relative_x", "relative_y", "relative_z"),
    *("its_nose_x", "its_nose_y", "its_nose_z", "its_up_x", "its_up_y", "its_up_z"),
    *("its_speed", "its_height", "its_load", "its_hp", "cos_off_nose", "cos_off_tail"),
)
"""Columns of an observation. Vectors are in the observer's body axes: nose, right wing, belly."""
LAYOUT = f"{len(OBSERVATION)}:{crc32(' '.join(OBSERVATION + ACTION_NAMES).encode()):08x}"
"""Stands for the columns of observations and actions in the contract: a policy of others does not play."""


def bot_id(name: str) -> int:
    """Return the id of a scripted pilot; raises `UnknownNameError` with the choices and the nearest match."""
    names = tuple(BOTS)
    return names.index(choose("bot", name, names))
