"""The rules of air combat as data. Importing this file needs neither torch nor Warp."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from zlib import crc32

from sparring.configs.core.allowed import complaint, option
from sparring.configs.core.errors import ConfigError, choose

ENV_ID = "sparring/AirCombat-v1"
CHANGES = ("drag and thrust beyond Mach 0.86, the limit of alpha, and starts that mirror to the bit",)
"""Changes of each version; policies of older versions still play, since observations and actions are the same."""
VERSION = 1 + len(CHANGES)
TICKS_PER_SECOND = 60
DT = 1.0 / TICKS_PER_SECOND
"""Length of a tick, s."""
ACTION_REPEAT = 4
"""Ticks for which an action is held: 15 actions a second."""
MAX_TICKS = 7200
"""Two minutes."""
MODELS = ("point_mass", "f16", "f4")
"""Flight models: the F-16 as a point mass and with six degrees of freedom, the F-4 as a point mass."""
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

The trigger fires above 0."""

START_HEIGHT = (3000.0, 8000.0)
START_SPEED = (180.0, 260.0)
START_DISTANCE = (1500.0, 5000.0)
"""Ranges of the start, m and m/s. Both aircraft have the same height and speed; the second is the first turned by half
a circle about the middle. The start is therefore fair to both seats."""

LOW_START_HEIGHT = (60.0, 1500.0)
"""Range in m of a start near the ground, drawn evenly in its logarithm: half of them are below 300 m."""
CHASE_DISTANCE, CHASE_ASIDE = (300.0, 1500.0), 0.5
"""Start with one aircraft behind the other, only in training: distance in m, and maximum lateral fraction of it."""

CONE_NEAR, CONE_FAR = 150.0, 915.0
"""Ranges in m within which the cone does damage (about 500 to 3000 ft)."""
CONE_COS = 0.99939
"""Cosine of the half angle of the cone, 2 degrees."""
CONE_RATE = 0.8
"""Damage per second at the near end of the cone, of a life of 1; a quarter of it at the far end."""

MAGAZINE = 510
"""Rounds at the start."""
BURST, BURST_TICKS = 5, 3
"""Rounds per simulated burst, and ticks between bursts: 100 rounds per second."""
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
"""Maximum bursts of a seat in the air at once."""

BOTS = {
    "do_nothing": "hands off: 1 g and no roll, wherever the nose points, at a quarter of the throttle",
    "straight": "flies level on its heading at about 200 m/s",
    "turning": "a level turn to the right at 3 g and about 200 m/s",
    "chaser": "points its velocity at the opponent, full throttle, fires when the opponent is ahead",
    "dogfighter": "points its nose ahead of the opponent, and dives to gain speed when it is slow",
    "ace": "as dogfighter, but flies at its best turning speed and pulls up out of the plane of an overshoot",
    "brawler": "turns at the limit of lift in every position and fires early",
    "evader": "breaks across the path of an opponent that points at it, leaves others at military power, never fires",
    "deck": "turns towards the opponent at a height of 100 m, points its nose when it is close ahead, and fires",
    "extender": "leaves at 250 m until the opponent is 3.5 km away, comes back firing, and leaves again",
    "weaver": "weaves away from the opponent at 250 m and 4 g, never fires",
    "spiral": "a turn to the left at 150 m and 3.5 g, never fires",
    "dragger": "leaves at 60 m, turns back as hard as it can when an opponent close behind points at it, and fires",
    "runner": "leaves at 80 m with afterburner, and jinks when the opponent is close, never fires",
    "scissors": "turns towards the opponent's side at 100 m all the time, at idle while it is close behind, and fires",
    "climber": "climbs until it is slow, dives at the opponent and fires, and climbs again, down to 50 m",
}
"""Scripted pilots and what each does; its index is its id."""
HELD_OUT = ("ace", "evader", "spiral", "dragger", "runner", "scissors", "climber")
"""Pilots that no run file trains against."""
ACTIONS = -1
"""Used instead of a bot id for a seat played by actions."""

