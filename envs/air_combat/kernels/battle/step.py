"""One step of a match with options (`rules.CombatOptions`): missiles, flares and T aircraft a side, by one thread.

Matches without options are played by `kernels/step.py`; flight, gun, starts and pilots are the same functions. In every
tick pilots release and fire, then missiles look and fly, then aircraft, flares and bursts move. All damage of a tick is
dealt at its end, independent of seat order. For T = 1, the reward of a seat and step equals `kernels/step.py`:

    r = damage_dealt (hp that the others lost) / T - damage_taken (hp that I lost) - ammunition fired / magazine
        + shaping (gamma phi' - phi) + ground (gamma psi' - psi) + result

phi is towards the nearest opponent alive, and 0 for a lost aircraft. The match ends when a side is lost.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.battle.conditions import (
    air_motion,
    blurred,
    next_gust,
    observe_conditions,
    scales_of,
)
from sparring.envs.air_combat.kernels.battle.endings import battle_outcome, end_flights, side_hp
from sparring.envs.air_combat.kernels.battle.manoeuvres import (
    ALTITUDE,
    HEADING,
    SPEED,
    autopilot,
    discrete_command,
    manoeuvre,
    whole,
)
from sparring.envs.air_combat.kernels.battle.missile import fly_flares
from sparring.envs.air_combat.kernels.battle.radar import MEMORY_TICKS, followed
from sparring.envs.air_combat.kernels.battle.state import Battle, BattleSettings, SeatStep, begin_battle, opponent_of
from sparring.envs.air_combat.kernels.battle.stores import (
    Orders,
    equip,
    homes,
    lock_on,
    observe_stores,
    release,
    threat_to,
)
from sparring.envs.air_combat.kernels.battle.weapons import burst_missiles, fire_gun, fly_bursts, fly_missiles
from sparring.envs.air_combat.kernels.ground import ground_potential, observe_ground
from sparring.envs.air_combat.kernels.gun import DT
from sparring.envs.air_combat.kernels.pilots import decide
from sparring.envs.air_combat.kernels.state import AirClock, CombatSettings, CombatWeights, Plane
from sparring.envs.air_combat.kernels.step import (
    GROUND,
    LOAD_LEAST,
    LOAD_MOST,
    ROLL_MOST,
    AirResults,
    fly,
    ground_shaping,
    limited,
    potential,
)
from sparring.envs.air_combat.kernels.view import observe, see, write_vector

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

BASE, ARMED = wp.constant(len(rules.OBSERVATION)), wp.constant(len(rules.OBSERVATION_ARMED))
OTHER, PHYSICS = wp.constant(len(rules.OBSERVATION_OTHER)), wp.constant(len(rules.OBSERVATION_PHYSICS))
HISTORY, MEMORY = wp.constant(rules.HISTORY), wp.constant(float(rules.TRACK_TICKS))
RADAR, MANOEUVRES = wp.constant(len(rules.OBSERVATION_RADAR)), wp.constant(len(rules.MANOEUVRES))
OF_OPPONENT = wp.constant(rules.OBSERVATION.index("bearing_x"))
SEEKER_RANGE = wp.constant(rules.OBSERVATION_ARMED.index("seeker_range"))
SENSORS = wp.constant(1 - 2**31)  # Of no burst or gust.
HANDS_OFF = wp.constant(0.54)  # Throttle of an action that is replaced.
MAGAZINE = wp.constant(rules.MAGAZINE)
COMMANDS = wp.constant(rules.FORMS.index("commands"))


@wp.func
def observe_other(obs: wp.array2d[float], row: int, at: int, me: Plane, it: Plane) -> None:
    """Write `rules.OBSERVATION_OTHER` to columns from `at`."""
    if it.hp <= 0.0:
        for column in range(at, at + OTHER):
            obs[row, column] = 0.0
        return
    right = wp.cross(me.nose, me.up)
    gap = it.pos - me.pos
    distance = wp.max(wp.length(gap), 1.0)
    relative = it.vel - me.vel
    obs[row, at] = 1.0
    write_vector(obs, row, at + 1, gap / distance, me.nose, right, me.up)
    obs[row, at + 4] = wp.min(distance / 5000.0, 4.0)
    obs[row, at + 5] = wp.exp(-distance / 1000.0)
    obs[row, at + 6] = -wp.dot(relative, gap) / distance / 300.0
    write_vector(obs, row, at + 7, relative / 300.0, me.nose, right, me.up)
    write_vector(obs, row, at + 10, it.nose, me.nose, right, me.up)
    obs[row, at + 13] = it.hp


@wp.func
def observe_others(
    obs: wp.array2d[float],
    row: int,
    at: int,
    world: Battle,
    match: int,
    seat: int,
    steps: int,
    settings: CombatSettings,
    size: int,
) -> None:
    """Write the mates of a seat by seat, then all opponents but the nearest."""
    me = world.planes[match, seat]
    nearest = opponent_of(world.planes, match, seat, size)
    first = wp.where(seat < size, 0, size)
    column = at
    for i in range(first, first + size):
        if i != seat:
            observe_other(obs, row, column, me, seen_by(world, match, seat, i, steps, settings, size))
            column += OTHER
    for i in range(size - first, 2 * size - first):
        if i != nearest:
            observe_other(obs, row, column, me, seen_by(world, match, seat, i, steps, settings, size))
            column += OTHER


@wp.func
def remember(world: Battle, match: int, steps: int) -> None:
    """Keep the aircraft of step `steps` for delayed sensors; a negative number fills the history with them."""
    for k in range(world.history.shape[1]):
        if steps < 0 or k % HISTORY == steps % HISTORY:
            world.history[match, k] = world.planes[match, k // HISTORY]


@wp.func
def seen_by(world: Battle, match: int, seat: int, i: int, steps: int, settings: CombatSettings, size: int) -> Plane:
    """Return a seat's knowledge of aircraft `i` after `steps` steps: delayed and noisy, or from the radar's memory.

    An unknown aircraft is returned with 0 hp.
    """
    it = world.planes[match, i]
    varied = world.history.shape[1] > 0
    c = world.conditions[match]
    if varied:
        it = world.history[match, i * HISTORY + (steps + HISTORY - c.delay) % HISTORY]
    it.hp = world.planes[match, i].hp
    if world.tracks.shape[1] > 0 and (i < size) != (seat < size):
        track = world.tracks[match, i]
        if track.age > 0:
            it = track.plane
        if track.age > MEMORY_TICKS:
            it.hp = 0.0
    if varied:
        row = int(wp.rand_init(settings.seed, world.match_id[match]))
        # A separate stream per match, apart from bursts and gusts.
        stream = int(wp.rand_init(int(wp.rand_init(row, world.clock[match].matches)), SENSORS))
        it = blurred(it, c.noise, wp.rand_init(stream, (steps * 2 * size + seat) * 2 * size + i))
    return it


@wp.func
def observe_battle(
    obs: wp.array2d[float],
    world: Battle,
    match: int,
    tick: int,
    settings: CombatSettings,
    options: BattleSettings,
    fresh: bool,
) -> None:
    """Write the observations of all seats: `rules.OBSERVATION` towards the nearest opponent, then the options'.

    A `fresh` state, set by the host, starts without memory.
    """
    time_left = 1.0 - float(tick) / float(settings.max_ticks)
    steps = (tick + settings.ticks_per_step - 1) // settings.ticks_per_step
    remember(world, match, wp.where(tick == 0, -1, steps))
    for i in range(world.tracks.shape[1]):
        ticks = settings.ticks_per_step
        world.tracks[match, i] = followed(world.planes, world.tracks, match, i, ticks, options.size, tick == 0 or fresh)
    for seat in range(2 * options.size):
        row = 2 * options.size * match + seat
        me = world.planes[match, seat]
        nearest = opponent_of(world.planes, match, seat, options.size)
        column = BASE
        if options.size > 1 and me.hp <= 0.0:
            for column in range(obs.shape[1]):
                obs[row, column] = 0.0
        else:
            it = seen_by(world, match, seat, nearest, steps, settings, options.size)
            observe(obs, row, me, it, time_left, settings.single_rounds)
            if options.missiles + options.flares > 0:
                load = world.stores[match, seat]
                full = wp.vec2(float(options.missiles), float(options.flares))
                size = options.size
                observe_stores(obs, row, column, world.planes, load, full, world.missiles, match, seat, it, size)
                column += ARMED
            if options.radar:
                age = world.tracks[match, nearest].age
                obs[row, column] = wp.where(age == 0, 1.0, 0.0)
                obs[row, column + 1] = wp.min(float(age) / MEMORY, 1.0)
                column += RADAR
                if age > MEMORY_TICKS:
                    for unknown in range(OF_OPPONENT, BASE):
                        obs[row, unknown] = 0.0
                    if options.missiles + options.flares > 0:
                        obs[row, BASE + SEEKER_RANGE] = 0.0
            observe_others(obs, row, column, world, match, seat, steps, settings, options.size)
            if options.varied and options.observe_physics:
                ground = wp.where(settings.observe_ground, GROUND, 0)
                observe_conditions(obs, row, obs.shape[1] - PHYSICS - ground, world.conditions[match], me)
            if settings.observe_ground:
                observe_ground(obs, row, obs.shape[1] - GROUND, me, it, settings.wing)
                if options.radar and world.tracks[match, nearest].age > MEMORY_TICKS:
                    obs[row, obs.shape[1] - 1] = 0.0


@wp.func
def read_orders(
    actions: wp.array3d[float], results: AirResults, match: int, seat: int, armed: bool, commands: bool, me: Plane
) -> Orders:
    """Return a seat's action as orders; a non-finite one counts as invalid and is hands off.

    With `commands` the first three numbers are changes for the autopilot, and hands off changes nothing.
    """
    orders = Orders()
    pull = actions[match, seat, 0]
    roll = actions[match, seat, 1]
    throttle = actions[match, seat, 2]
    trigger = actions[match, seat, 3]
    launch = float(-1.0)
    flare = float(-1.0)
    if armed:
        launch = actions[match, seat, 4]
        flare = actions[match, seat, 5]
    # The sum is finite only if all parts are.
    if not wp.isfinite(pull + roll + throttle + trigger + launch + flare):
        results.invalid_actions[match] = results.invalid_actions[match] + 1
        pull = 0.0
        roll = 0.0
        throttle = wp.where(commands, 0.0, HANDS_OFF)
        trigger = -1.0
        launch = -1.0
        flare = -1.0
    pull = wp.clamp(pull, -1.0, 1.0)
    orders.command.load = 1.0 + pull * wp.where(pull > 0.0, LOAD_MOST - 1.0, 1.0 - LOAD_LEAST)
    roll = wp.clamp(roll, -1.0, 1.0)
    throttle = wp.clamp(throttle, -1.0, 1.0)
    orders.command.roll_rate = roll * ROLL_MOST
    orders.command.throttle = 0.5 * (throttle + 1.0)
    if commands:
        orders.command = autopilot(me, pull * HEADING, roll * ALTITUDE, throttle * SPEED)
    orders.command.trigger = trigger > 0.0
    orders.launch = launch > 0.0
    orders.flare = flare > 0.0
    return orders


@wp.func
def read_choices(
    actions: wp.array3d[float],
    results: AirResults,
    match: int,
    seat: int,
    armed: bool,
    discrete: bool,
    me: Plane,
    it: Plane,
    lead: bool,
) -> Orders:
    """Return a seat's choices as orders; any other number is invalid and means level flight without weapons."""
    orders = Orders()
    columns = actions.shape[2]
    last = whole(actions[match, seat, columns - 1], 2)
    before = whole(actions[match, seat, columns - 2], 2)
    valid = last >= 0 and (before >= 0 or not armed)
    if discrete:
        orders.command = discrete_command(
            actions[match, seat, 0], actions[match, seat, 1], actions[match, seat, 2], actions[match, seat, 3]
        )
        valid = valid and orders.command.throttle >= 0.0
    else:
        which = whole(actions[match, seat, 0], MANOEUVRES)
        free = whole(actions[match, seat, 1], 2)
        valid = valid and which >= 0 and free >= 0
        orders.command = manoeuvre(which, free == 1, me, it, lead)
    if not valid:
        results.invalid_actions[match] = results.invalid_actions[match] + 1
        orders.command = manoeuvre(0, False, me, it, lead)
        return orders
    orders.launch = armed and before == 1
    orders.flare = armed and last == 1
    return orders


