"""State of a match in the kernels. SI units.

World axes are north, east and down (height is -z), body axes nose, right wing and belly.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp


@wp.struct
class Plane:
    """One aircraft under either flight model; the last five fields belong to the F-16's."""

    pos: wp.vec3
    """m."""
    vel: wp.vec3
    """m/s."""
    nose: wp.vec3
    """Unit vector of the body's x axis, along which the gun fires."""
    up: wp.vec3
    """Unit vector out of the cockpit's roof, the body's -z axis."""
    load: float
    """Load factor across the velocity (point mass) or along the body's -z axis (F-16), g."""
    roll_rate: float
    """About the velocity, rad/s, right wing down positive."""
    alpha: float
    """Angle of attack, rad."""
    power: float
    """Of the engine, 0 to 100 %."""
    hp: float
    """1 at the start, 0 when shot down."""
    rounds: int
    """Rounds left in the gun."""
    attitude: wp.quat
    """Rotation from body axes to the world's."""
    rates: wp.vec3
    """p, q, r in body axes, rad/s."""
    surfaces: wp.vec3
    """Elevator, aileron and rudder, degrees."""
    past_acceleration: wp.vec3
    """Of the last tick, world axes, m/s^2."""
    past_rotation: wp.vec3
    """Angular acceleration of the last tick, body axes, rad/s^2."""


@wp.struct
class Scales:
    """Factors of a match's physics, 1 for the airframe as it is."""

    mass: float
    """Factor of mass and moments of inertia: divides the forces."""
    thrust: float
    drag: float
    """Factor of the drag force."""


@wp.struct
class Command:
    """A pilot's command for a tick."""

    load: float
    """Load factor, g, within the limits of the airframe."""
    roll_rate: float
    """About the velocity, rad/s."""
    throttle: float
    """0 to 1; military power is at 0.77."""
    trigger: bool


@wp.struct
class AirClock:
    """Counters of a match's row."""

    tick: int
    matches: int
    """Matches started in this row, which choose its draws."""


@wp.struct
class CombatSettings:
    """Options of a batch that kernels read."""

    six: bool
    """The F-16 with six degrees of freedom; else the point mass."""
    single_rounds: bool
    ticks_per_step: int
    max_ticks: int
    seed: int
    chase: float
    """Chance that a match begins with one aircraft behind the other."""
    low_start: float
    """Chance that a match begins near the ground."""
    ground_limit: float
    """Minimum height in m, enforced on actions by a pull-out; 0 for no limit."""
    wing: wp.vec2
    """`Airframe.pull_out` of the airframe."""
    observe_ground: bool
    """Whether the last columns of an observation are `rules.OBSERVATION_GROUND`."""


@wp.struct
class CombatWeights:
    """Weights of the reward, see `kernels/step.py`."""

    damage_dealt: float
    damage_taken: float
    win: float
    lose: float
    draw: float
    shaping: float
    ammunition: float
    ground: float
    gamma: float
