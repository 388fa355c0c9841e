"""Missile flight: closed forms in the float64 reference, and the kernel against it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.air_combat.reference import missile as ref
from benchmarks.air_combat.reference.point_mass import density
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import missile as data
from sparring.envs.air_combat.batch import AirCombatBatch
from tests.envs.air_combat import flights

GLIDER = replace(data.MISSILE, propellant=0.0, normal_most=1e9, normal_slope=1e18, load_most=1e9, lag_s=0.0)
"""Without thrust and induced drag, and with any load factor at once: level flight keeps its height."""
ARMED = rules.CombatOptions(missiles=2, flares=20)


def slippery(missile):
    return replace(missile, drag_slow=0.0, drag_peak=0.0, drag_least=0.0)


def shot(speed=250.0, height=5000.0):
    return ref.MissileFlight(np.array([0.0, 0.0, -height]), np.array([speed, 0.0, 0.0]), across=-ref.GRAVITY)


def coast(missile, flight, seconds, target=None):
    for _ in range(round(seconds * 60)):
        flight = ref.fly(missile, flight, target, 1.0 / 60.0)
    return flight


def test_boost_follows_rocket_equation():
    """Without drag the speed gain is the exhaust speed times the logarithm of the mass ratio."""
    rocket = replace(slippery(GLIDER), propellant=27.0)
    gain = rocket.exhaust * np.log(rocket.launch_mass / (rocket.launch_mass - rocket.propellant))
    assert coast(rocket, shot(), 6.0).vel == pytest.approx([250.0 + gain, 0.0, 0.0], rel=1e-4, abs=0.01)
    assert gain == pytest.approx(850.0, abs=2.0)


def test_coasting_loses_speed_by_drag():
    """With a constant coefficient c in level flight 1 / v = 1 / v0 + k t, x = ln(1 + k v0 t) / k, k = rho S c / 2m."""
    brick = replace(GLIDER, drag_slow=0.5, drag_peak=0.5, drag_fall=0.0, drag_least=0.5)
    k = density(5000.0) * brick.area * 0.5 / (2.0 * brick.launch_mass)
    end = coast(brick, shot(900.0), 10.0)
    assert end.vel[0] == pytest.approx(1.0 / (1.0 / 900.0 + k * 10.0), rel=1e-4)
    assert end.pos == pytest.approx([np.log1p(k * 900.0 * 10.0) / k, 0.0, -5000.0], rel=1e-3, abs=0.1)


def test_turning_costs_induced_drag():
    """A constant force m a across at the limit: v^3 = v0^3 - 3 (2 m a^2 / (slope rho S)) t."""
    turner = replace(slippery(GLIDER), normal_slope=30.0, load_most=20.0)
    aside = (np.array([0.0, 1e6, -5000.0]), np.array([0.0, -1e7, 0.0]))
    end = coast(turner, shot(800.0), 1.0, (aside[0] + [1e4, 0.0, 0.0], aside[1]))
    a = 20.0 * 9.80665
    loss = 2.0 * turner.launch_mass * a**2 / (turner.normal_slope * density(5000.0) * turner.area)
    assert np.linalg.norm(end.vel) == pytest.approx((800.0**3 - 3.0 * loss) ** (1 / 3), rel=2e-3)


def test_energy_is_conserved_without_thrust_and_drag():
    """Over a turn and a climb, to the order of the tick."""
    falcon, flight = replace(slippery(GLIDER), load_most=10.0), shot(600.0)
    target = (np.array([3000.0, 3000.0, -9000.0]), np.zeros(3))
    end = coast(falcon, flight, 6.0, target)
    energy = [0.5 * one.vel @ one.vel - 9.80665 * one.pos[2] for one in (flight, end)]
    assert end.vel[1] > 200.0
    assert end.vel[2] < -200.0
    assert energy[1] == pytest.approx(energy[0], rel=5e-4)


MISSES = {3: lambda x: 0.5, 4: lambda x: 0.5 - x / 6.0, 5: lambda x: 0.5 - x / 3.0 + x * x / 24.0}
"""Miss of proportional navigation with gain N behind one lag T, over n t^2 exp(-t / T), as a function of x = t / T.