OBSERVATION = (
    *("speed", "mach", "height", "energy_height", "climb", "nose_elevation", "roof_elevation", "wing_elevation"),
    *("load", "roll_rate", "alpha", "power", "hp", "rounds", "time_left", "ground_distance"),
    *("bearing_x", "bearing_y", "bearing_z", "range_far", "range_near", "closure"),
    *("aim_x", "aim_y", "aim_z", "relative_x", "relative_y", "relative_z"),
    *("its_nose_x", "its_nose_y", "its_nose_z", "its_up_x", "its_up_y", "its_up_z"),
    *("its_speed", "its_height", "its_load", "its_hp", "cos_off_nose", "cos_off_tail"),
    *("aim_roll_sin", "aim_roll_cos", "aim_angle", "aim_angle_fine"),
)
"""Columns of an observation. Vectors are in the observer's body axes: nose, right wing, belly."""
FINE_ANGLE = 0.1
"""Angle from the nose to the aim in rad at which `aim_angle_fine` is 1; `aim_angle` is it over pi."""
OBSERVATION_ARMED = (
    *("missiles", "flares", "lock", "seeker_range", "own_missile", "own_missile_homing", "own_missile_time"),
    *("warned", "warned_x", "warned_y", "warned_z", "warned_range_far", "warned_range_near", "warned_closure"),
    *("radar_warned", "radar_x", "radar_y", "radar_z"),
)
"""Further columns with missiles or flares; x, y and z as above.

- `seeker_range`: range at which the seeker would just see the opponent, divided by the opponent's range, at most 4
- `own_missile_time`: time until the soonest hit, in 10 s
- `warned`: a missile homes on the observer within 6 km
- `radar_warned`: the observer is in an opponent's radar field of view; the vector points at the nearest one"""
ACTION_NAMES_ARMED = ("launch", "flare")
"""Further columns of an action with missiles or flares, which act above 0."""
FORMS = ("continuous", "discrete", "manoeuvres", "commands")
"""Forms of an action."""
COMMAND_NAMES = ("heading", "altitude", "speed", "trigger")
"""Columns of an action of the form `commands`, in [-1, 1]: parts of the greatest change, right and up positive."""
HEADING_CHANGE, ALTITUDE_CHANGE, SPEED_CHANGE = math.pi, 2000.0, 100.0
"""Maximum changes in a command: rad, m and m/s."""
DISCRETE = (
    (-0.25, 0.0, 0.25, 0.5, 1.0),
    (-1.0, -0.25, 0.0, 0.25, 1.0),
    (-1.0, 0.54, 1.0),
    (0.0, 1.0),
)
"""Levels of pull, roll, throttle (idle, military, afterburner) and trigger; a discrete action has their indices."""
MANOEUVRES = {
    "level": "flies level on its heading at about 200 m/s",
    "pure_pursuit": "points its velocity at the opponent",
    "lead_pursuit": "points its nose ahead of the opponent, where rounds meet it",
    "lag_pursuit": "flies towards a point 300 m behind the opponent",
    "break_turn": "turns as hard as it can across its own path towards the opponent",
    "sustained_turn": "turns towards the opponent at 5 g at most",
    "high_yo_yo": "pulls up out of the plane of the turn, towards above the opponent",
    "low_yo_yo": "turns towards below the opponent, to gain speed and cut the corner",
    "beam": "turns across the line to the opponent and flies level, at military power: the notch",
    "extend": "flies away from the opponent in a slight descent",
    "climb": "climbs on its heading by 31 degrees",
    "dive": "dives on its heading by 27 degrees",
}
"""Manoeuvres and what each does; all but level and beam with afterburner. Its index is its number."""
RADAR_ANGLE = math.radians(60.0)
"""Half angle of a radar's field of view about the nose."""
RADAR_RANGE = 40_000.0
"""m."""
EYE_RANGE = 1500.0
"""m within which pilots see all round."""
NOTCH_SPEED = 30.0
"""m/s towards or away below which a target that is lower is lost in the ground returns."""
TRACK_TICKS = 10 * TICKS_PER_SECOND
"""Lifetime of a track without detection."""
OBSERVATION_RADAR = ("tracked", "track_age")
"""Further columns with radar: whether the nearest opponent is detected now, and the time since in 10 s, at most 1.

Beyond the memory all columns of an opponent are zeros."""
OBSERVATION_OTHER = (
    *("flies", "bearing_x", "bearing_y", "bearing_z", "range_far", "range_near", "closure"),
    *("relative_x", "relative_y", "relative_z", "nose_x", "nose_y", "nose_z", "hp"),
)
"""Further columns for each aircraft beside the observer and its nearest opponent, as above; zeros once it is lost.

With teams first the mates, then the other opponents, each by seat. An observer that is lost sees zeros."""
OBSERVATION_PHYSICS = (
    *("mass", "thrust", "drag", "shear_x", "shear_y", "shear_z", "turbulence", "sensor_noise", "sensor_delay"),
)
"""Further columns, the last, with drawn physics that are observed. The shear is in body axes, like other vectors."""
GROUND_LIMIT = "[0, 1000]"
"""Allowed heights in m of the ground limit; 0 turns it off."""
OBSERVATION_GROUND = (
    *("ground_height", "ground_near", "ground_time_straight", "ground_time_turning", "ground_margin"),
    "its_ground_height",
)
"""Further columns, the last of all, with the ground observed: all but the last are of the observer's own aircraft.

In order: height in km, at most 1; `exp(-height / 100 m)`; times until the ground in 10 s, at most 1. The first time is
at the present velocity, the second with the present load factor. Then come the height in km that a full pull-out
leaves, in [-1, 1], and the opponent's height in km, at most 1."""
TEAM_SPACING = 600.0
"""m between the aircraft of a side at the start, which fly in line abreast."""


