"""One dogfight in plain Python: scalar, float64, yaw as an angle, no bots.

Written from the rules as a person would read them aloud, one fighter after the other, with its own copy of every
constant. It shares nothing with the simulator, so that a slip in one of the two shows as a difference. Speed does not
matter here; readability does. Units: metres, seconds, radians, ticks of 1/120 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

DT = 1.0 / 120.0
MAX_TICKS = 10_800

PARAMETER_NAMES = (
    *("gravity", "drag_coeff", "turn_bleed_coeff", "max_speed", "min_speed", "max_thrust", "bullet_speed"),
    *("gun_cooldown_ticks", "bullet_lifetime_ticks", "max_hp", "max_turn_rate", "min_turn_rate", "rear_aspect_cone"),
)


@dataclass
class Parameters:
    """The 13 numbers of domain randomization."""

    gravity: float = 80.0
    drag_coeff: float = 0.9
    turn_bleed_coeff: float = 0.25
    max_speed: float = 250.0
    min_speed: float = 20.0
    max_thrust: float = 180.0
    bullet_speed: float = 400.0
    gun_cooldown_ticks: int = 90
    bullet_lifetime_ticks: int = 60
    max_hp: int = 5
    max_turn_rate: float = 4.0
    min_turn_rate: float = 0.8
    rear_aspect_cone: float = 0.785

    @classmethod
    def from_row(cls, row) -> Parameters:
        """From 13 numbers in the order of the fields; the three tick and hp counts become integers."""
        values = dict(zip(PARAMETER_NAMES, (float(value) for value in row), strict=True))
        for name in ("gun_cooldown_ticks", "bullet_lifetime_ticks", "max_hp"):
            values[name] = round(values[name])
        return cls(**values)


@dataclass
class Fighter:
    """State of one fighter."""

    x: float
    y: float
    yaw: float
    speed: float
    hp: int
    cooldown: int = 0
    stall: int = 0
    alive: bool = True


@dataclass
class Bullet:
    """A bullet in flight; `owner` is the seat that fired it."""

    x: float
    y: float
    yaw: float
    speed: float
    life: int
    owner: int


@dataclass
class Match:
    """Two fighters, their bullets and the clock. `tick_once` plays one tick and returns its hit events."""

    fighters: list[Fighter]
    parameters: Parameters = field(default_factory=Parameters)
    challenge: bool = False
    bullets: list[Bullet] = field(default_factory=list)
    tick: int = 0

    def tick_once(self, actions) -> list[tuple[int, int, str]]:
        """Play one tick. Returns hits as (tick before the step, shooter, "glance" or "damage")."""
        for seat in (0, 1):
            if self.fighters[seat].alive:
                self._fly(seat, *(float(value) for value in actions[seat]))
        for bullet in self.bullets:
            bullet.x += bullet.speed * math.cos(bullet.yaw) * DT
            bullet.y += bullet.speed * math.sin(bullet.yaw) * DT
            bullet.life -= 1
        self.bullets = [bullet for bullet in self.bullets if bullet.life > 0]
        events = self._hits()
        self.tick += 1
        return events

    @property
    def terminated(self) -> bool:
        """Return whether a fighter is dead."""
        return not all(fighter.alive for fighter in self.fighters)

    @property
    def truncated(self) -> bool:
        """Return whether time ran out with both alive."""
        return not self.terminated and self.tick >= MAX_TICKS

    @property
    def outcome(self) -> int:
        """-1 running, 0 draw, 1 seat 0 won, 2 seat 1 won."""
        first, second = self.fighters
        if self.terminated:
            return 1 if first.alive else 2 if second.alive else 0
        if not self.truncated or first.hp == second.hp:
            return 0 if self.truncated else -1
        return 1 if first.hp > second.hp else 2

    def _fly(self, seat: int, turn: float, throttle: float, shoot: float) -> None:
        fighter, p = self.fighters[seat], self.parameters
        lost = p.max_hp - fighter.hp
        vmax = p.max_speed * (1.0 - 0.03 * lost)
        if fighter.stall > 0:
            fighter.stall -= 1
            to_nose_down = wrap_angle(-math.pi / 2 - fighter.yaw)
            fighter.yaw = wrap_angle(fighter.yaw + min(max(to_nose_down, -2.5 * DT), 2.5 * DT))
            fighter.speed += -p.gravity * math.sin(fighter.yaw) * DT
            fighter.speed -= p.drag_coeff * fighter.speed * DT
            fighter.speed = min(max(fighter.speed, p.min_speed), vmax)
            if fighter.speed > 40.0:
                fighter.stall = 0
            self._move(fighter)
            return
        if fighter.speed < 30.0:
            fighter.stall = 36
            return
        turn = min(max(turn, -1.0), 1.0)
        throttle = min(max(throttle, 0.0), 1.0)
        share = (fighter.speed - p.min_speed) / (p.max_speed - p.min_speed)
        rate = p.max_turn_rate + share * (p.min_turn_rate - p.max_turn_rate)
        rate *= 1.0 - 0.02 * lost
        dyaw = turn * rate * DT
        fighter.yaw = wrap_angle(fighter.yaw + dyaw)
        fighter.speed -= p.turn_bleed_coeff * abs(dyaw) * fighter.speed
        fighter.speed += (throttle * p.max_thrust - p.drag_coeff * fighter.speed) * DT
        fighter.speed += -p.gravity * math.sin(fighter.yaw) * DT
        fighter.speed = min(max(fighter.speed, p.min_speed), vmax)
        self._move(fighter)
        if shoot > 0.0 and fighter.cooldown == 0 and fighter.alive:
            x = fighter.x + 12.0 * math.cos(fighter.yaw)
            y = fighter.y + 12.0 * math.sin(fighter.yaw)
            self.bullets.append(Bullet(x, y, fighter.yaw, p.bullet_speed, p.bullet_lifetime_ticks, seat))
            fighter.cooldown = p.gun_cooldown_ticks

    def _move(self, fighter: Fighter) -> None:
        fighter.x += fighter.speed * math.cos(fighter.yaw) * DT
        fighter.y += fighter.speed * math.sin(fighter.yaw) * DT
        if self.challenge:
            _challenge_border(fighter)
        else:
            _classic_walls(fighter)
        if fighter.alive:
            fighter.cooldown = max(fighter.cooldown - 1, 0)

    def _hits(self) -> list[tuple[int, int, str]]:
        events, kept = [], []
        for bullet in self.bullets:
            target = self.fighters[1 - bullet.owner]
            dx = target.x - bullet.x
            if self.challenge:
                dx = wrap_x(dx)
            if not target.alive or math.hypot(dx, target.y - bullet.y) > 11.0:
                kept.append(bullet)
                continue
            if math.cos(bullet.yaw - target.yaw) > math.cos(self.parameters.rear_aspect_cone):
                events.append((self.tick, bullet.owner, "glance"))
                continue
            events.append((self.tick, bullet.owner, "damage"))
            target.hp -= 1
            target.alive = target.hp > 0
        self.bullets = kept
        return events


def wrap_angle(angle: float) -> float:
    """The same direction within [-pi, pi]."""
    return math.remainder(angle, 2.0 * math.pi)


def wrap_x(x: float) -> float:
    """The same place, or difference of places, on a circle of 1000 m."""
    return math.remainder(x, 1000.0)


def _classic_walls(fighter: Fighter) -> None:
    """Apply soft walls: a push growing with the square of the depth into the 50 m band, then a hard stop."""
    depth = min(max((abs(fighter.x) - 450.0) / 50.0, 0.0), 1.0)
    fighter.x -= math.copysign(300.0 * depth**2 * DT, fighter.x)
    fighter.x = min(max(fighter.x, -500.0), 500.0)
    if fighter.y < 50.0:
        fighter.y = max(fighter.y + 300.0 * min((50.0 - fighter.y) / 50.0, 1.0) ** 2 * DT, 0.0)
    if fighter.y > 550.0:
        fighter.y = min(fighter.y - 300.0 * min((fighter.y - 550.0) / 50.0, 1.0) ** 2 * DT, 600.0)


def _challenge_border(fighter: Fighter) -> None:
    """Join the sides; the ground is lethal, and thin air above 550 m slows."""
    fighter.x = wrap_x(fighter.x)
    if fighter.y > 550.0:
        depth = min((fighter.y - 550.0) / 50.0, 1.0)
        fighter.speed = max(fighter.speed - 80.0 * depth**2 * DT, 20.0)
        fighter.y = min(fighter.y, 600.0)
    if fighter.y <= 5.0:
        fighter.alive = False
