"""The kernels: a step of every match, and a forced restart. One thread plays one match.

A step clamps the actions, runs up to `ticks_per_step` ticks with the match in registers, then writes rewards, end
flags and observations. A match that ended restarts. Its last state is stored, and `final_kernel` computes last
observations from it on demand, which takes less memory. All data of a match is indexed by its row in the batch, and
threads share no writable memory.
"""

import warp as wp

from sparring.envs.dogfight.kernels.bots.decide import decide
from sparring.envs.dogfight.kernels.observation import FRAME, FRAMES, clear_older_frames, shift_frames, write_newest
from sparring.envs.dogfight.kernels.physics import (
    DT,
    alive,
    in_control,
    outside,
    shoot,
    take_hits,
    tick_bullets,
    tick_fighter,
)
from sparring.envs.dogfight.kernels.reward import Geometry, measure, result_reward, step_reward
from sparring.envs.dogfight.kernels.sensing import distance
from sparring.envs.dogfight.kernels.spawn import draw_physics, fresh_memory, spawn
from sparring.envs.dogfight.kernels.state import (
    SLOTS,
    BotMemory,
    Bullet,
    Fighter,
    MatchClock,
    Physics,
    RewardWeights,
    Settings,
)
from sparring.envs.dogfight.rules import BULLETS_PER_FIGHTER
from sparring.envs.dogfight.rules import CLOSING_TICKS as RULE_CLOSING_TICKS

wp.set_module_options({"enable_backward": False, "optimization_level": 3})

CLOSING_TICKS = wp.constant(RULE_CLOSING_TICKS)
TRACE_TICK = wp.constant(16 + 3 * 2 * BULLETS_PER_FIGHTER)


@wp.struct
class World:
    """Arrays of the state of N matches."""

    fighters: wp.array2d[Fighter]
    bullets: wp.array2d[Bullet]
    memory: wp.array2d[BotMemory]
    physics: wp.array[Physics]
    clock: wp.array[MatchClock]
    bots: wp.array2d[int]
    match_id: wp.array[int]
    ranges: wp.array2d[float]


@wp.struct
class MatchEnds:
    """The observable part of the last state of each row's most recently ended match."""

    fighters: wp.array2d[Fighter]
    bullets: wp.array2d[Bullet]
    physics: wp.array[Physics]
    clock: wp.array[MatchClock]
    older_frames: wp.array2d[float]
    """All frames but the newest, [2N, D - 56]; empty under classic rules, which have one frame."""


@wp.struct
class StepResults:
    """Arrays that a step writes for its caller; shapes in `batch.DogfightBatch`, but `obs` is [2N, D]."""

    obs: wp.array2d[float]
    reward: wp.array2d[float]
    terminated: wp.array[bool]
    truncated: wp.array[bool]
    outcome: wp.array[int]
    length: wp.array[int]
    final_hp: wp.array2d[int]
    invalid_actions: wp.array[int]
    trace: wp.array3d[float]


@wp.func
def clamp_action(action: wp.vec3) -> wp.vec3:
    """Clamp turn to [-1, 1] and throttle to [0, 1]; shoot is only compared with zero."""
    return wp.vec3(wp.clamp(action[0], -1.0, 1.0), wp.clamp(action[1], 0.0, 1.0), action[2])


@wp.func
def read_action(actions: wp.array2d[wp.vec3], results: StepResults, bot: int, match: int, seat: int) -> wp.vec3:
    """Return a seat's clamped action, zero where a bot plays; a non-finite one counts as invalid and becomes zero."""
    if bot >= 0:
        return wp.vec3(0.0, 0.0, 0.0)
    action = actions[match, seat]
    if wp.isfinite(action):
        return clamp_action(action)
    results.invalid_actions[match] = results.invalid_actions[match] + 1
    return wp.vec3(0.0, 0.0, 0.0)


@wp.func
def outcome_of(a: Fighter, b: Fighter, tick: int, max_ticks: int) -> int:
    """Return -1 while playing, 0 for a draw, else 1 + the winning seat."""
    if alive(a) and alive(b) and tick < max_ticks:
        return -1
    # A dead fighter counts as 0 hp: elimination takes precedence over hp at time-out.
    left_a = wp.where(alive(a), int(a.hp), 0)
    left_b = wp.where(alive(b), int(b.hp), 0)
    if left_a == left_b:
        return 0
    return wp.where(left_a > left_b, 1, 2)


