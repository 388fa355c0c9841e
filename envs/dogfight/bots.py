"""The five scripted opponents: from what a bot sees and remembers to its action (turn, throttle, shoot).

All but do_nothing share an altitude guard (first and final), bullet evasion, an aim, and a stall guard (last). A bot's
turn toward an angle `a` off its nose with gain k is clamp(k * wrap(a), -1, 1); altitude biases are added to that angle.
Each opponent keeps its own `BotMemory` per match and per seat.
"""

import math

import warp as wp

from envs.dogfight import rules
from envs.dogfight.physics import wrap_dx
from envs.dogfight.sensing import Sight, angle_to, energy, lead_point, look
from envs.dogfight.state import SLOTS, BotMemory, Bullet, Fighter, Physics

DO_NOTHING = wp.constant(rules.BOTS.index("do_nothing"))
DOGFIGHTER = wp.constant(rules.BOTS.index("dogfighter"))
CHASER = wp.constant(rules.BOTS.index("chaser"))
ACE = wp.constant(rules.BOTS.index("ace"))

BEHIND_COS = wp.constant(math.cos(2.0))
HALF_PI = wp.constant(math.pi / 2.0)
CROSSING_OFFSET = wp.constant(60.0)

ATTACK = wp.constant(0)
DEFEND = wp.constant(1)
ENERGY = wp.constant(2)
DISENGAGE = wp.constant(3)

CLOSE = wp.constant(0)
BRAWL = wp.constant(1)
BAIT = wp.constant(2)
PUNISH = wp.constant(3)
RETREAT = wp.constant(4)


@wp.struct
class View:
    """Everything a bot decides from."""

    me: Fighter
    it: Fighter
    p: Physics
    s: Sight
    armour_cos: float
    bullet_distance: float
    """Distance to the nearest enemy bullet, m."""
    behind_me: bool
    i_am_behind: bool


@wp.func
def nearest_bullet(bullets: wp.array2d[Bullet], match: int, shooter: int, me: Fighter, challenge: bool) -> float:
    """Distance to the nearest live bullet of the other side; 1e6 when there is none."""
    nearest = float(1.0e12)
    for slot in range(SLOTS):
        if bullets[match, shooter * SLOTS + slot].life > 0:
            b = bullets[match, shooter * SLOTS + slot]
            dx = wrap_dx(b.x - me.x, challenge)
            dy = b.y - me.y
            nearest = wp.min(nearest, dx * dx + dy * dy)
    return wp.sqrt(nearest)


@wp.func
def steer(gain: float, angle: float) -> float:
    """Turn command toward an angle off the nose."""
    turn = angle
    if wp.abs(angle) > math.pi:
        turn = angle - wp.sign(angle) * 2.0 * math.pi
    return wp.clamp(gain * turn, -1.0, 1.0)


@wp.func
def fire(v: View, cos_limit: float, reach: float) -> float:
    """Shoot within an angle (given by its cosine) and range, if the gun is ready and its armour would not hold."""
    if v.s.ahead > cos_limit and v.s.distance < reach and v.me.cooldown == wp.int16(0) and v.s.along <= v.armour_cos:
        return 1.0
    return 0.0


@wp.func
def smart_aim(v: View, lead: float) -> float:
    """Angle off the nose of the aim: the lead point, moved 60 m across its heading to my side when I am behind it."""
    point = lead_point(v.s, v.it, v.p, lead)
    if v.i_am_behind:
        # Its armour glances shots from behind, so come at it from the side I am on.
        side = wp.where(v.s.its_side >= 0.0, CROSSING_OFFSET, -CROSSING_OFFSET)
        point = point + wp.vec2(-v.it.sin_yaw * side, v.it.cos_yaw * side)
    return angle_to(v.me, point)


@wp.func
def lead_aim(v: View, lead: float) -> float:
    """Angle off the nose of the lead point."""
    return angle_to(v.me, lead_point(v.s, v.it, v.p, lead))


@wp.func
def off(v: View) -> float:
    """Signed angle from my nose to it."""
    return wp.atan2(v.s.side, v.s.ahead)


@wp.func
def perpendicular(v: View) -> float:
    """Angle off the nose that puts the line of sight at 90 degrees, turning to its side."""
    return off(v) - wp.where(v.s.side >= 0.0, HALF_PI, -HALF_PI)


