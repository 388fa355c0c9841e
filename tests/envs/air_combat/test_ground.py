"""Low flight: starts, ground observations, ground reward, and the limiter."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.play.duel_matches import play
from sparring.agents.policies.policy import PolicyError, appended_columns
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.files import ROOT
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.config import CombatReward
from sparring.envs.air_combat.training.opponents import CombatConditions, contract_of
from tests.envs.air_combat import flights

G = 9.80665
PLAIN, SEEN = rules.CombatOptions(), rules.CombatOptions(observe_ground=True)
FURTHER = rules.CombatOptions(observe_ground=True, missiles=1)
COLUMN = {name: SEEN.observation.index(name) for name in rules.OBSERVATION_GROUND}


def batch(n=1, *, options=SEEN, **further):
    return AirCombatBatch(n, threads=1, seed=3, options=options, **further)


def dived(game, *, height, speed, angle, load=1.0):
    """Set all aircraft to a dive by `angle` degrees, wings level, and return their planes."""
    planes = game.snapshot()["planes"]
    steep = np.radians(angle)
    flown = flights.level(planes.size, speed=speed, height=height).reshape(planes.shape)
    for name, values in (("vel", (np.cos(steep) * speed, 0.0, np.sin(steep) * speed)),
                         ("nose", (np.cos(steep), 0.0, np.sin(steep))),
                         ("up", (np.sin(steep), 0.0, -np.cos(steep))),
                         ("attitude", (0.0, -np.sin(steep / 2), 0.0, np.cos(steep / 2)))):  # fmt: skip
        flown[name] = values
    flown["load"], flown["rounds"] = load, rules.MAGAZINE
    flown["pos"][:, 1, 1] = 20_000.0  # apart
    game.load({"planes": flown})
    return game.snapshot()["planes"]


# Starts


@pytest.mark.parametrize("options", [PLAIN, rules.CombatOptions(team_size=2)], ids=["duel", "teams"])
def test_low_starts_have_expected_heights_and_are_even(options):
    low = AirCombatBatch(2000, threads=1, seed=8, low_start=1.0, options=options).snapshot()["planes"]
    height = -low["pos"][..., 2]
    assert (height == height[:, :1]).all()
    assert 60.0 <= height.min() < 62.0
    assert 1400.0 < height.max() <= 1500.0
    assert 0.45 < (height[:, 0] < 300.0).mean() < 0.55  # the middle of the logarithms of 60 and 1500
    speeds = np.linalg.norm(low["vel"], axis=-1)
    assert np.abs(speeds - speeds[:, :1]).max() < 1e-3
    half = low.shape[1] // 2
    assert np.allclose(low["pos"][:, :half, :2], -low["pos"][:, half:, :2], atol=1e-2)  # turned about the middle
    assert np.allclose(low["vel"][:, :half, :2], -low["vel"][:, half:, :2], atol=1e-2)


def test_low_start_share_leaves_other_starts_unchanged():
    high, mixed, low = (AirCombatBatch(2000, threads=1, seed=8, low_start=share).snapshot()["planes"]
                        for share in (0.0, 0.3, 1.0))  # fmt: skip
    near = -mixed["pos"][:, 0, 2] < 1600.0
    assert 0.26 < near.mean() < 0.34
    assert np.array_equal(mixed[~near], high[~near])
    assert np.array_equal(mixed[near], low[near])
    assert np.array_equal(high["pos"][..., :2], low["pos"][..., :2])
    assert (-high["pos"][..., 2] >= rules.START_HEIGHT[0]).all()


@pytest.mark.parametrize("name", ["low_start", "ground_limit"])
def test_out_of_range_values_are_rejected_by_name(name):
    with pytest.raises(ConfigError, match=f"{name}=-0.1: must be in"):
        batch(**{name: -0.1})


# Observation


@pytest.mark.parametrize("options", [SEEN, FURTHER], ids=["guns", "missiles"])
def test_ground_observation_by_hand(options):
    game = batch(options=options)
    planes = dived(game, height=400.0, speed=200.0, angle=30.0, load=3.0)
    seen = dict(zip(rules.OBSERVATION_GROUND, game.obs[0, 0].numpy()[-6:], strict=True))
    height, sink = -planes["pos"][0, 0, 2], 200.0 * 0.5
    assert height == pytest.approx(400.0)
    assert seen["ground_height"] == pytest.approx(0.4)
    assert seen["ground_near"] == pytest.approx(np.exp(-4.0))
    assert seen["ground_time_straight"] == pytest.approx(400.0 / sink / 10.0)
    # 3 g along the roof, of which cos(30) points up: 400 = 100 t - 0.5 a t^2 has no solution, it clears the ground.
    rise = G * (3.0 * np.cos(np.radians(30.0)) - 1.0)
    assert sink**2 - 2.0 * rise * 400.0 < 0.0
    assert seen["ground_time_turning"] == 1.0
    assert seen["its_ground_height"] == pytest.approx(0.4)
    dived(game, height=400.0, speed=200.0, angle=30.0, load=0.0)
    fall = (-sink + np.sqrt(sink**2 + 2.0 * G * 400.0)) / G  # free fall
    assert game.obs[0, 0, -3].item() == pytest.approx(fall / 10.0, rel=1e-3)


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize(("speed", "angle"), [(180.0, 20.0), (250.0, 45.0), (300.0, 60.0), (200.0, 80.0)])
def test_predicted_margin_matches_flown_pull_out(model, speed, angle):
    """The simulator flies full stick from wings level at full throttle. The prediction is conservative."""
    game = batch(model=model, action_repeat=1)
    dived(game, height=2500.0, speed=speed, angle=angle)
    start = game.snapshot()["planes"]["pos"][0, 0, 2]
    dived(game, height=1000.0, speed=speed, angle=angle)
    lost = 1000.0 - 1000.0 * game.obs[0, 0, COLUMN["ground_margin"]].item()
    dived(game, height=2500.0, speed=speed, angle=angle)
    lowest, action = start, torch.tensor([[[1.0, 0.0, 1.0, -1.0]] * 2])
    for _ in range(600):
        game.step(action)
        lowest = max(lowest, game.snapshot()["planes"]["pos"][0, 0, 2])
    flown = lowest - start
    assert flown < lost < 1.6 * flown + 40.0


def test_ground_columns_are_last_with_every_option():
    options = rules.CombatOptions(observe_ground=True, missiles=1, radar=True, team_size=2, randomization="full")
    for seen, blind in ((options, replace(options, observe_ground=False)), (SEEN, PLAIN)):
        assert seen.observation == blind.observation + rules.OBSERVATION_GROUND
        assert seen.layout == blind.layout
        games = [AirCombatBatch(2, threads=1, seed=5, options=one) for one in (seen, blind)]
        for _ in range(3):
            for game in games:
                game.step(torch.zeros(2, game.seats, game.action_size))
        assert torch.equal(games[0].obs[..., :-6], games[1].obs)


# Players with and without these columns


def test_policies_with_and_without_ground_columns_can_meet():
    old = sparring.load(ROOT / "checkpoints" / "released" / "air_combat_f16_rounds.pt").policy
    setting = CombatConditions("point_mass", "cone", old.contract["action_repeat"], threads=1, options=SEEN)
    new = contract_of(50, {})
    assert new["observe_ground"]
    assert new["layout"] == contract_of(44, {})["layout"]
    assert contract_of(45, {}) is None
    contract = setting.batch(2).contract
    old.check(contract)
    assert appended_columns(old.contract, contract) == 6
    blind = CombatConditions("point_mass", "cone", old.contract["action_repeat"], threads=1)
    alone = play(old, "chaser", games=4, seed=1, setting=blind)
    assert np.array_equal(alone.length, play(old, "chaser", games=4, seed=1, setting=setting).length)
    seeing = sparring.load(ROOT / "checkpoints" / "released" / "air_combat_f16_rounds.pt").policy
    seeing.contract = contract
    with pytest.raises(PolicyError, match="cannot play matches with 44"):
        seeing.check(blind.batch(2).contract)


# Reward


@pytest.mark.parametrize("options", [PLAIN, rules.CombatOptions(missiles=1)], ids=["guns", "missiles"])
def test_impact_costs_ground_weight_besides_loss(options):
    """Undiscounted sums over a match: the initial potential is about 0, an impact keeps -1 of it."""
    reward = {"damage_dealt": 0.0, "damage_taken": 0.0, "shaping": 0.0, "lose": 0.0, "win": 0.0, "draw": 0.0}
    game = batch(options=options, reward=CombatReward(**reward, ground=2.0), gamma=1.0)
    dived(game, height=2900.0, speed=150.0, angle=0.0)
    total = torch.zeros(2)
    action = torch.zeros(1, 2, game.action_size)
    action[0, 0, 0] = -1.0  # pushes over, the other flies on
    while True:
        total += game.step(action)[0][0]
        if game.outcome[0] >= 0:
            break
    assert game.outcome[0] == 2
    assert total.tolist() == pytest.approx([-2.0, 0.0], abs=1e-4)


# Limit


@pytest.mark.parametrize("options", [PLAIN, rules.CombatOptions(missiles=1)], ids=["guns", "missiles"])
@pytest.mark.parametrize("model", rules.MODELS)
def test_limiter_saves_dive_that_is_lost_without_it(model, options):
    """From 400 m at 250 m/s, 30 degrees down, hands off the stick."""
    lost = {}
    for limit in (0.0, 60.0):
        game = batch(2, model=model, options=options, ground_limit=limit)
        dived(game, height=400.0, speed=250.0, angle=30.0)
        lowest, ended = np.inf, False
        for _ in range(300):
            game.step(
                torch.zeros(2, 2, game.action_size) + torch.tensor([0.0, 0.0, -0.5] + [-1.0] * (game.action_size - 3))
            )
            ended = ended or bool(game.terminated.any())
            lowest = min(lowest, -game.snapshot()["planes"]["pos"][..., 2].max()) if not ended else lowest
        lost[limit] = ended
        if limit:
            assert lowest > 20.0
    assert lost == {0.0: True, 60.0: False}


@pytest.mark.parametrize("model", rules.MODELS)
def test_limiter_holds_against_random_pulls(model):
    draws = np.random.default_rng(2)
    game = batch(100, model=model, ground_limit=150.0, action_repeat=6, max_ticks=1800, low_start=0.5)
    actions, lost = torch.full((100, 2, 4), -1.0), 0
    for step in range(300):
        if step % 10 == 0:
            actions[..., :3] = torch.from_numpy(draws.choice([-1.0, 0.0, 0.5, 1.0], (100, 2, 3))).float()
        game.step(actions)
        lost += int(game.terminated.sum())
    assert lost <= 4


def test_limiter_does_not_affect_scripted_pilots():
    games = [batch(16, options=PLAIN, ground_limit=limit) for limit in (0.0, 500.0)]
    for game in games:
        game.assign(torch.tensor([[rules.bot_id("deck"), rules.bot_id("dragger")]]))
        for _ in range(200):
            game.step(game.actions)
    assert torch.equal(games[0].obs, games[1].obs)