@wp.func
def orders_of(
    world: Battle,
    results: AirResults,
    actions: wp.array3d[float],
    match: int,
    seat: int,
    settings: CombatSettings,
    options: BattleSettings,
) -> Orders:
    """Return the orders of a seat for the step, by its scripted pilot or its action."""
    bot = world.bots[match, seat]
    armed = options.missiles + options.flares > 0
    me = world.planes[match, seat]
    if bot < 0 and (options.form == 0 or options.form == COMMANDS):
        return read_orders(actions, results, match, seat, armed, options.form == COMMANDS, me)
    it = world.planes[match, opponent_of(world.planes, match, seat, options.size)]
    if bot < 0:
        return read_choices(actions, results, match, seat, armed, options.form == 1, me, it, settings.single_rounds)
    orders = Orders()
    orders.command = decide(bot, me, it, settings.single_rounds, settings.wing)
    if armed:
        locked = lock_on(world.planes, match, seat, options.size) >= 0
        homing = homes(world.missiles, match, seat, options.size)
        threat = threat_to(world.planes, world.missiles, match, seat, options.size)
        orders = equip(bot, orders, me, it, see(me, it, settings.single_rounds), locked, homing, threat)
    return orders


@wp.func
def phi_of(world: Battle, match: int, seat: int, size: int) -> float:
    """Return the potential of a seat."""
    me = world.planes[match, seat]
    if me.hp <= 0.0:
        return 0.0
    return potential(me, world.planes[match, opponent_of(world.planes, match, seat, size)])


