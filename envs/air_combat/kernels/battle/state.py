"""State of matches with options (`rules.CombatOptions`), and their start.

Seats 0 to T - 1 are one side, T to 2T - 1 the other.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.battle.conditions import Conditions, Gust, draw_conditions
from sparring.envs.air_combat.kernels.battle.missile import Flare, Missile
from sparring.envs.air_combat.kernels.battle.radar import Track
from sparring.envs.air_combat.kernels.battle.stores import Orders, Stores
from sparring.envs.air_combat.kernels.gun import Round
from sparring.envs.air_combat.kernels.state import AirClock, CombatSettings, Plane
from sparring.envs.air_combat.kernels.step import (
    CHASE_ASIDE,
    CHASE_FAR,
    CHASE_NEAR,
    FAR,
    FAST,
    HIGH,
    LOW,
    NEAR,
    PI,
    SLOW,
    begin_plane,
    start_height,
)
from sparring.envs.air_combat.kernels.tables import AirframeTables

SPACING = wp.constant(rules.TEAM_SPACING)


@wp.struct
class BattleSettings:
    """Options of `rules.CombatOptions` that kernels read."""

    size: int
    """Aircraft a side."""
    missiles: int
    flares: int
    """At the start, of each aircraft."""
    varied: bool
    """Whether physics are drawn."""
    observe_physics: bool
    radar: bool
    form: int
    """Index into `rules.FORMS`."""
    collisions: float
    """Distance, m, at which aircraft are lost; 0 for none, as below."""
    load_limit: float
    """g."""
    hard_deck: float
    """Height, m."""


@wp.struct
class SeatStep:
    """Per-seat values kept during a step."""

    orders: Orders
    place: wp.vec3
    """At the start of the tick."""
    hp: float
    rounds: int
    phi: float
    """At the start of the step."""
    ground: float
    """Potential of the ground at the start of the step."""
    alive: bool
    """At the start of the tick."""
    damage: float
    """In this tick."""


@wp.struct
class Battle:
    """State of all matches."""

    tables: AirframeTables
    planes: wp.array2d[Plane]
    rounds: wp.array2d[Round]
    clock: wp.array[AirClock]
    bots: wp.array2d[int]
    match_id: wp.array[int]
    stores: wp.array2d[Stores]
    missiles: wp.array2d[Missile]
    flares: wp.array2d[Flare]
    past: wp.array2d[wp.vec3]
    """Places of the missiles at the start of the tick."""
    seats: wp.array2d[SeatStep]
    ranges: wp.array2d[float]
    """Of the drawn physics [7, 2], low and high."""
    conditions: wp.array[Conditions]
    gusts: wp.array2d[Gust]
    tracks: wp.array2d[Track]
    """The other side's track of each aircraft [N, S]; empty without radar."""
    history: wp.array2d[Plane]
    """Aircraft at the ends of the last steps [N, S * HISTORY]; empty without drawn physics."""


@wp.func
def opponent_of(planes: wp.array2d[Plane], match: int, seat: int, size: int) -> int:
    """Return the nearest opposing aircraft that is not lost; the first of them if all are."""
    foes = wp.where(seat < size, size, 0)
    chosen = foes
    nearest = float(1.0e12)
    for i in range(foes, foes + size):
        gap = planes[match, i].pos - planes[match, seat].pos
        square = wp.dot(gap, gap)
        if planes[match, i].hp > 0.0 and square < nearest:
            nearest = square
            chosen = i
    return chosen


@wp.func
def begin_battle(world: Battle, match: int, settings: CombatSettings, options: BattleSettings) -> None:
    """Place one side in line abreast, and the other side rotated by half a circle about the middle."""
    clock = world.clock[match]
    row = int(wp.rand_init(settings.seed, world.match_id[match]))
    rng = wp.rand_init(row, clock.matches)
    height = start_height(wp.randf(rng, LOW, HIGH), row, clock.matches, settings)
    speed = wp.randf(rng, SLOW, FAST)
    half = 0.5 * wp.randf(rng, NEAR, FAR)
    bearing = wp.randf(rng, -PI, PI)
    heading = wp.randf(rng, -PI, PI)
    middle = wp.vec3(half * wp.cos(bearing), half * wp.sin(bearing), 0.0)
    line = wp.vec3(-wp.sin(bearing), wp.cos(bearing), 0.0)
    turned = True
    if wp.randf(rng) < settings.chase:  # as `step.begin_match`
        ahead = wp.vec3(wp.cos(heading), wp.sin(heading), 0.0)
        line = wp.vec3(-ahead[1], ahead[0], 0.0)
        lead = ahead + line * wp.randf(rng, -CHASE_ASIDE, CHASE_ASIDE)
        lead = lead * (0.5 * wp.randf(rng, CHASE_NEAR, CHASE_FAR))
        middle = -lead * wp.where(wp.randf(rng) < 0.5, 1.0, -1.0)
        turned = False
    down = wp.vec3(0.0, 0.0, -height)
    for k in range(options.size):
        position = middle + line * ((float(k) - 0.5 * float(options.size - 1)) * SPACING)
        world.planes[match, k] = begin_plane(world.tables, down + position, heading, speed, settings.six, False)
        other = begin_plane(world.tables, down - position, heading, speed, settings.six, turned)
        world.planes[match, options.size + k] = other
    drawn = wp.rand_init(int(wp.rand_init(row, clock.matches)), 0)  # Bursts use 1 and up, gusts -1 and down.
    world.conditions[match] = draw_conditions(world.ranges, drawn, height)
    for seat in range(world.gusts.shape[1]):
        world.gusts[match, seat] = Gust()
    load = Stores()
    load.missiles = options.missiles
    load.flares = options.flares
    for seat in range(2 * options.size):
        world.stores[match, seat] = load
    for k in range(world.rounds.shape[1]):
        world.rounds[match, k] = Round()
    for k in range(world.missiles.shape[1]):
        world.missiles[match, k] = Missile()
    for k in range(world.flares.shape[1]):
        world.flares[match, k] = Flare()
    clock.tick = 0
    clock.matches = clock.matches + 1
    world.clock[match] = clock