@wp.func
def attack_throttle(v: View, turn: float) -> float:
    """Full when slow or far, half in a hard turn, else 0.7."""
    if v.me.speed < 80.0:
        return 1.0
    if wp.abs(turn) > 0.7:
        return 0.5
    return wp.where(v.s.distance > 250.0, 1.0, 0.7)


@wp.func
def evading(m: BotMemory, v: View, radius: float, ticks: int) -> BotMemory:
    """Count an evasive turn down, or start one the other way round when a bullet comes within `radius`."""
    if m.evade_ticks > wp.int16(0):
        m.evade_ticks = m.evade_ticks - wp.int16(1)
    elif v.bullet_distance < radius:
        m.evade_direction = -m.evade_direction
        m.evade_ticks = wp.int16(ticks)
    return m


@wp.func
def away_from_edges(turn: float, v: View, floor: float, ceiling: float) -> float:
    """Flip an evasive turn that would dive below `floor` or climb above `ceiling`."""
    up = wp.where(v.me.cos_yaw >= 0.0, 1.0, -1.0)
    if v.me.y < floor:
        return up
    if v.me.y > ceiling:
        return -up
    return turn


@wp.func
def slow_and_high(v: View) -> bool:
    """Little speed left well above the ground: worth dipping the nose."""
    return v.me.speed < 60.0 and v.me.y > 300.0


@wp.func
def enter(m: BotMemory, mode: int, hold: int) -> BotMemory:
    """Change mode and hold it for the `hold` ticks after this one: with the entering tick a yo-yo of 40 lasts 41."""
    m.mode = wp.int16(mode)
    m.timer = wp.int16(hold)
    m.mode_ticks = wp.int16(0)
    return m


@wp.func
def chaser(m: BotMemory, v: View) -> tuple[BotMemory, wp.vec3]:
    """Pursuit with yo-yos: up when overshooting, down when falling behind."""
    m = evading(m, v, 80.0, 15)
    if m.evade_ticks > wp.int16(0):
        return m, wp.vec3(float(m.evade_direction), 0.8, fire(v, wp.static(math.cos(0.3)), 320.0))
    if m.timer > wp.int16(0):
        m.timer = m.timer - wp.int16(1)
    elif v.s.distance < 120.0 and v.s.closing > 50.0 and v.me.y < 500.0:
        m = enter(m, 1, 40)
    elif v.s.distance > 300.0 and v.s.closing < -20.0 and v.me.y > 150.0:
        m = enter(m, -1, 30)
    else:
        m.mode = wp.int16(0)
    bias = 0.4 * float(m.mode)
    if m.mode == wp.int16(0):
        if v.me.y < 120.0 and v.me.sin_yaw < 0.1:
            bias = 0.25
        if v.me.y > 520.0 and v.me.sin_yaw > -0.1:
            bias = -0.25
    turn = steer(2.5, smart_aim(v, 1.0) + bias)
    throttle = wp.where(v.me.speed > 120.0 and wp.abs(turn) > 0.7, 0.7, 1.0)
    return m, wp.vec3(turn, throttle, fire(v, wp.static(math.cos(0.22)), 320.0))


@wp.func
def dogfighter_mode(m: BotMemory, v: View) -> BotMemory:
    """The dogfighter's four modes; a mode is held until its timer has run out."""
    if m.mode == wp.int16(ATTACK) and v.s.distance < 250.0:
        m.mode_ticks = m.mode_ticks + wp.int16(1)
    if m.timer > wp.int16(0):
        m.timer = m.timer - wp.int16(1)
        return m
    ratio = energy(v.me, v.p.gravity) / wp.max(energy(v.it, v.p.gravity), 1.0)
    if m.mode == wp.int16(ATTACK):
        if v.behind_me and v.s.distance < 200.0:
            return enter(m, DEFEND, 45)
        if ratio < 0.7 and v.me.y > 100.0:
            return enter(m, ENERGY, 60)
        if m.mode_ticks > wp.int16(360):
            return enter(m, DISENGAGE, 90)
    elif m.mode == wp.int16(DEFEND):
        if not v.behind_me or v.s.distance > 300.0:
            return enter(m, ATTACK, 30)
        if ratio < 0.6:
            return enter(m, ENERGY, 60)
    else:
        if m.mode == wp.int16(ENERGY) and ratio > 0.9:
            return enter(m, ATTACK, 30)
        if m.mode == wp.int16(DISENGAGE) and (v.s.distance > 350.0 or v.i_am_behind):
            return enter(m, ATTACK, 30)
        if v.behind_me and v.s.distance < 150.0:
            return enter(m, DEFEND, 45)
    return m


