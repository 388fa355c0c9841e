"""One step of a match, by one thread: pilots decide, aircraft fly, guns fire, the match ends or continues.

Draws depend on (seed, match id, number of matches started in the row) only. A match that ends is followed by the next
one in the same step; its last observations are kept in `final_obs`. Reward of a seat and step:

    r = damage_dealt d_it - damage_taken d_me - ammunition fired / magazine + shaping (gamma phi' - phi)
        + ground (gamma psi' - psi) + result,
    phi = exp(-distance / 8 km) - angle off_nose / pi + cos off_tail / 2 * exp(-distance / 3 km)
        + (exp(-angle off_nose / 0.15) - exp(-angle off its nose / 0.15)) * exp(-distance / 1 km)
    psi = -exp(-height margin of a full pull-out / 100 m)

phi' and psi' are 0 where a match ends, but psi' is -1 for an aircraft that hit the ground. The reward includes the
result at the time limit too: trainers must not bootstrap there.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16
from sparring.envs.air_combat.kernels.f16 import fly_f16, start_f16
from sparring.envs.air_combat.kernels.ground import ground_potential, hold_above, observe_ground
from sparring.envs.air_combat.kernels.gun import Round, cone_damage, fire, fly_rounds
from sparring.envs.air_combat.kernels.pilots import decide
from sparring.envs.air_combat.kernels.point_mass import fly_point_mass
from sparring.envs.air_combat.kernels.state import (
    AirClock,
    CombatSettings,
    CombatWeights,
    Command,
    Plane,
    Scales,
)
from sparring.envs.air_combat.kernels.tables import AirframeTables
from sparring.envs.air_combat.kernels.view import direction_of, observe

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

LOAD_MOST, LOAD_LEAST = wp.constant(rules.LOAD_MOST), wp.constant(rules.LOAD_LEAST)
ROLL_MOST = wp.constant(rules.ROLL_MOST)
FLOOR, CEILING = wp.constant(rules.FLOOR), wp.constant(rules.CEILING)
LOW, HIGH = (wp.constant(height) for height in rules.START_HEIGHT)
SLOW, FAST = (wp.constant(speed) for speed in rules.START_SPEED)
NEAR, FAR = (wp.constant(distance) for distance in rules.START_DISTANCE)
LOW_START, LOW_START_RATIO = (
    wp.constant(value) for value in (rules.LOW_START_HEIGHT[0], rules.LOW_START_HEIGHT[1] / rules.LOW_START_HEIGHT[0])
)
LOW_STARTS = wp.constant(2 - 2**31)  # Of no burst or gust.
GROUND = wp.constant(len(rules.OBSERVATION_GROUND))
CHASE_NEAR, CHASE_FAR = (wp.constant(distance) for distance in rules.CHASE_DISTANCE)
CHASE_ASIDE = wp.constant(rules.CHASE_ASIDE)
PI = wp.constant(math.pi)
MAGAZINE, BURST, BURST_TICKS = wp.constant(rules.MAGAZINE), wp.constant(rules.BURST), wp.constant(rules.BURST_TICKS)
ROUNDS = wp.constant(2 * rules.SLOTS)
SHAPING_RANGE = wp.constant(3000.0)  # m, of the angles.
SHAPING_FAR = wp.constant(8000.0)  # m, of the distance.
AIMING_RANGE, SHAPING_ANGLE = wp.constant(1000.0), wp.constant(0.15)  # m and rad, of the last degrees to a shot.
START_ALPHA = wp.constant(0.06)  # rad, near trim at the speeds of the start.
START_ELEVATOR = wp.constant(-2.0)  # Degrees.
START_POWER = wp.constant(50.0)  # %: military power.
FT = wp.constant(f16.FT)


@wp.struct
class AirWorld:
    """State of all matches."""

    tables: AirframeTables
    planes: wp.array2d[Plane]
    rounds: wp.array2d[Round]
    clock: wp.array[AirClock]
    bots: wp.array2d[int]
    match_id: wp.array[int]


@wp.struct
class AirResults:
    """Arrays that a step writes for its caller; shapes in `batch.AirCombatBatch`, but `obs` is [2N, D]."""

    obs: wp.array2d[float]
    final_obs: wp.array2d[float]
    reward: wp.array2d[float]
    terminated: wp.array[bool]
    truncated: wp.array[bool]
    outcome: wp.array[int]
    length: wp.array[int]
    final_hp: wp.array2d[float]
    invalid_actions: wp.array[int]


@wp.func
def unit_scales() -> Scales:
    """Return the airframe as it is."""
    scales = Scales()
    scales.mass = 1.0
    scales.thrust = 1.0
    scales.drag = 1.0
    return scales


@wp.func
def begin_plane(
    tables: AirframeTables, position: wp.vec3, heading: float, speed: float, six: bool, turned: bool
) -> Plane:
    """Return an aircraft in level flight with a full gun, near its trim.

    `turned` adds half a circle to the heading exactly, as a sum with pi in float32 does not.
    """
    plane = Plane()
    ahead = wp.vec3(wp.cos(heading), wp.sin(heading), 0.0)
    yaw = wp.quat(0.0, 0.0, wp.sin(0.5 * heading), wp.cos(0.5 * heading))
    if turned:
        ahead = -ahead
        yaw = wp.quat(0.0, 0.0, yaw[3], -yaw[2])
    roof = wp.vec3(0.0, 0.0, -1.0)
    plane.pos = position
    plane.vel = ahead * speed
    plane.alpha = START_ALPHA
    plane.nose = ahead * wp.cos(START_ALPHA) + roof * wp.sin(START_ALPHA)
    plane.up = roof * wp.cos(START_ALPHA) - ahead * wp.sin(START_ALPHA)
    plane.load = 1.0
    plane.power = START_POWER
    plane.hp = 1.0
    plane.rounds = MAGAZINE
    plane.attitude = yaw * wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), START_ALPHA)
    plane.surfaces = wp.vec3(START_ELEVATOR, 0.0, 0.0)
    if six:
        plane = start_f16(tables, plane, unit_scales())
    return plane


@wp.func
def start_height(height: float, row: int, matches: int, settings: CombatSettings) -> float:
    """Return the height of a start; with probability `settings.low_start` near the ground, from separate draws."""
    if settings.low_start <= 0.0:
        return height
    rng = wp.rand_init(int(wp.rand_init(row, matches)), LOW_STARTS)
    if wp.randf(rng) >= settings.low_start:
        return height
    return LOW_START * wp.pow(LOW_START_RATIO, wp.randf(rng))


@wp.func
def begin_match(world: AirWorld, match: int, settings: CombatSettings) -> None:
    """Place both aircraft, one being the other turned by half a circle about the middle; clear the rounds.

    With probability `settings.chase` one flies behind the other instead.
    """
    clock = world.clock[match]
    # Two rounds of hashing give unrelated streams to adjacent match ids and successive matches.
    row = int(wp.rand_init(settings.seed, world.match_id[match]))
    rng = wp.rand_init(row, clock.matches)
    height = start_height(wp.randf(rng, LOW, HIGH), row, clock.matches, settings)
    speed = wp.randf(rng, SLOW, FAST)
    half = 0.5 * wp.randf(rng, NEAR, FAR)
    bearing = wp.randf(rng, -PI, PI)
    heading = wp.randf(rng, -PI, PI)
    position = wp.vec3(half * wp.cos(bearing), half * wp.sin(bearing), -height)
    other = wp.vec3(-position[0], -position[1], -height)
    turned = True
    if wp.randf(rng) < settings.chase:
        ahead = wp.vec3(wp.cos(heading), wp.sin(heading), 0.0)
        aside = wp.vec3(-ahead[1], ahead[0], 0.0) * wp.randf(rng, -CHASE_ASIDE, CHASE_ASIDE)
        lead = (ahead + aside) * (0.5 * wp.randf(rng, CHASE_NEAR, CHASE_FAR))  # half the distance, from the middle
        lead = lead * wp.where(wp.randf(rng) < 0.5, 1.0, -1.0)  # which of them is behind
        position = wp.vec3(0.0, 0.0, -height) - lead
        other = wp.vec3(0.0, 0.0, -height) + lead
        turned = False
    world.planes[match, 0] = begin_plane(world.tables, position, heading, speed, settings.six, False)
    world.planes[match, 1] = begin_plane(world.tables, other, heading, speed, settings.six, turned)
    for k in range(world.rounds.shape[1]):
        world.rounds[match, k] = Round()
    clock.tick = 0
    clock.matches = clock.matches + 1
    world.clock[match] = clock


@wp.func
def observe_both(obs: wp.array2d[float], match: int, a: Plane, b: Plane, tick: int, settings: CombatSettings) -> None:
    """Write the observations of both seats."""
    time_left = 1.0 - float(tick) / float(settings.max_ticks)
    observe(obs, 2 * match, a, b, time_left, settings.single_rounds)
    observe(obs, 2 * match + 1, b, a, time_left, settings.single_rounds)
    if settings.observe_ground:
        observe_ground(obs, 2 * match, obs.shape[1] - GROUND, a, b, settings.wing)
        observe_ground(obs, 2 * match + 1, obs.shape[1] - GROUND, b, a, settings.wing)


@wp.func
def read_command(actions: wp.array2d[wp.vec4], results: AirResults, match: int, seat: int) -> Command:
    """Return a seat's action as a command; a non-finite one counts as invalid and is hands off."""
    c = Command()
    action = actions[match, seat]
    if not wp.isfinite(action):
        results.invalid_actions[match] = results.invalid_actions[match] + 1
        action = wp.vec4(0.0, 0.0, 0.54, 0.0)
    pull = wp.clamp(action[0], -1.0, 1.0)
    c.load = 1.0 + pull * wp.where(pull > 0.0, LOAD_MOST - 1.0, 1.0 - LOAD_LEAST)
    c.roll_rate = wp.clamp(action[1], -1.0, 1.0) * ROLL_MOST
    c.throttle = 0.5 * (wp.clamp(action[2], -1.0, 1.0) + 1.0)
    c.trigger = action[3] > 0.0
    return c