@wp.func
def begin_match(world: World, match: int, settings: Settings) -> None:
    """Draw physics, place both fighters, clear bullets and memories."""
    clock = world.clock[match]
    # Two rounds of hashing give unrelated streams to adjacent match ids and successive matches.
    row = int(wp.rand_init(settings.seed, world.match_id[match]))
    rng = wp.rand_init(row, clock.matches)
    p = draw_physics(wp.rand_init(row, clock.matches), world.ranges, settings.challenge)
    places = wp.rand_init(int(rng), 1)
    world.physics[match] = p
    for seat in range(2):
        world.fighters[match, seat] = spawn(places, seat, p, settings.fixed_spawn)
        world.memory[match, seat] = fresh_memory()
    for slot in range(2 * SLOTS):
        world.bullets[match, slot] = Bullet()
    clock.tick = 0
    clock.closing = 0.0
    clock.matches = clock.matches + 1
    world.clock[match] = clock


@wp.func
def write_both(world: World, obs: wp.array2d[float], match: int, settings: Settings) -> None:
    """Write the (newest) observations of both seats from the stored state."""
    a = world.fighters[match, 0]
    b = world.fighters[match, 1]
    p = world.physics[match]
    clock = world.clock[match]
    write_newest(obs, 2 * match, match, 0, a, b, p, world.bullets, clock, settings)
    write_newest(obs, 2 * match + 1, match, 1, b, a, p, world.bullets, clock, settings)


@wp.func
def next_observation(world: World, obs: wp.array2d[float], match: int, settings: Settings) -> None:
    """Write the observations after a step within a match."""
    if settings.challenge:
        shift_frames(obs, 2 * match)
        shift_frames(obs, 2 * match + 1)
    write_both(world, obs, match, settings)


@wp.func
def first_observation(world: World, obs: wp.array2d[float], match: int, settings: Settings) -> None:
    """Write the observations at the start of a match; earlier frames are zeros."""
    write_both(world, obs, match, settings)
    if settings.challenge:
        clear_older_frames(obs, 2 * match)
        clear_older_frames(obs, 2 * match + 1)


@wp.func
def keep_end(world: World, results: StepResults, ends: MatchEnds, match: int, settings: Settings) -> None:
    """Store the state of a match that ended in this step, before its observation is written."""
    for seat in range(2):
        ends.fighters[match, seat] = world.fighters[match, seat]
    for slot in range(2 * SLOTS):
        ends.bullets[match, slot] = world.bullets[match, slot]
    ends.physics[match] = world.physics[match]
    ends.clock[match] = world.clock[match]
    if settings.challenge:
        for seat in range(2):
            for k in range(FRAME * (FRAMES - 1)):
                ends.older_frames[2 * match + seat, k] = results.obs[2 * match + seat, k]


@wp.func
def trace_fighter(trace: wp.array3d[float], match: int, row: int, at: int, f: Fighter) -> None:
    """Write eight values of a fighter (`rules.TRACE_FIELDS`); hp is 0 for a dead fighter, also after a crash."""
    trace[match, row, at] = f.x
    trace[match, row, at + 1] = f.y
    trace[match, row, at + 2] = f.cos_yaw
    trace[match, row, at + 3] = f.sin_yaw
    trace[match, row, at + 4] = f.speed
    trace[match, row, at + 5] = wp.where(alive(f), float(f.hp), 0.0)
    trace[match, row, at + 6] = float(f.cooldown)
    trace[match, row, at + 7] = float(f.stall)


@wp.func
def trace_tick(
    trace: wp.array3d[float], match: int, row: int, a: Fighter, b: Fighter, bullets: wp.array2d[Bullet], tick: int
) -> None:
    """Write one row of the trace: both fighters, all bullets, the tick."""
    trace_fighter(trace, match, row, 0, a)
    trace_fighter(trace, match, row, 8, b)
    for s in range(2 * SLOTS):
        trace[match, row, 16 + 3 * s] = bullets[match, s].x
        trace[match, row, 17 + 3 * s] = bullets[match, s].y
        trace[match, row, 18 + 3 * s] = float(bullets[match, s].life)
    trace[match, row, TRACE_TICK] = float(tick)


@wp.kernel
def restart_kernel(world: World, results: StepResults, restart: wp.array[bool], settings: Settings, first: int) -> None:
    """Start a new match in every row marked in `restart`."""
    match = wp.tid() + first
    if restart[match]:
        begin_match(world, match, settings)
        first_observation(world, results.obs, match, settings)