For a target that begins to turn with a constant n at a time t before the meeting (P. Zarchan, Tactical and Strategic
Missile Guidance, the method of adjoints, linearized).
"""


@pytest.mark.parametrize("gain", MISSES)
@pytest.mark.parametrize("x", [1.0, 2.0, 4.0])
def test_turning_target_is_missed(gain, x):
    lag, turn, speeds = 0.25, 20.0, (1000.0, 500.0)
    time, rate = x * lag, turn / speeds[1]

    def target(t):
        turned, radius = rate * t, speeds[1] / rate
        north = sum(speeds) * time - radius * np.sin(turned)
        place = np.array([north, radius * (1.0 - np.cos(turned)), -5000.0])
        return place, speeds[1] * np.array([-np.cos(turned), np.sin(turned), 0.0])

    missile = replace(slippery(GLIDER), lag_s=lag, navigation=float(gain))
    miss, _ = ref.engage(shot(speeds[0]), target, data=missile, dt=0.001)
    assert miss == pytest.approx(abs(turn * time**2 * np.exp(-x) * MISSES[gain](x)), rel=0.02, abs=0.004)


@pytest.mark.parametrize(
    ("distance", "heading", "hit"),
    [
        (1000.0, 0.0, True), (8000.0, 0.0, True), (12_000.0, 0.0, False),  # From behind it must catch up.
        (9000.0, 90.0, True), (2000.0, 180.0, True), (14_000.0, 180.0, True),
    ],
)  # fmt: skip
def test_straight_flying_target_is_hit_within_envelope(distance, heading, hit):
    """It hits a target flying straight at 250 m/s in sight, until it has slowed down."""
    course = np.radians(heading)
    velocity = 250.0 * np.array([np.cos(course), np.sin(course), 0.0])

    def target(t):
        return np.array([distance, 0.0, -5000.0]) + velocity * t, velocity

    miss, time = ref.engage(shot(), target, data=replace(data.MISSILE, life_s=20.0))
    assert (miss < 1.0) == hit
    assert time < 20.0 or not hit


def level_fight(distance=3000.0, *, offset=0.0, heading=0.0, power=100.0, height=5000.0):
    """Return planes [1, 2]: seat 1 at a distance (m) ahead of seat 0 and `offset` m to its right."""
    planes = flights.level(2, speed=250.0, height=height, heading=np.array([0.0, np.radians(heading)]))
    planes["pos"][1, :2], planes["power"][1] = (distance, offset), power
    return planes.reshape(1, 2)


def armed(planes, **options):
    game = AirCombatBatch(1, threads=1, options=ARMED, **options)
    game.load({"planes": planes})
    return game


def act(game, *, launch=(-1.0, -1.0), flare=(-1.0, -1.0), pull=0.0, throttle=1.0, steps=1):
    """Play steps with both at 1 g and the given weapons of each seat."""
    game.actions[:] = torch.tensor([0.0, 0.0, throttle, -1.0, -1.0, -1.0])
    game.actions[..., 0] = torch.as_tensor(pull)
    game.actions[0, :, 4], game.actions[0, :, 5] = torch.tensor(launch), torch.tensor(flare)
    for _ in range(steps):
        game.step(game.actions)
    return game.snapshot()


def test_kernel_missile_matches_reference():
    """Compared tick by tick against a turning target; the reference gets the kernel's aircraft."""
    game = armed(level_fight(5000.0), action_repeat=1)
    state = act(game, launch=(1.0, -1.0))
    own = None
    for _ in range(60 * 6):
        missile, plane = state["missiles"][0, 1], state["planes"][0, 1]
        seen = plane["pos"].astype(float), plane["vel"].astype(float)
        age = missile["age"] / 60.0
        assert missile["age"] > 0
        values = [missile[name].astype(float) for name in ("pos", "vel")]
        own = own or ref.MissileFlight(*values, age, missile["across"].astype(float))
        own = ref.fly(data.MISSILE, own, seen, 1.0 / 60.0)
        state = act(game, pull=[0.0, 0.5])
        after = state["missiles"][0, 1]
        assert after["target"] == 1
        assert after["vel"] == pytest.approx(own.vel, abs=0.5)
    assert after["pos"] == pytest.approx(own.pos, abs=1.0)
    assert np.linalg.norm(after["vel"]) > 700.0


def test_launch_uses_missile_and_starts_cooldown():
    game = armed(level_fight())
    state = act(game, launch=(1.0, -1.0), steps=14)
    assert state["stores"]["missiles"].tolist() == [[1, 2]]
    assert game.obs[0, 0, rules.CombatOptions(missiles=2).observation.index("missiles")] == 0.5
    state = act(game, launch=(1.0, -1.0), steps=3)
    assert state["stores"]["missiles"].tolist() == [[0, 2]]
    assert (state["missiles"]["age"][0] > 0).tolist() == [True, True, False, False]
    assert act(game, launch=(1.0, -1.0), steps=20)["stores"]["missiles"].tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("fight", "locks"),
    [
        ({"distance": 8500.0}, True),
        ({"distance": 9500.0}, False),
        ({"distance": 6200.0, "power": 50.0}, True),  # 9 km sqrt(1 / 2)
        ({"distance": 6600.0, "power": 50.0}, False),
        ({"distance": 3000.0, "heading": 180.0}, True),  # 9 km sqrt(0.12)
        ({"distance": 3300.0, "heading": 180.0}, False),
        ({"distance": 3000.0, "offset": 1050.0}, True),  # 19 degrees off the nose
        ({"distance": 3000.0, "offset": 1150.0}, False),  # 21 degrees
    ],
)
def test_seeker_locks_within_range_and_cone(fight, locks):
    game = armed(level_fight(**fight))
    assert game.obs[0, 0, ARMED.observation.index("lock")] == float(locks)
    assert act(game, launch=(1.0, -1.0), throttle=0.54)["stores"]["missiles"][0, 0] == 2 - locks


