"""Randomized physics: ranges, mass, wind, gusts, sensors, observations, and resuming."""

import numpy as np
import pytest
import torch

from benchmarks.air_combat.reference import point_mass
from sparring.configs.core.errors import ConfigError, UnknownNameError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from tests.envs.air_combat import flights

FULL = rules.CombatOptions(randomization="full")
COLUMN = {name: index for index, name in enumerate(FULL.observation)}


def batch(n=1, *, level="full", seed=5, observed=True, **further):
    options = rules.CombatOptions(randomization=level, observe_physics=observed)
    return AirCombatBatch(n, threads=1, seed=seed, options=options, **further)


def calm(game, **values):
    """Set physics to defaults except `values`, and return the conditions [N]."""
    conditions = game.snapshot()["conditions"]
    defaults = {"mass": 1, "thrust": 1, "drag": 1, "shear": 0, "turbulence": 0, "noise": 0, "delay": 0}
    for name, value in (defaults | values).items():
        conditions[name] = value
    game.load({"conditions": conditions})
    return conditions


def straight(game, steps, record=lambda state: state):
    game.assign(torch.tensor([[rules.bot_id("straight")] * 2]))
    for _ in range(steps):
        game.step(game.actions)
        yield record(game.snapshot())


@pytest.mark.parametrize("level", ["narrow", "full"])
def test_physics_are_drawn_within_ranges(level):
    conditions = batch(400, level=level).snapshot()["conditions"]
    drawn = [conditions[name] for name in ("mass", "thrust", "drag")]
    drawn += [np.linalg.norm(conditions["shear"], axis=-1) * 1000.0]
    drawn += [conditions[name] for name in ("turbulence", "noise", "delay")]
    for values, (low, high) in zip(drawn, rules.ranges(level), strict=True):
        assert low - 1e-5 <= values.min() < low + 0.1 * (high - low) + 1e-5
        assert high - 0.1 * (high - low) < values.max() <= high + 1e-5
    assert np.unique(conditions["delay"]).tolist() == list(range(int(rules.ranges(level)[-1][1]) + 1))


def test_draws_depend_on_match_only_and_keep_starts():
    many, one = batch(6), batch()
    one.match_id[:] = 4
    one.reset(5)
    assert many.snapshot()["conditions"][4] == one.snapshot()["conditions"][0]
    plain = AirCombatBatch(6, threads=1, seed=5)
    assert np.array_equal(plain.snapshot()["planes"]["pos"], many.snapshot()["planes"]["pos"])


@pytest.mark.parametrize("mass", [0.8, 1.25])
def test_mass_changes_excess_power_as_expected(mass):
    """A load n on m masses needs the lift of n m: Ps = Ps_nominal(n m) / m."""
    speed, height = 220.0, 4000.0
    planes = flights.level(1, speed=speed, height=height)
    planes["power"] = 100.0
    planes = flights.fly(planes, (1.0, 0.0, 1.0), 120, mass=mass)  # lags settle
    later = flights.fly(planes, (1.0, 0.0, 1.0), 30, mass=mass)
    heights = [-one["pos"][0, 2] + np.sum(one["vel"][0].astype(float) ** 2) / (2 * 9.80665) for one in (planes, later)]
    middle = 0.5 * (np.linalg.norm(planes["vel"][0]) + np.linalg.norm(later["vel"][0]))
    expected = point_mass.specific_excess_power(mass, middle, -planes["pos"][0, 2], 100.0) / mass
    assert (heights[1] - heights[0]) / 0.5 == pytest.approx(expected, rel=0.02)


def test_mass_scales_f16_forces_and_moments():
    planes = flights.level(1, speed=150.0, height=4000.0)
    planes["surfaces"] = (-8.0, 5.0, 2.0)
    light, heavy = (flights.fly(planes, (1.0, 0.0, 0.5), 0, six=True, mass=mass)[0] for mass in (1.0, 1.25))
    gravity = np.array([0.0, 0.0, 32.17 * 0.3048])
    forces = [one["past_acceleration"] - gravity for one in (light, heavy)]
    assert forces[1] * 1.25 == pytest.approx(forces[0], abs=1e-4)
    assert heavy["past_rotation"] * 1.25 == pytest.approx(light["past_rotation"], abs=1e-4)


def test_wind_displaces_aircraft():
    """5 m/s to the north at 1,000 m above the height of the start: the same flight, displaced."""
    places = []
    for shear in (0.0, 0.005):
        game = batch(max_ticks=10_000)
        conditions = calm(game, shear=(shear, 0.0, 0.0))
        planes = game.snapshot()["planes"]
        planes["pos"][..., 2] = -conditions["height"] - 1000.0
        planes["vel"] += (1000.0 * shear, 0.0, 0.0)
        game.load({"planes": planes})
        *_, last = straight(game, 75, lambda state: state["planes"]["pos"][0])
        places.append(last)
    assert places[1] - places[0] == pytest.approx(np.tile([25.0, 0.0, 0.0], (2, 1)), abs=1.5)