@wp.func
def next_air(world: Battle, match: int, seat: int, row: int, clock: AirClock, size: int) -> wp.vec3:
    """Return the velocity of the air at an aircraft for this tick, with the gust of the next."""
    me = world.planes[match, seat]
    air = air_motion(world.conditions[match], world.gusts[match, seat], me)
    rng = wp.rand_init(int(wp.rand_init(row, clock.matches)), -(2 * size * clock.tick + seat + 1))
    world.gusts[match, seat] = next_gust(world.gusts[match, seat], wp.length(me.vel - air), rng)
    return air


@wp.func
def play_tick(
    world: Battle, match: int, row: int, clock: AirClock, settings: CombatSettings, options: BattleSettings
) -> None:
    """Play one tick of all aircraft."""
    size = options.size
    scales = scales_of(world.conditions[match])
    for seat in range(2 * size):
        state = world.seats[match, seat]
        me = world.planes[match, seat]
        state.place = me.pos
        state.damage = 0.0
        state.alive = me.hp > 0.0
        world.seats[match, seat] = state
        if me.hp > 0.0:
            if options.missiles + options.flares > 0:
                launch = state.orders.launch
                flare = state.orders.flare
                release(world.planes, world.stores, world.missiles, world.flares, match, seat, size, launch, flare)
            if settings.single_rounds and state.orders.command.trigger:
                fire_gun(world, match, seat, row, clock, size, True)
    fly_missiles(world, match, size)
    for seat in range(2 * size):
        me = world.planes[match, seat]
        if me.hp > 0.0:
            command = limited(me, world.seats[match, seat].orders.command, world.bots[match, seat], settings)
            air = wp.vec3(0.0, 0.0, 0.0)
            if options.varied:
                air = next_air(world, match, seat, row, clock, size)
            # The flight models assume still air: use the frame of the air at the aircraft.
            me.vel = me.vel - air
            me = fly(world.tables, me, command, scales, settings.six)
            me.vel = me.vel + air
            me.pos = me.pos + air * DT
            world.planes[match, seat] = me
    fly_flares(world.flares, match)
    burst_missiles(world, match, size)
    if settings.single_rounds:
        fly_bursts(world, match, size)
    else:
        for seat in range(2 * size):
            state = world.seats[match, seat]
            if state.alive and state.orders.command.trigger:
                fire_gun(world, match, seat, row, clock, size, False)
    end_flights(world, match, options)
    for seat in range(2 * size):
        me = world.planes[match, seat]
        me.hp = wp.max(me.hp - world.seats[match, seat].damage, 0.0)
        world.planes[match, seat] = me