@wp.func
def within(plane: Plane) -> Plane:
    """Return the aircraft, lost if it is at the ground or above the tables."""
    height = -plane.pos[2]
    if height <= FLOOR or height >= CEILING:
        plane.hp = 0.0
    return plane


@wp.func
def fly(tables: AirframeTables, plane: Plane, command: Command, scales: Scales, six: bool) -> Plane:
    """Return the aircraft after a tick."""
    if six:
        return within(fly_f16(tables, plane, command, scales))
    return within(fly_point_mass(tables, plane, command, scales))


@wp.func
def limited(me: Plane, command: Command, bot: int, settings: CombatSettings) -> Command:
    """Return the command, for an aircraft flown by actions with the pull-out of the ground limit."""
    if bot >= 0 or settings.ground_limit <= 0.0:
        return command
    return hold_above(me, command, settings.ground_limit, settings.wing)


@wp.func
def ground_shaping(before: float, me: Plane, over: bool, weights: CombatWeights, wing: wp.vec2) -> float:
    """Return the ground's reward for a step from the potential `before`; an impact keeps the ground's potential."""
    after = float(-1.0)
    if -me.pos[2] > FLOOR:
        after = wp.where(over, 0.0, ground_potential(me, wing))
    return weights.ground * (weights.gamma * after - before)


