"""One decision of any scripted opponent: altitude guard, bot, stall guard."""

import warp as wp

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.kernels.bots.ace import ace
from sparring.envs.dogfight.kernels.bots.brawler import brawler
from sparring.envs.dogfight.kernels.bots.chaser import chaser
from sparring.envs.dogfight.kernels.bots.dogfighter import dogfighter
from sparring.envs.dogfight.kernels.bots.shared import altitude_guard, dodging, stall_guard
from sparring.envs.dogfight.kernels.bots.view import see
from sparring.envs.dogfight.kernels.state import BotMemory, Bullet, Fighter, Physics
from sparring.envs.kernel_bots import check_branches

DO_NOTHING = wp.constant(rules.BOTS.index("do_nothing"))
DOGFIGHTER = wp.constant(rules.BOTS.index("dogfighter"))
CHASER = wp.constant(rules.BOTS.index("chaser"))
ACE = wp.constant(rules.BOTS.index("ace"))
BRAWLER = wp.constant(rules.BOTS.index("brawler"))


@wp.func
def decide(
    bot: int,
    m: BotMemory,
    me: Fighter,
    it: Fighter,
    p: Physics,
    bullets: wp.array2d[Bullet],
    match: int,
    seat: int,
    armour_cos: float,
    closing: float,
    challenge: bool,
) -> tuple[BotMemory, wp.vec3]:
    """Return the new memory and the action (turn, throttle, shoot) of scripted opponent `bot` in `seat`.

    `closing` is the closing speed over the last tick, m/s; only challenge bots use it.
    """
    if bot == DO_NOTHING:
        return m, wp.vec3(0.0, 0.0, 0.0)
    guard = altitude_guard(me, challenge)
    if guard != 0.0:
        return m, wp.vec3(guard, 1.0, 0.0)  # No stall guard, and no timer runs.
    v = see(me, it, p, bullets, match, seat, armour_cos, closing, challenge)
    action = wp.vec3()
    if bot == DOGFIGHTER:
        m, action = dogfighter(m, v)
    elif bot == CHASER:
        m, action = chaser(m, v)
        if dodging(m):
            return m, action  # Only the chaser's dodge has no stall guard.
    elif bot == ACE:
        m, action = ace(m, v)
    elif bot == BRAWLER:
        m, action = brawler(m, v)
    return m, stall_guard(action, me.speed)


check_branches(rules.BOTS, decide)