@wp.kernel
def battle_restart_kernel(
    world: Battle,
    results: AirResults,
    restart: wp.array[bool],
    settings: CombatSettings,
    options: BattleSettings,
    first: int,
) -> None:
    """Start a new match in every row marked in `restart`."""
    match = wp.tid() + first
    if restart[match]:
        begin_battle(world, match, settings, options)
        observe_battle(results.obs, world, match, 0, settings, options, True)


@wp.kernel
def battle_observe_kernel(
    world: Battle, results: AirResults, settings: CombatSettings, options: BattleSettings, first: int
) -> None:
    """Write the observations of a state that was set by the host."""
    match = wp.tid() + first
    remember(world, match, -1)
    observe_battle(results.obs, world, match, world.clock[match].tick, settings, options, True)


@wp.kernel
def battle_step_kernel(
    world: Battle,
    results: AirResults,
    actions: wp.array3d[float],
    weights: CombatWeights,
    settings: CombatSettings,
    options: BattleSettings,
    first: int,
) -> None:
    """Play one step of match `tid + first`."""
    match = wp.tid() + first
    size = options.size
    clock = world.clock[match]
    for seat in range(2 * size):
        state = SeatStep()
        state.hp = world.planes[match, seat].hp
        state.rounds = world.planes[match, seat].rounds
        state.phi = phi_of(world, match, seat, size)
        if weights.ground != 0.0 and state.hp > 0.0:
            state.ground = ground_potential(world.planes[match, seat], settings.wing)
        state.orders = orders_of(world, results, actions, match, seat, settings, options)
        world.seats[match, seat] = state
    row = int(wp.rand_init(settings.seed, world.match_id[match]))
    outcome = int(-1)
    played = int(0)
    while played < settings.ticks_per_step and outcome < 0:
        play_tick(world, match, row, clock, settings, options)
        clock.tick = clock.tick + 1
        hp = side_hp(world, match, 0, size)
        opposing = side_hp(world, match, size, size)
        outcome = battle_outcome(hp, opposing, clock.tick, settings.max_ticks, size)
        played += 1
    decided = side_hp(world, match, 0, size) <= 0.0 or side_hp(world, match, size, size) <= 0.0
    for seat in range(2 * size):
        foes = wp.where(seat < size, size, 0)
        dealt = float(0.0)
        for i in range(foes, foes + size):
            dealt = dealt + world.seats[match, i].hp - world.planes[match, i].hp
        taken = world.seats[match, seat].hp - world.planes[match, seat].hp
        after = wp.where(outcome >= 0, 0.0, phi_of(world, match, seat, size))
        shaped = weights.shaping * (weights.gamma * after - world.seats[match, seat].phi)
        if weights.ground != 0.0 and world.seats[match, seat].hp > 0.0:
            me = world.planes[match, seat]
            shaped += ground_shaping(
                world.seats[match, seat].ground, me, me.hp <= 0.0 or outcome >= 0, weights, settings.wing
            )
        result = float(0.0)
        if outcome == 0:
            result = weights.draw
        elif outcome > 0:
            result = wp.where(((outcome >> seat) & 1) == 1, weights.win, -weights.lose)
        fired = float(world.seats[match, seat].rounds - world.planes[match, seat].rounds) / float(MAGAZINE)
        earned = weights.damage_dealt * dealt / float(size) - weights.damage_taken * taken - weights.ammunition * fired
        results.reward[match, seat] = earned + shaped + result
    results.terminated[match] = decided
    results.truncated[match] = outcome >= 0 and not decided
    results.outcome[match] = outcome
    world.clock[match] = clock
    if outcome >= 0:
        results.length[match] = clock.tick
        for seat in range(2 * size):
            results.final_hp[match, seat] = world.planes[match, seat].hp
        observe_battle(results.final_obs, world, match, clock.tick, settings, options, False)
        begin_battle(world, match, settings, options)
        observe_battle(results.obs, world, match, 0, settings, options, True)
    else:
        observe_battle(results.obs, world, match, clock.tick, settings, options, False)