@wp.func
def potential(me: Plane, it: Plane) -> float:
    """Return phi, see the module docstring."""
    gap = it.pos - me.pos
    distance = wp.max(wp.length(gap), 1.0)
    bearing = gap / distance
    off_nose = wp.acos(wp.clamp(wp.dot(me.nose, bearing), -1.0, 1.0))
    its = wp.acos(wp.clamp(-wp.dot(it.nose, bearing), -1.0, 1.0))
    far = wp.exp(-distance / SHAPING_FAR) - off_nose / PI
    behind = 0.5 * wp.dot(direction_of(it), bearing) * wp.exp(-distance / SHAPING_RANGE)
    aims = wp.exp(-off_nose / SHAPING_ANGLE) - wp.exp(-its / SHAPING_ANGLE)
    return far + behind + aims * wp.exp(-distance / AIMING_RANGE)


@wp.func
def outcome_of(a: Plane, b: Plane, tick: int, max_ticks: int) -> int:
    """Return -1 while playing, 0 for a draw, else 1 + the winning seat; at the time limit more hp wins."""
    if a.hp > 0.0 and b.hp > 0.0 and tick < max_ticks:
        return -1
    if wp.abs(a.hp - b.hp) < 1.0e-4:
        return 0
    return wp.where(a.hp > b.hp, 1, 2)


@wp.func
def result_reward(weights: CombatWeights, outcome: int, seat: int) -> float:
    """Return the reward of a match's result, 0 while it runs."""
    if outcome < 0:
        return 0.0
    if outcome == 0:
        return weights.draw
    return wp.where(outcome == 1 + seat, weights.win, -weights.lose)


@wp.kernel
def restart_kernel(
    world: AirWorld, results: AirResults, restart: wp.array[bool], settings: CombatSettings, first: int
) -> None:
    """Start a new match in every row marked in `restart`."""
    match = wp.tid() + first
    if restart[match]:
        begin_match(world, match, settings)
        observe_both(results.obs, match, world.planes[match, 0], world.planes[match, 1], 0, settings)


@wp.kernel
def observe_kernel(world: AirWorld, results: AirResults, settings: CombatSettings, first: int) -> None:
    """Write the observations of a state that was set by the host."""
    match = wp.tid() + first
    tick = world.clock[match].tick
    observe_both(results.obs, match, world.planes[match, 0], world.planes[match, 1], tick, settings)