@wp.func
def dogfighter_bias(v: View) -> float:
    """Altitude bias while attacking."""
    if v.me.y > 550.0 and v.me.sin_yaw > 0.0:
        return -0.3 * wp.min((v.me.y - 550.0) / 50.0, 1.0)
    if v.me.y > 450.0 and v.me.sin_yaw > 0.0:
        return -0.1
    if v.me.y < 100.0 and v.me.sin_yaw <= 0.0:
        return 0.4 * wp.min((100.0 - v.me.y) / 100.0, 1.0)
    if v.me.y < 180.0 and v.me.sin_yaw < 0.0:
        return 0.15
    return wp.where(slow_and_high(v), -0.08, 0.0)


@wp.func
def dogfighter(m: BotMemory, v: View) -> tuple[BotMemory, wp.vec3]:
    """Attack, defend, regain energy, disengage."""
    m = evading(m, v, 90.0, 18)
    if m.evade_ticks > wp.int16(0):
        turn = away_from_edges(float(m.evade_direction), v, 80.0, 1.0e6)
        return m, wp.vec3(turn, wp.max(attack_throttle(v, turn), 0.8), fire(v, wp.static(math.cos(0.3)), 350.0))
    m = dogfighter_mode(m, v)
    if m.mode == wp.int16(DEFEND):
        throttle = wp.where(v.me.speed > 100.0, 0.3, 0.6)
        return m, wp.vec3(steer(3.5, perpendicular(v)), throttle, fire(v, wp.static(math.cos(0.3)), 250.0))
    if m.mode == wp.int16(ENERGY):
        climb = wp.where(v.me.y < 400.0, 0.5, 0.0)
        angle = angle_to(v.me, wp.vec2(wp.where(v.s.dx > 0.0, -1.0, 1.0), climb))
        return m, wp.vec3(steer(2.0, angle), 1.0, fire(v, wp.static(math.cos(0.25)), 300.0))
    if m.mode == wp.int16(DISENGAGE):
        return m, wp.vec3(steer(2.5, angle_to(v.me, wp.vec2(-v.s.dx, -v.s.dy))), 1.0, 0.0)
    turn = steer(3.0, smart_aim(v, 1.0) + dogfighter_bias(v))
    return m, wp.vec3(turn, attack_throttle(v, turn), fire(v, wp.static(math.cos(0.22)), 350.0))


@wp.func
def ace_bias(v: View) -> float:
    """Altitude bias that holds 250..480 m."""
    if v.me.y < 250.0:
        return 0.35 * (250.0 - v.me.y) / 250.0
    if v.me.y > 480.0:
        return -0.3 * wp.min((v.me.y - 480.0) / 120.0, 1.0)
    return wp.where(slow_and_high(v), -0.08, 0.0)


@wp.func
def ace(m: BotMemory, v: View) -> tuple[BotMemory, wp.vec3]:
    """Early evasion, hard breaks, steady altitude."""
    m = evading(m, v, 130.0, 18)
    if m.evade_ticks > wp.int16(0):
        turn = away_from_edges(float(m.evade_direction), v, 90.0, 540.0)
        return m, wp.vec3(turn, wp.max(attack_throttle(v, turn), 0.7), fire(v, wp.static(math.cos(0.3)), 380.0))
    if v.behind_me and v.s.distance < 250.0:
        throttle = wp.where(v.me.speed > 100.0, 0.3, 0.5)
        return m, wp.vec3(steer(3.5, perpendicular(v) + 0.15), throttle, fire(v, wp.static(math.cos(0.35)), 350.0))
    turn = steer(3.0, smart_aim(v, 1.0) + ace_bias(v))
    return m, wp.vec3(turn, attack_throttle(v, turn), fire(v, wp.static(math.cos(0.2)), 380.0))