@dataclass(frozen=True)
class CombatParameter:
    """A drawn quantity: default and the ranges of the two levels."""

    name: str
    default: float
    narrow: tuple[float, float]
    full: tuple[float, float]
    unit: str
    limits: tuple[float, float]
    """What ranges of one's own must lie in."""


HISTORY = 4
"""Steps that delayed sensors look back, with the present one."""
NOISE_RATE = 0.2
"""Error of a velocity in m/s for each m of error of a place."""
PARAMETERS = (
    CombatParameter("mass", 1.0, (0.95, 1.05), (0.85, 1.25), "of the nominal", (0.5, 2.0)),
    CombatParameter("thrust", 1.0, (0.95, 1.05), (0.8, 1.2), "of the nominal", (0.0, 3.0)),
    CombatParameter("drag", 1.0, (0.95, 1.05), (0.8, 1.3), "of the nominal", (0.0, 3.0)),
    CombatParameter("wind_shear", 0.0, (0.0, 2.0), (0.0, 6.0), "m/s per km of height", (0.0, 50.0)),
    CombatParameter("turbulence", 0.0, (0.0, 1.5), (0.0, 5.0), "m/s", (0.0, 20.0)),
    CombatParameter("sensor_noise", 0.0, (0.0, 5.0), (0.0, 25.0), "m", (0.0, 1000.0)),
    CombatParameter("sensor_delay", 0.0, (0.0, 1.0), (0.0, 3.0), "steps", (0.0, HISTORY - 1.0)),
)
"""Physics that are drawn for a match, the same for all its aircraft."""
LEVELS = ("none", "narrow", "full")
MATCH_REGIMES: dict[str, dict[str, Any]] = {
    **{level: {"drawn": level} for level in LEVELS},
    "low_start": {"low_start": 1.0},
    **{gun: {"gun": gun} for gun in GUNS},
    **{model: {"model": model, "gun": ""} for model in MODELS},
}
"""Evaluation regimes, each with the conditions that it changes. A flight model has its usual gun. A level draws the
physics of each match; a policy observes them only if trained to."""


def usual_gun(model: str) -> str:
    """Return the gun of a flight model where none is named."""
    return GUNS[1] if model == "f16" else GUNS[0]


def ranges(level: str) -> tuple[tuple[float, float], ...]:
    """Return (low, high) of each of `PARAMETERS`; raises `UnknownNameError` for another level."""
    choose("randomization", level, LEVELS)
    if level == "none":
        return tuple((parameter.default, parameter.default) for parameter in PARAMETERS)
    return tuple(getattr(parameter, level) for parameter in PARAMETERS)