@wp.kernel
def step_kernel(
    world: AirWorld,
    results: AirResults,
    actions: wp.array2d[wp.vec4],
    weights: CombatWeights,
    settings: CombatSettings,
    first: int,
) -> None:
    """Play one step of match `tid + first`."""
    match = wp.tid() + first
    scales = unit_scales()
    a = world.planes[match, 0]
    b = world.planes[match, 1]
    clock = world.clock[match]
    hp_a = a.hp
    hp_b = b.hp
    ground_a = float(0.0)
    ground_b = float(0.0)
    if weights.ground != 0.0:
        ground_a = ground_potential(a, settings.wing)
        ground_b = ground_potential(b, settings.wing)
    rounds_a = a.rounds
    rounds_b = b.rounds
    before_a = potential(a, b)
    before_b = potential(b, a)
    command_a = Command()
    command_b = Command()
    if world.bots[match, 0] >= 0:
        command_a = decide(world.bots[match, 0], a, b, settings.single_rounds, settings.wing)
    else:
        command_a = read_command(actions, results, match, 0)
    if world.bots[match, 1] >= 0:
        command_b = decide(world.bots[match, 1], b, a, settings.single_rounds, settings.wing)
    else:
        command_b = read_command(actions, results, match, 1)
    row = int(wp.rand_init(settings.seed, world.match_id[match]))
    outcome = int(-1)
    played = int(0)
    while played < settings.ticks_per_step and outcome < 0:
        place_a = a.pos
        place_b = b.pos
        if settings.single_rounds and clock.tick % BURST_TICKS == 0:
            # Draws of both seats use a different stream from the starts, which use (row, matches).
            rng = wp.rand_init(int(wp.rand_init(row, clock.matches)), 2 * clock.tick + 1)
            if command_a.trigger and a.rounds >= BURST:
                a = fire(world.rounds, match, 0, a, rng)
            rng = wp.rand_init(int(wp.rand_init(row, clock.matches)), 2 * clock.tick + 2)
            if command_b.trigger and b.rounds >= BURST:
                b = fire(world.rounds, match, 1, b, rng)
        a = fly(world.tables, a, limited(a, command_a, world.bots[match, 0], settings), scales, settings.six)
        b = fly(world.tables, b, limited(b, command_b, world.bots[match, 1], settings), scales, settings.six)
        # Both guns are tested before either loses hp: aircraft can kill each other in the same tick.
        damage_a = float(0.0)
        damage_b = float(0.0)
        if settings.single_rounds:
            damage_b = fly_rounds(world.rounds, match, 0, b, place_b)
            damage_a = fly_rounds(world.rounds, match, 1, a, place_a)
        else:
            if command_a.trigger:
                damage_b = cone_damage(a, b)
            if command_b.trigger:
                damage_a = cone_damage(b, a)
        a.hp = wp.max(a.hp - damage_a, 0.0)
        b.hp = wp.max(b.hp - damage_b, 0.0)
        clock.tick = clock.tick + 1
        outcome = outcome_of(a, b, clock.tick, settings.max_ticks)
        played += 1
    decided = a.hp <= 0.0 or b.hp <= 0.0
    after_a = wp.where(outcome >= 0, 0.0, potential(a, b))
    after_b = wp.where(outcome >= 0, 0.0, potential(b, a))
    loss_a = hp_a - a.hp
    loss_b = hp_b - b.hp
    shaped_a = weights.shaping * (weights.gamma * after_a - before_a)
    shaped_b = weights.shaping * (weights.gamma * after_b - before_b)
    if weights.ground != 0.0:
        shaped_a += ground_shaping(ground_a, a, outcome >= 0, weights, settings.wing)
        shaped_b += ground_shaping(ground_b, b, outcome >= 0, weights, settings.wing)
    fired_a = float(rounds_a - a.rounds) / float(MAGAZINE)
    fired_b = float(rounds_b - b.rounds) / float(MAGAZINE)
    reward_a = weights.damage_dealt * loss_b - weights.damage_taken * loss_a - weights.ammunition * fired_a + shaped_a
    reward_b = weights.damage_dealt * loss_a - weights.damage_taken * loss_b - weights.ammunition * fired_b + shaped_b
    results.reward[match, 0] = reward_a + result_reward(weights, outcome, 0)
    results.reward[match, 1] = reward_b + result_reward(weights, outcome, 1)
    results.terminated[match] = decided
    results.truncated[match] = outcome >= 0 and not decided
    results.outcome[match] = outcome
    world.planes[match, 0] = a
    world.planes[match, 1] = b
    world.clock[match] = clock
    if outcome >= 0:
        results.length[match] = clock.tick
        results.final_hp[match, 0] = a.hp
        results.final_hp[match, 1] = b.hp
        observe_both(results.final_obs, match, a, b, clock.tick, settings)
        begin_match(world, match, settings)
        observe_both(results.obs, match, world.planes[match, 0], world.planes[match, 1], 0, settings)
    else:
        observe_both(results.obs, match, a, b, clock.tick, settings)