@wp.func
def brawler_mode(m: BotMemory, v: View) -> BotMemory:
    """The brawler's phases, each held 20 ticks (punishing: 60)."""
    if m.timer > wp.int16(0):
        m.timer = m.timer - wp.int16(1)
        return m
    d = v.s.distance
    if m.mode == wp.int16(CLOSE):
        if d < 200.0:
            return enter(m, BRAWL, 20)
    elif m.mode == wp.int16(BRAWL):
        if d > 300.0:
            return enter(m, CLOSE, 20)
        if v.behind_me and d < 180.0 and v.s.closing > 30.0:
            return enter(m, BAIT, 20)
        if v.me.y < 80.0 and v.me.speed < 60.0:
            return enter(m, RETREAT, 20)
    elif m.mode == wp.int16(BAIT):
        if v.i_am_behind or (v.s.ahead > wp.static(math.cos(1.0)) and d < 200.0):
            return enter(m, PUNISH, 60)
        if d > 250.0:
            return enter(m, CLOSE, 20)
        if not v.behind_me:
            return enter(m, BRAWL, 20)
    elif m.mode == wp.int16(PUNISH):
        return enter(m, BRAWL, 20)
    elif v.me.y > 180.0 and v.me.speed > 80.0:
        return enter(m, CLOSE, 20)
    return m


@wp.func
def brawler(m: BotMemory, v: View) -> tuple[BotMemory, wp.vec3]:
    """Close-in turning fight: close, brawl with jinks, bait, punish, retreat."""
    m = brawler_mode(m, v)
    if m.mode == wp.int16(CLOSE):
        return m, wp.vec3(steer(3.0, smart_aim(v, 1.0)), 1.0, fire(v, wp.static(math.cos(0.25)), 300.0))
    if m.mode == wp.int16(BRAWL):
        m = evading(m, v, 100.0, 8)
        turn = float(m.evade_direction)
        if m.evade_ticks == wp.int16(0):
            turn = steer(4.0, lead_aim(v, 0.7))
        throttle = wp.where(v.me.speed > 120.0, 0.0, wp.where(v.me.speed < 70.0, 0.6, 0.2))
        return m, wp.vec3(turn, throttle, fire(v, wp.static(math.cos(0.3)), 250.0))
    if m.mode == wp.int16(BAIT):
        return m, wp.vec3(steer(2.0, perpendicular(v)), 0.0, fire(v, wp.static(math.cos(0.35)), 200.0))
    if m.mode == wp.int16(PUNISH):
        return m, wp.vec3(steer(4.0, lead_aim(v, 0.8)), 0.5, fire(v, wp.static(math.cos(0.35)), 300.0))
    forward = wp.where(v.me.cos_yaw >= 0.0, wp.static(math.cos(0.5)), -wp.static(math.cos(0.5)))
    return m, wp.vec3(steer(2.0, angle_to(v.me, wp.vec2(forward, wp.static(math.sin(0.5))))), 1.0, 0.0)


@wp.func
def altitude_guard(f: Fighter, challenge: bool) -> float:
    """Turn that saves a fighter diving at the ground (+-1 up) or climbing into the ceiling; 0 when there is no need."""
    up = wp.where(f.cos_yaw >= 0.0, 1.0, -1.0)
    floor = wp.where(challenge, 130.0, 70.0)
    dive = wp.where(challenge, -0.1, -0.3)
    if f.y < floor and f.sin_yaw < dive:
        return up
    if f.y > 570.0 and f.sin_yaw > 0.3:
        return -up
    return 0.0


@wp.func
def stall_guard(action: wp.vec3, speed: float) -> wp.vec3:
    """Below 45 m/s turn less and push the throttle."""
    u = wp.clamp((45.0 - speed) / 15.0, 0.0, 1.0)
    limit = 1.0 - 0.7 * u
    return wp.vec3(wp.clamp(action[0], -limit, limit), wp.max(action[1], 0.8 * u), action[2])


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
    challenge: bool,
) -> tuple[BotMemory, wp.vec3]:
    """One decision of scripted opponent `bot`: its new memory and its action."""
    if bot == DO_NOTHING:
        return m, wp.vec3(0.0, 0.0, 0.0)
    guard = altitude_guard(me, challenge)
    if guard != 0.0:
        return m, stall_guard(wp.vec3(guard, 1.0, 0.0), me.speed)
    v = View()
    v.me = me
    v.it = it
    v.p = p
    v.s = look(me, it, challenge)
    v.armour_cos = armour_cos
    v.bullet_distance = nearest_bullet(bullets, match, 1 - seat, me, challenge)
    v.behind_me = v.s.ahead < BEHIND_COS
    v.i_am_behind = v.s.its_ahead < BEHIND_COS
    action = wp.vec3()
    if bot == DOGFIGHTER:
        m, action = dogfighter(m, v)
    elif bot == CHASER:
        m, action = chaser(m, v)
    elif bot == ACE:
        m, action = ace(m, v)
    else:
        m, action = brawler(m, v)
    return m, stall_guard(action, me.speed)