@dataclass(frozen=True)
class CombatOptions:
    """Match options beyond two aircraft and their guns; all off by default. Raises `ConfigError` out of range."""

    missiles: int = option(0, "[0, 8]")
    """Infrared missiles per aircraft at the start."""
    flares: int = option(0, "[0, 120]")
    """Flares per aircraft at the start."""
    team_size: int = option(1, "[1, 8]")
    """Aircraft per side. Seats 0 to team_size - 1 are one side, the rest the other."""
    randomization: str = option("none", LEVELS)
    """Ranges from which the physics of each match are drawn: none, narrow or full."""
    observe_physics: bool = option(True)
    """Append the drawn physics to the observation."""
    radar: bool = option(False)
    """Show opponents only while radar or eyesight detects them, and for 10 s afterwards."""
    observe_ground: bool = option(False)
    """Append ground columns to the observation. A policy without them uses the columns before."""
    action_form: str = option("continuous", FORMS)
    """continuous; discrete: indices into `DISCRETE`; manoeuvres: an index into `MANOEUVRES`, and weapons free (1);
    commands: changes of heading, altitude and speed for an autopilot, and the trigger (`COMMAND_NAMES`)."""
    collisions: float = option(0.0, "[0, 100]")
    """Distance in m at which two aircraft collide and both are lost; 0 for none."""
    load_limit: float = option(0.0, "[0, 20]")
    """Load factor in g, either way, beyond which an aircraft breaks; 0 for none."""
    hard_deck: float = option(0.0, "[0, 3000]")
    """Height in m at which an aircraft is lost; 0 for the ground."""

    def __post_init__(self) -> None:
        """Raise an error for values out of range."""
        for entry in fields(self):
            value, allowed = getattr(self, entry.name), entry.metadata["allowed"]
            if type(entry.default) is int and type(value) is not int:
                raise ConfigError(f"{entry.name}={value!r}: must be an integer in {allowed}")
            if type(entry.default) is float and type(value) not in (int, float):
                raise ConfigError(f"{entry.name}={value!r}: must be a number in {allowed}")
            if type(entry.default) is bool and type(value) is not bool:
                raise ConfigError(f"{entry.name}={value!r}: must be True or False")
            if allowed and (wrong := complaint(value, allowed)):
                raise ConfigError(f"{entry.name}={value}: {wrong}")

    @property
    def armed(self) -> bool:
        """Whether aircraft carry anything besides the gun."""
        return self.missiles + self.flares > 0

    @property
    def observation(self) -> tuple[str, ...]:
        """Names of the columns of an observation."""
        return self._observed_without_ground + (OBSERVATION_GROUND if self.observe_ground else ())

    @property
    def _observed_without_ground(self) -> tuple[str, ...]:
        columns = tuple(
            f"{who}_{index}_{name}"
            for who in ("mate", "foe")
            for index in range(1, self.team_size)
            for name in OBSERVATION_OTHER
        )
        radar = OBSERVATION_RADAR if self.radar else ()
        physics = OBSERVATION_PHYSICS if self.randomization != "none" and self.observe_physics else ()
        return OBSERVATION + (OBSERVATION_ARMED if self.armed else ()) + radar + columns + physics

    @property
    def choices(self) -> tuple[int, ...]:
        """Number of choices of each column of an action; empty for continuous actions and commands."""
        if self.action_form in ("continuous", "commands"):
            return ()
        base = (len(MANOEUVRES), 2) if self.action_form == "manoeuvres" else tuple(map(len, DISCRETE))
        return base + ((2, 2) if self.armed else ())

    @property
    def action_sizes(self) -> dict[str, Any]:
        """Numbers of actions of each kind in the contract."""
        if self.choices:
            return {"continuous": 0, "binary": 0, "categorical": list(self.choices)}
        return {"continuous": 3, "binary": len(self.actions) - 3}

    @property
    def layout(self) -> str:
        """Fingerprint of the observation and action columns in the contract: a policy with another one cannot play.

        The ground's columns are the last and not part of it: a policy that does not see them plays with those before.
        """
        columns = self._observed_without_ground
        return f"{len(columns)}:{crc32(' '.join(columns + self.actions).encode()):08x}"

    @property
    def contract(self) -> dict[str, Any]:
        """Options, besides the layout, that a policy must match: those not at their default.

        Hidden drawn physics are not included: a policy plays with any.
        """
        names = [entry.name for entry in fields(self) if entry.name != "observe_physics"]
        if not self.observe_physics:
            names.remove("randomization")
        chosen = {name: getattr(self, name) for name in names}
        return {name: value for name, value in chosen.items() if value != getattr(PLAIN, name)}

    @classmethod
    def of_contract(cls, contract: Mapping[str, Any]) -> CombatOptions:
        """Return the options in a contract, those of the matches that its policy plays, or in a section of a run."""
        return cls(**{entry.name: contract[entry.name] for entry in fields(cls) if entry.name in contract})

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the columns of an action."""
        columns = {"manoeuvres": ("manoeuvre", "weapons_free"), "commands": COMMAND_NAMES}
        return columns.get(self.action_form, ACTION_NAMES) + (ACTION_NAMES_ARMED if self.armed else ())


PLAIN = CombatOptions()
"""Two aircraft and their guns."""


def bot_id(name: str) -> int:
    """Return the id of a scripted pilot; raises `UnknownNameError` with the choices and the nearest match."""
    names = tuple(BOTS)
    return names.index(choose("bot", name, names))
