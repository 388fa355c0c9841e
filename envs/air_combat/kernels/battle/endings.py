"""Endings of flights and matches: collisions, structural load limit, hard deck, and the outcome for both sides."""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat.kernels.battle.state import Battle, BattleSettings

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

FATAL = wp.constant(2.0)  # Damage that ends any life.


@wp.func
def nearest_in_tick(world: Battle, match: int, i: int, j: int) -> float:
    """Return the minimum distance of two aircraft in this tick, assuming straight flight, m."""
    gap = world.seats[match, j].place - world.seats[match, i].place
    change = world.planes[match, j].pos - world.planes[match, i].pos - gap
    part = wp.clamp(-wp.dot(gap, change) / wp.max(wp.dot(change, change), 1.0e-6), 0.0, 1.0)
    return wp.length(gap + change * part)


@wp.func
def end_flights(world: Battle, match: int, options: BattleSettings) -> None:
    """Deal fatal damage to aircraft that collided, broke, or are at the hard deck, where the options say so."""
    for i in range(2 * options.size):
        state = world.seats[match, i]
        me = world.planes[match, i]
        lost = options.load_limit > 0.0 and wp.abs(me.load) > options.load_limit
        lost = lost or (options.hard_deck > 0.0 and -me.pos[2] <= options.hard_deck)
        for j in range(2 * options.size):
            if options.collisions > 0.0 and i != j and world.seats[match, j].alive:
                lost = lost or nearest_in_tick(world, match, i, j) < options.collisions
        if state.alive and lost:
            state.damage = FATAL
            world.seats[match, i] = state


@wp.func
def side_hp(world: Battle, match: int, first: int, size: int) -> float:
    """Return the hp of a side."""
    total = float(0.0)
    for i in range(first, first + size):
        total = total + world.planes[match, i].hp
    return total


@wp.func
def battle_outcome(hp: float, opposing: float, tick: int, max_ticks: int, size: int) -> int:
    """Return -1 while playing, 0 for a draw, else a bit for every seat of the side that won, by hp at the limit."""
    if hp > 0.0 and opposing > 0.0 and tick < max_ticks:
        return -1
    if wp.abs(hp - opposing) < 1.0e-4:
        return 0
    side = (1 << size) - 1
    return wp.where(hp > opposing, side, side << size)