@pytest.mark.parametrize("model", rules.MODELS)
def test_shear_gives_energy_in_climb_into_wind(model):
    """Airspeed grows at the rate of climb times the shear against the wind, and falls downwind."""
    gains = []
    for sign in (-1.0, 0.0, 1.0):
        game = batch(model=model, gun="cone")
        calm(game, shear=(sign * 0.02, 0.0, 0.0))
        planes = flights.level(2, speed=220.0, height=4000.0).reshape(1, 2)
        planes["pos"][0, 1, 1], planes["surfaces"][..., 0] = 20_000.0, -2.0
        game.load({"planes": planes})
        conditions = game.snapshot()["conditions"]
        conditions["height"] = 4000.0
        game.load({"conditions": conditions})
        game.actions[:] = torch.tensor([0.15, 0.0, 0.3, -1.0])
        for _ in range(60):
            game.step(game.actions)
        end = game.snapshot()["planes"][0, 0]
        climbed = -end["pos"][2] - 4000.0
        air = end["vel"] - np.array([sign * 0.02 * climbed, 0.0, 0.0])
        gains.append((np.linalg.norm(air), climbed))
    assert gains[0][1] > 50.0
    change = 0.02 * gains[1][1]
    assert gains[0][0] - gains[1][0] == pytest.approx(change, rel=0.35)
    assert gains[1][0] - gains[2][0] == pytest.approx(change, rel=0.35)


def test_gusts_have_dryden_variance_and_length():
    game = batch(300, level="narrow")
    calm(game, turbulence=2.0)
    states = list(straight(game, 150, lambda state: (state["gusts"], state["planes"]["vel"])))
    gusts = np.stack([gust for gust, _ in states[90:]])  # the filters have settled
    root = 3.0**0.5
    outputs = {"along": gusts["along"]}
    for name in ("side", "down"):
        outputs[name] = 0.5**0.5 * (root * gusts[name][..., 0] + (1.0 - root) * gusts[name][..., 1])
    assert {name: float(value.std()) for name, value in outputs.items()} == pytest.approx(
        {"along": 1.0, "side": 1.0, "down": 1.0}, abs=0.07
    )
    # Correlation over 2 s: exp(-s) along, and (1 - s / 2) exp(-s) across, s = V t / L.
    s = float(np.linalg.norm(states[0][1], axis=-1).mean()) * 2.0 / 533.0
    correlations = {name: float((value[0] * value[30]).mean()) for name, value in outputs.items()}
    across = (1.0 - 0.5 * s) * np.exp(-s)
    assert correlations == pytest.approx({"along": np.exp(-s), "side": across, "down": across}, abs=0.12)


def test_delayed_sensor_shows_past_values():
    game = batch(3, level="narrow")
    conditions = calm(game)
    conditions["delay"] = [0, 1, 3]
    game.load({"conditions": conditions})
    places = list(straight(game, 8, lambda state: state["planes"]["pos"].copy()))
    for match, delay in enumerate((0, 1, 3)):
        seen = places[-1 - delay][match, 1]
        distance = np.linalg.norm(seen - places[-1][match, 0])
        assert game.obs[match, 0, COLUMN["range_far"]].item() == pytest.approx(distance / 5000.0, rel=1e-4)


def test_sensor_noise_has_configured_deviation():
    game = batch(500, level="narrow")
    calm(game, noise=20.0)
    errors = []
    for planes in straight(game, 3, lambda state: state["planes"]):
        distance = np.linalg.norm(planes["pos"][:, 1] - planes["pos"][:, 0], axis=-1)
        errors.append(game.obs[:, 0, COLUMN["range_far"]].numpy() * 5000.0 - distance)
    assert np.std(errors) == pytest.approx(20.0, rel=0.1)
    assert abs(np.corrcoef(errors[0], errors[1])[0, 1]) < 0.15


def test_physics_are_observed_or_hidden():
    seen, hidden = batch(50), batch(50, observed=False)
    plain = AirCombatBatch(50, threads=1, seed=5)
    assert seen.obs.shape[-1] == plain.obs.shape[-1] + len(rules.OBSERVATION_PHYSICS)
    assert hidden.contract == plain.contract
    assert seen.contract != plain.contract
    conditions = seen.snapshot()["conditions"]
    assert seen.obs[:, 1, COLUMN["mass"]].numpy() == pytest.approx((conditions["mass"] - 1.0) * 4.0, abs=1e-5)
    assert seen.obs[:, 0, COLUMN["sensor_delay"]].numpy() * 3.0 == pytest.approx(conditions["delay"], abs=1e-5)
    shears = seen.obs[:, 0, COLUMN["shear_x"] : COLUMN["shear_z"] + 1].norm(dim=-1) / 200.0
    assert shears.numpy() == pytest.approx(np.linalg.norm(conditions["shear"], axis=-1), abs=1e-6)
    assert seen.obs[..., len(rules.OBSERVATION) :].abs().max() <= 1.3


def test_ranges_apply_to_next_matches():
    game = batch(4)
    ranges = np.array(rules.ranges("none"))
    ranges[0] = (1.1, 1.1)
    game.set_ranges(ranges)
    assert (game.snapshot()["conditions"]["mass"] != 1.1).all()
    game.reset()
    assert game.snapshot()["conditions"]["mass"] == pytest.approx(1.1)
    assert not game.snapshot()["conditions"]["delay"].any()


def test_bad_levels_and_ranges_are_rejected():
    with pytest.raises(ConfigError, match="randomization=wide"):
        rules.CombatOptions(randomization="wide")
    with pytest.raises(UnknownNameError, match="wide"):
        rules.ranges("wide")
    ranges = np.array(rules.ranges("full"))
    ranges[4] = (0.0, 21.0)
    with pytest.raises(ConfigError, match=r"range of turbulence is 0\.\.21: must be within 0\.\.20"):
        batch().set_ranges(ranges)
    with pytest.raises(ConfigError, match=r"ranges have shape \(2, 2\)"):
        batch().set_ranges(ranges[:2])
    with pytest.raises(ConfigError, match="randomization=none"):
        AirCombatBatch(1, options=rules.CombatOptions(missiles=1)).set_ranges(ranges)