def flying(game, **fields):
    """Put a missile of seat 0 into the air, 2 s old, at the origin at 5 km flying north, and return its state after a
    tick."""
    missiles = game.snapshot()["missiles"]
    values = {"pos": (0, 0, -5000), "vel": (700, 0, 0), "line": (1, 0, 0), "age": 120, "target": 1} | fields
    for name, value in values.items():
        missiles[name][0, 0] = value
    game.load({"missiles": missiles})
    return act(game)["missiles"][0, 0]


@pytest.mark.parametrize(
    ("bearing", "line", "seen"),
    [
        (2.0, 0.0, True), (3.0, 0.0, False),  # The field of view, 2.5 degrees about the line of sight.
        (44.0, 44.0, True), (47.0, 46.0, False),  # The gimbal, 45 degrees about the path.
    ],
)  # fmt: skip
def test_seeker_tracks_within_cone(bearing, line, seen):
    bearing, line = np.radians([bearing, line])
    game = armed(level_fight(2000.0 * np.cos(bearing), offset=2000.0 * np.sin(bearing)), action_repeat=1)
    missile = flying(game, line=(np.cos(line), np.sin(line), 0.0))
    assert missile["target"] == (1 if seen else -1)


@pytest.mark.parametrize(
    ("power", "heading", "decoyed"),
    [(100.0, 0.0, False), (50.0, 0.0, False), (20.0, 0.0, True), (100.0, 100.0, True), (100.0, 180.0, True)],
)
def test_flare_decoys_by_brightness(power, heading, decoyed):
    """0.35 against 1, 0.5 and 0.3 from behind, and 0.26 and 0.12 from the side and ahead."""
    game = armed(level_fight(2500.0, heading=heading, power=power), action_repeat=1)
    flares = game.snapshot()["flares"]
    slot = data.FLARE_SLOTS
    flares["pos"][0, slot], flares["life"][0, slot] = (2500.0, 10.0, -5000.0), 150
    game.load({"flares": flares})
    assert (flying(game)["target"] >= 2) == decoyed


def test_flare_burns_decelerates_and_ends():
    game = armed(level_fight(power=50.0), action_repeat=1)
    start = act(game, flare=(-1.0, 1.0))
    assert start["stores"]["flares"].tolist() == [[20, 19]]
    states = [act(game)["flares"][0] for _ in range(212)]
    burning = [int((flares["life"] > 0).sum()) for flares in states]
    assert burning == [1] * 208 + [0] * 4
    speeds = [np.linalg.norm(flares["vel"][flares["life"] > 0][0]) for flares in states[:208]]
    assert speeds[0] == pytest.approx(250.0, abs=5.0)
    drag = 9.80665 / data.FLARE_TERMINAL**2  # 1 / v grows by this per s, but for its weight
    assert speeds[-1] == pytest.approx(1.0 / (1.0 / 250.0 + drag * 208 / 60), rel=0.08)
    assert ref.flare_intensity(1.0) == data.FLARE_INTENSITY
    assert ref.flare_intensity(3.0) == pytest.approx(0.5 * data.FLARE_INTENSITY)
    assert ref.flare_intensity(4.0) == 0.0


@pytest.mark.parametrize(("miss", "damage"), [(3.0, 1.0), (7.5, 0.5), (9.0, 0.2), (11.0, 0.0)])
def test_warhead_damage_depends_on_miss_distance(miss, damage):
    game = armed(level_fight(40.0, offset=miss, heading=90.0), action_repeat=8)
    planes = game.snapshot()["planes"]
    planes["vel"][0, 1] = (60.0, 0.0, 0.0)
    planes["nose"][0, 1] = (1.0, 0.0, 0.0)
    game.load({"planes": planes})
    missile = flying(game, line=(-1.0, 0.0, 0.0), target=-1, across=(0.0, 0.0, -9.80665))
    hp = float(game.final_hp[0, 1]) if damage == 1.0 else float(game.snapshot()["planes"]["hp"][0, 1])
    assert hp == pytest.approx(1.0 - damage, abs=0.05)
    assert (missile["age"] == 0) == (damage > 0.0)