@wp.kernel
def observe_kernel(world: World, results: StepResults, settings: Settings, first: int) -> None:
    """Write the observations of a state that was set by the host."""
    match = wp.tid() + first
    first_observation(world, results.obs, match, settings)


@wp.struct
class Match:
    """A match at the end of a step, and the damage done in the step."""

    a: Fighter
    b: Fighter
    damage_a: int
    damage_b: int
    """Hp each side lost to bullets during the step."""
    left_out_a: int
    left_out_b: int
    """Hp each side lost outside the closing arena."""
    tick: int
    outcome: int


@wp.func
def count_bullets(bullets: wp.array2d[Bullet], match: int) -> int:
    """Count the live bullets of a match; without any, a tick skips the work on bullets."""
    live = int(0)
    for s in range(2 * SLOTS):
        if bullets[match, s].life > 0:
            live += 1
    return live


@wp.func
def trace_step(
    trace: wp.array3d[float], match: int, row: int, a: Fighter, b: Fighter, bullets: wp.array2d[Bullet], tick: int
) -> None:
    """Record a tick if this match is traced."""
    if match < trace.shape[0]:
        trace_tick(trace, match, row, a, b, bullets, tick)


@wp.func
def end_trace(trace: wp.array3d[float], match: int, first: int, end: int) -> None:
    """Mark the rows of a traced step after the end of its match."""
    if match < trace.shape[0]:
        for row in range(first, end):
            trace[match, row, TRACE_TICK] = -1.0


@wp.func
def play(
    world: World, results: StepResults, actions: wp.array2d[wp.vec3], p: Physics, match: int, settings: Settings
) -> Match:
    """Run the ticks of a step: bots decide, both fighters act, bullets fly, hits land at once, the clock advances.

    This hot loop is deliberately one long function: state in plain variables instead of a struct makes the simulator a
    third faster.
    """
    challenge = settings.challenge
    armour_cos = wp.cos(p.rear_aspect_cone)
    m = Match()
    a = world.fighters[match, 0]
    b = world.fighters[match, 1]
    memory_a = world.memory[match, 0]
    memory_b = world.memory[match, 1]
    clock = world.clock[match]
    bot_a = world.bots[match, 0]
    bot_b = world.bots[match, 1]
    action_a = read_action(actions, results, bot_a, match, 0)
    action_b = read_action(actions, results, bot_b, match, 1)
    live = count_bullets(world.bullets, match)
    outcome = int(-1)
    played = int(0)
    while played < settings.ticks_per_step and outcome < 0:
        if played == 0 or settings.bot_every_tick:
            if bot_a >= 0:
                memory_a, action_a = decide(
                    bot_a, memory_a, a, b, p, world.bullets, match, 0, armour_cos, clock.closing, challenge
                )
            if bot_b >= 0:
                memory_b, action_b = decide(
                    bot_b, memory_b, b, a, p, world.bullets, match, 1, armour_cos, clock.closing, challenge
                )
        apart = float(0.0)
        if challenge:
            apart = distance(a, b, True)
        # Read before the tick: a fighter that stalls in this tick does not shoot in it.
        armed_a = in_control(a) and action_a[2] > 0.0
        armed_b = in_control(b) and action_b[2] > 0.0
        a = tick_fighter(a, p, action_a, challenge)
        if armed_a and a.cooldown == wp.int16(0) and alive(a):
            a = shoot(world.bullets, match, 0, a, p, challenge)
            live += 1
        b = tick_fighter(b, p, action_b, challenge)
        if armed_b and b.cooldown == wp.int16(0) and alive(b):
            b = shoot(world.bullets, match, 1, b, p, challenge)
            live += 1
        if live > 0:
            live = tick_bullets(world.bullets, match, p, challenge)
            # Both sides are tested before either loses hp: fighters can kill each other in the same tick.
            hit_a = take_hits(world.bullets, match, 1, a, armour_cos, challenge)
            hit_b = take_hits(world.bullets, match, 0, b, armour_cos, challenge)
            a.hp = a.hp - wp.int16(hit_a)
            b.hp = b.hp - wp.int16(hit_b)
            m.damage_a = m.damage_a + hit_a
            m.damage_b = m.damage_b + hit_b
        if challenge:
            clock.closing = (apart - distance(a, b, True)) / DT
        clock.tick = clock.tick + 1
        closed = clock.tick - settings.closing_tick
        if settings.closing_tick > 0 and closed > 0 and closed % CLOSING_TICKS == 0:
            left = 1.0 - float(closed) / float(settings.max_ticks - settings.closing_tick)
            lost_a = outside(a, left)
            lost_b = outside(b, left)
            a.hp = a.hp - wp.int16(lost_a)
            b.hp = b.hp - wp.int16(lost_b)
            m.left_out_a = m.left_out_a + lost_a
            m.left_out_b = m.left_out_b + lost_b
        outcome = outcome_of(a, b, clock.tick, settings.max_ticks)
        trace_step(results.trace, match, played, a, b, world.bullets, clock.tick)
        played += 1
    end_trace(results.trace, match, played, settings.ticks_per_step)
    world.fighters[match, 0] = a
    world.fighters[match, 1] = b
    world.memory[match, 0] = memory_a
    world.memory[match, 1] = memory_b
    world.clock[match] = clock
    m.a = a
    m.b = b
    m.tick = clock.tick
    m.outcome = outcome
    return m


