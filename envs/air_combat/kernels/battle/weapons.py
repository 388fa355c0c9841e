"""Guns and missiles of a tick, for any number of aircraft. Damage is noted, and dealt at the end of the tick."""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat.kernels.battle.missile import ARMING_TICKS, burst_damage, fly_missile, seek
from sparring.envs.air_combat.kernels.battle.state import Battle
from sparring.envs.air_combat.kernels.gun import (
    BURST,
    BURST_TICKS,
    DT,
    HIT_DAMAGE,
    HIT_SQUARED,
    ROUND_DROP,
    ROUND_KEPT,
    SLOTS,
    cone_damage,
    fire,
)
from sparring.envs.air_combat.kernels.state import AirClock


@wp.func
def hurt(world: Battle, match: int, seat: int, damage: float) -> None:
    """Note damage, which is dealt at the end of the tick."""
    state = world.seats[match, seat]
    state.damage = state.damage + damage
    world.seats[match, seat] = state


@wp.func
def fly_missiles(world: Battle, match: int, size: int) -> None:
    """Let every missile look and fly by a tick."""
    slots = world.missiles.shape[1] // (2 * size)
    for k in range(world.missiles.shape[1]):
        m = world.missiles[match, k]
        if m.age > 0:
            world.past[match, k] = m.pos
            m = seek(world.planes, world.flares, match, wp.where(k < size * slots, size, 0), size, m)
            target = wp.vec3(0.0, 0.0, 0.0)
            velocity = wp.vec3(0.0, 0.0, 0.0)
            if m.target >= 2 * size:
                target = world.flares[match, m.target - 2 * size].pos
                velocity = world.flares[match, m.target - 2 * size].vel
            elif m.target >= 0:
                target = world.planes[match, m.target].pos
                velocity = world.planes[match, m.target].vel
            world.missiles[match, k] = fly_missile(m, m.target >= 0, target, velocity)


@wp.func
def burst_missiles(world: Battle, match: int, size: int) -> None:
    """Set off the warheads whose fuze has passed an opponent in this tick."""
    slots = world.missiles.shape[1] // (2 * size)
    for k in range(world.missiles.shape[1]):
        m = world.missiles[match, k]
        if m.age > ARMING_TICKS:
            foes = wp.where(k < size * slots, size, 0)
            for i in range(foes, foes + size):
                if world.planes[match, i].hp > 0.0:
                    gap = world.seats[match, i].place - world.past[match, k]
                    path = world.planes[match, i].pos - m.pos - gap
                    damage = burst_damage(gap, path)
                    if damage >= 0.0:
                        hurt(world, match, i, damage)
                        m.age = 0
            world.missiles[match, k] = m


@wp.func
def fly_bursts(world: Battle, match: int, size: int) -> None:
    """Move every burst of rounds by a tick; one that passes within the hit radius of an opponent hits and ends."""
    for k in range(world.rounds.shape[1]):
        burst = world.rounds[match, k]
        if burst.life > 0:
            start = burst.pos
            burst.vel = burst.vel * ROUND_KEPT + wp.vec3(0.0, 0.0, ROUND_DROP)
            burst.pos = burst.pos + burst.vel * DT
            burst.life = burst.life - 1
            foes = wp.where(k < size * SLOTS, size, 0)
            for i in range(foes, foes + size):
                if world.planes[match, i].hp > 0.0:
                    gap = start - world.seats[match, i].place
                    path = (burst.pos - world.planes[match, i].pos) - gap
                    part = wp.clamp(-wp.dot(gap, path) / wp.max(wp.dot(path, path), 1.0e-6), 0.0, 1.0)
                    miss = gap + path * part
                    if burst.life >= 0 and wp.dot(miss, miss) < HIT_SQUARED:
                        hurt(world, match, i, HIT_DAMAGE)
                        burst.life = -1
            burst.life = wp.max(burst.life, 0)
            world.rounds[match, k] = burst


@wp.func
def fire_gun(world: Battle, match: int, seat: int, row: int, clock: AirClock, size: int, rounds: bool) -> None:
    """Put a burst into the air, or do the damage of the cone."""
    me = world.planes[match, seat]
    if rounds:
        if clock.tick % BURST_TICKS == 0 and me.rounds >= BURST:
            rng = wp.rand_init(int(wp.rand_init(row, clock.matches)), 2 * size * clock.tick + seat + 1)
            world.planes[match, seat] = fire(world.rounds, match, seat, me, rng)
        return
    foes = wp.where(seat < size, size, 0)
    for i in range(foes, foes + size):
        if world.planes[match, i].hp > 0.0:
            hurt(world, match, i, cone_damage(me, world.planes[match, i]))
