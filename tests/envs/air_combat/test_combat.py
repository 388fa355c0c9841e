"""Air combat matches: starts, guns, endings, observations, and dependence on seed, id and actions only."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import ConfigError, UnknownNameError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch, CombatReward
from tests.envs.air_combat import flights

HANDS_OFF = torch.tensor([0.0, 0.0, 0.54, 0.0])
COLUMN = {name: index for index, name in enumerate(rules.OBSERVATION)}


def batch(n=1, **options):
    return AirCombatBatch(n, threads=1, **options)


def scene(distance=500.0, *, heading=(0.0, 0.0), height=5000.0, speed=220.0):
    """Return planes [1, 2]: seat 1 is `distance` north of seat 0."""
    planes = flights.level(2, speed=speed, height=height, heading=np.array(heading))
    planes["pos"][1, 0], planes["rounds"], planes["alpha"] = distance, rules.MAGAZINE, 0.0
    return planes.reshape(1, 2)


def play(game, actions=None, bots=None, steps=1):
    if bots is not None:
        game.assign(torch.tensor([[rules.bot_id(name) for name in bots]]))
    game.actions[:] = HANDS_OFF if actions is None else actions
    for _ in range(steps):
        game.step(game.actions)
        if game.outcome[0] >= 0:
            break
    return game


def test_starts_are_equal_for_both_seats():
    planes = batch(64, seed=3).snapshot()["planes"]
    assert planes["pos"][:, 0] * (-1, -1, 1) == pytest.approx(planes["pos"][:, 1], abs=1e-2)
    assert planes["vel"][:, 0] == pytest.approx(-planes["vel"][:, 1], abs=1e-3)
    heights = -planes["pos"][:, 0, 2]
    assert rules.START_HEIGHT[0] <= heights.min() < heights.max() <= rules.START_HEIGHT[1]
    assert len(np.unique(heights)) == 64


@pytest.mark.parametrize("model", rules.MODELS)
def test_match_depends_on_its_id_only(model):
    """A row of many equals the match alone, bit for bit, with guns firing."""
    many, one = batch(7, model=model, seed=5), batch(1, model=model, seed=5)
    one.match_id[:] = 4
    one.reset(5)
    for game in (many, one):
        game.assign(torch.tensor([[rules.bot_id("ace"), rules.bot_id("brawler")]]))
        for _ in range(200):
            game.step(game.actions)
    assert torch.equal(many.obs[4], one.obs[0])
    assert torch.equal(many.reward[4], one.reward[0])


def test_swapping_seats_swaps_rewards():
    """The rewards are swapped when the pilots change seats."""
    left, right = (batch(8, seed=9) for _ in range(2))
    ids = [rules.bot_id("dogfighter"), rules.bot_id("chaser")]
    left.assign(torch.tensor([ids]))
    right.assign(torch.tensor([ids[::-1]]))
    for _ in range(60):
        for game in (left, right):
            game.step(game.actions)
        assert left.reward.numpy() == pytest.approx(right.reward.numpy()[:, ::-1], abs=1e-3)


def test_cone_damage_depends_on_range():
    game = batch()
    game.load({"planes": scene(500.0)})
    action = torch.stack([HANDS_OFF + torch.tensor([0.0, 0.0, 0.0, 1.0]), HANDS_OFF])
    play(game, action)
    per_tick = rules.CONE_RATE / 60 * (1 - 0.75 * (500 - rules.CONE_NEAR) / (rules.CONE_FAR - rules.CONE_NEAR))
    planes = game.snapshot()["planes"][0]
    assert planes["hp"] == pytest.approx([1.0, 1.0 - 4 * per_tick], abs=1e-3)


@pytest.mark.parametrize(("distance", "heading"), [(120.0, 0.0), (1000.0, 0.0), (500.0, 0.1)])
def test_cone_misses_outside(distance, heading):
    game = batch()
    game.load({"planes": scene(distance, heading=(heading, 0.0))})
    play(game, HANDS_OFF + torch.tensor([0.0, 0.0, 0.0, 1.0]))
    assert game.snapshot()["planes"]["hp"][0, 1] == 1.0


def test_rounds_have_flight_time_and_hit():
    game = batch(model="f16")
    planes = scene(400.0)
    planes["surfaces"][..., 0] = -2.0
    game.load({"planes": planes})
    action = torch.stack([HANDS_OFF + torch.tensor([0.0, 0.0, 0.0, 1.0]), HANDS_OFF])
    play(game, action)
    assert game.snapshot()["planes"]["hp"][0, 1] == 1.0  # 0.4 s of flight
    taken = []
    while not taken or taken[-1] == 0.0:
        game.step(game.actions)
        taken.append(1.0 - game.snapshot()["planes"]["hp"][0, 1])
        assert len(taken) < 12
    hits = taken[-1] / rules.HIT_DAMAGE
    assert hits == pytest.approx(round(hits), abs=1e-4)
    assert len(taken) >= 5  # 24 ticks of flight


def test_five_bursts_kill():
    """Not six, because 1 - 5 x 0.2 is above 0 in float32."""
    game = batch(model="f16")
    game.load({"planes": scene(400.0)})
    state = game.snapshot()
    for slot in range(5):  # one in each tick of two steps
        burst, target = state["rounds"][0, slot], state["planes"][0, 1]
        burst["pos"] = target["pos"] - target["vel"] / np.linalg.norm(target["vel"]) * (20.0 + 17.0 * slot)
        burst["vel"], burst["life"] = target["vel"] * 6.0, 60
    game.load({"rounds": state["rounds"]})
    for _ in range(3):
        game.step(game.actions)
        if game.terminated[0]:
            break
    assert (bool(game.terminated[0]), game.outcome[0], game.final_hp[0].tolist()) == (True, 1, [1.0, 0.0])


def test_rounds_run_out():
    game = batch(gun="rounds")
    game.load({"planes": scene(12_000.0)})
    play(game, HANDS_OFF + torch.tensor([0.0, 0.0, 0.0, 1.0]), steps=90)
    assert game.snapshot()["planes"]["rounds"][0].tolist() == [0, 0]
    assert game.obs[0, 0, COLUMN["rounds"]] == 0.0


@pytest.mark.parametrize("height", [100.0, 14_960.0])
def test_ground_and_ceiling_end_flight(height):
    """The leaving aircraft loses, and the match is decided, not truncated."""
    game = batch()
    planes = scene(3000.0)
    up = 1.0 if height > 1000 else -1.0
    planes["pos"][0, 0, 2], planes["vel"][0, 0] = -height, (0.0, 0.0, -200.0 * up)
    planes["nose"][0, 0], planes["up"][0, 0] = (0.0, 0.0, -up), (1.0, 0.0, 0.0)
    game.load({"planes": planes})
    play(game, steps=30)
    assert game.terminated[0]
    assert not game.truncated[0]
    assert game.outcome[0] == 2
    assert game.reward[0].tolist() == pytest.approx([-2.0, 2.5], abs=0.5)  # damage -0.5 and loss, damage 1 and win


def test_time_limit_compares_hp():
    game = batch(max_ticks=8, reward=CombatReward(shaping=0.0))
    planes = scene(3000.0)
    planes["hp"] = [[0.5, 0.75]]
    game.load({"planes": planes})
    play(game, steps=2)
    assert game.truncated[0]
    assert not game.terminated[0]
    assert game.outcome[0] == 2
    assert game.reward[0].tolist() == [-1.5, 1.5]
    out = torch.zeros(1, game.obs_dim)
    game.final_reader(torch.tensor([1]), out)()
    assert out[0, COLUMN["time_left"]] == 0.0
    assert out[0, COLUMN["its_hp"]] == 0.5
    assert game.obs[0, 0, COLUMN["time_left"]] == 1.0
    assert game.seat_stats(torch.tensor([1])).tolist() == [[8.0, 0.75]]


@pytest.mark.parametrize("options", [rules.CombatOptions(), rules.CombatOptions(flares=1)], ids=["plain", "battle"])
def test_fired_rounds_cost_share_of_magazine(options):
    reward = CombatReward(shaping=0.0, ammunition=2.0)
    game = batch(gun="rounds", reward=reward, options=options)
    planes = scene(50_000.0)  # nothing is hit
    game.load({"planes": planes})
    game.actions[:] = -1.0
    game.actions[0, 0, 3] = 1.0
    earned = torch.zeros(2)
    for _ in range(5):
        game.step(game.actions)
        earned += game.reward[0]
    left = game.snapshot()["planes"]["rounds"][0]
    assert 0 < left[0] < left[1] == rules.MAGAZINE
    assert earned.tolist() == pytest.approx([-2.0 * (1.0 - left[0] / rules.MAGAZINE), 0.0])


def test_non_finite_actions_are_counted_and_ignored():
    game = batch()
    action = HANDS_OFF.repeat(1, 2, 1)
    action[0, 1, 1] = torch.nan
    play(game, action)
    assert game.invalid_actions.tolist() == [1]
    assert game.obs.isfinite().all()


def test_observation_of_head_on_pass():
    game = batch()
    game.load({"planes": scene(2000.0, heading=(0.0, np.pi))})
    obs = dict(zip(rules.OBSERVATION, game.obs[0, 0].tolist(), strict=True))
    expected = {"bearing_x": 1.0, "cos_off_nose": 1.0, "cos_off_tail": -1.0, "closure": 440 / 300, "range_far": 0.4}
    expected |= {
        "its_nose_x": -1.0,
        "its_up_z": -1.0,
        "height": 0.5,
        "roof_elevation": 1.0,
        "mach": 0.686,
        "load": 1 / 9,
    }
    assert obs == pytest.approx(obs | expected, abs=2e-3)
    assert len(obs) == game.obs_dim == game.obs.shape[-1]


def test_observation_to_right_and_above():
    game = batch()
    planes = scene(0.0)
    planes["pos"][0, 1] += (0.0, 1000.0, -1000.0)
    game.load({"planes": planes})
    half = 0.5**0.5
    bearing = [game.obs[0, 0, COLUMN[f"bearing_{axis}"]] for axis in "xyz"]
    assert bearing == pytest.approx([0.0, half, -half], abs=1e-4)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("pos", (0.0, 0.0, -20_000.0), {"height": 1.497}),
        ("vel", (900.0, 0.0, 0.0), {"mach": 2.0}),
        ("vel", (10.0, 0.0, 0.0), {"mach": 0.1}),
        ("vel", (-200.0, 0.0, 0.0), {"nose_elevation": 0.0}),
    ],
)
def test_starts_outside_tables_are_clamped_and_counted(field, value, expected):
    for model in rules.MODELS:
        game = batch(model=model)
        planes = scene(3000.0)
        planes[field][0, 0] = value
        game.load({"planes": planes})
        obs = dict(zip(rules.OBSERVATION, game.obs[0, 0].tolist(), strict=True))
        assert game.clamped.tolist() == [1]
        assert obs == pytest.approx(obs | expected, abs=1e-2)
        play(game)
        assert game.obs.isfinite().all()


@pytest.mark.parametrize("model", rules.MODELS)
def test_state_resumes_bit_for_bit(model):
    game, other = batch(3, model=model, seed=1), batch(3, model=model, seed=2)
    for one in (game, other):
        one.assign(torch.full((3, 2), rules.bot_id("ace")))
        for _ in range(30):
            one.step(one.actions)
    other.load_state_dict(game.state_dict())
    for one in (game, other):
        for _ in range(30):
            one.step(one.actions)
    assert torch.equal(game.obs, other.obs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, r"num_envs=0: must be a whole number in \[1, 10000000\]"),
        ({"seed": -1}, r"seed=-1: must be a whole number in \[0, 2147483647\]"),
        ({"gamma": 1.5}, r"gamma=1.5: .*\[0, 1\]"),
    ],
)
def test_bad_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        AirCombatBatch(**({"num_envs": 1} | options))


def test_bad_names_bots_and_shapes_are_rejected():
    with pytest.raises(UnknownNameError, match="f-16"):
        batch(model="f-16")
    with pytest.raises(ConfigError, match=r"bots=\[99\]: choose from -1 actions, 0 do_nothing"):
        batch().assign(torch.full((1, 2), 99))
    with pytest.raises(ValueError, match=r"expected \(1, 2, 4\)"):
        batch().step(torch.zeros(1, 2, 3))