@wp.func
def write_rewards(
    results: StepResults, match: int, before: Geometry, m: Match, p: Physics, weights: RewardWeights, settings: Settings
) -> None:
    """Write both seats' rewards and the flags of the step."""
    alive_a = alive(m.a)
    alive_b = alive(m.b)
    died = not (alive_a and alive_b)
    after = measure(m.a, m.b, p, weights, settings)
    zero_sum = weights.zero_sum != 0.0
    # The potential of a terminal state is 0; at a time-out the trainer bootstraps, so phi' stays.
    if died or (zero_sum and m.outcome >= 0):
        after.potential_a = 0.0
        after.potential_b = 0.0
    reward_a = step_reward(weights, before, after, 0, m.damage_b, m.damage_a + m.left_out_a, alive_a)
    reward_b = step_reward(weights, before, after, 1, m.damage_a, m.damage_b + m.left_out_b, alive_b)
    reward_a = reward_a + result_reward(weights, m.outcome, 0)
    reward_b = reward_b + result_reward(weights, m.outcome, 1)
    if zero_sum:
        reward_a = 0.5 * (reward_a - reward_b)
        reward_b = -reward_a
    results.reward[match, 0] = reward_a
    results.reward[match, 1] = reward_b
    results.terminated[match] = died
    results.truncated[match] = m.outcome >= 0 and not died
    results.outcome[match] = m.outcome


@wp.func
def finish(world: World, results: StepResults, ends: MatchEnds, match: int, m: Match, settings: Settings) -> None:
    """Record the result of a match that ended and start the next one."""
    results.length[match] = m.tick
    results.final_hp[match, 0] = int(m.a.hp)
    results.final_hp[match, 1] = int(m.b.hp)
    keep_end(world, results, ends, match, settings)
    begin_match(world, match, settings)
    first_observation(world, results.obs, match, settings)


@wp.kernel
def step_kernel(
    world: World,
    results: StepResults,
    ends: MatchEnds,
    actions: wp.array2d[wp.vec3],
    weights: RewardWeights,
    settings: Settings,
    first: int,
) -> None:
    """Play one step of match `tid + first`; see the module docstring."""
    match = wp.tid() + first
    p = world.physics[match]
    before = measure(world.fighters[match, 0], world.fighters[match, 1], p, weights, settings)
    m = play(world, results, actions, p, match, settings)
    write_rewards(results, match, before, m, p, weights, settings)
    if m.outcome >= 0:
        finish(world, results, ends, match, m, settings)
    else:
        next_observation(world, results.obs, match, settings)


@wp.kernel
def final_kernel(
    results: StepResults,
    ends: MatchEnds,
    rows: wp.array[wp.int64],
    out: wp.array2d[float],
    settings: Settings,
    first: int,
) -> None:
    """Write to `out[match]` the last observation of seat `rows[match] - 2 match`, if the match ended in this step."""
    match = wp.tid() + first
    if results.terminated[match] or results.truncated[match]:
        row = int(rows[match])
        seat = row - 2 * match
        me = ends.fighters[match, seat]
        it = ends.fighters[match, 1 - seat]
        write_newest(out, match, match, seat, me, it, ends.physics[match], ends.bullets, ends.clock[match], settings)
        if settings.challenge:
            for k in range(FRAME * (FRAMES - 1)):
                out[match, FRAME + k] = ends.older_frames[row, k]
