"""Two and four aircraft per side: starts, losses, results, observations, and the PettingZoo interface."""

import numpy as np
import pytest
import torch
from pettingzoo.test import parallel_api_test

from sparring.agents.play.learner_env import LearnerEnv
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch, CombatReward
from sparring.envs.air_combat.parallel_env import parallel_env
from sparring.envs.air_combat.teams import AirTeams

TWO = rules.CombatOptions(team_size=2, missiles=2, flares=20)
COLUMN = {name: index for index, name in enumerate(TWO.observation)}


def batch(n=1, *, options=TWO, seed=5, **further):
    return AirCombatBatch(n, threads=1, seed=seed, options=options, **further)


def test_side_starts_in_line_abreast_and_other_is_rotated():
    planes = batch(6, options=rules.CombatOptions(team_size=4)).snapshot()["planes"]
    assert planes["pos"][:, :4] * (-1, -1, 1) == pytest.approx(planes["pos"][:, 4:], abs=1e-2)
    assert planes["vel"][:, :4] == pytest.approx(-planes["vel"][:, 4:], abs=1e-3)
    line = planes["pos"][:, 1:4] - planes["pos"][:, :3]
    assert np.linalg.norm(line, axis=-1) == pytest.approx(np.full((6, 3), rules.TEAM_SPACING), rel=1e-4)
    across = (line * planes["pos"][:, 1:4]).sum(-1)[:, 0] + (line * planes["pos"][:, :3]).sum(-1)[:, 2]
    assert across == pytest.approx(np.zeros(6), abs=1.0)


def play(game, steps=1):
    game.actions[:] = -1.0
    game.actions[..., :3] = torch.tensor([0.0, 0.0, 0.54])
    for _ in range(steps):
        game.step(game.actions)
    return game.snapshot()


def lose(game, *seats):
    planes = game.snapshot()["planes"]
    planes["hp"][0, list(seats)] = 0.0
    game.load({"planes": planes})


def test_lost_aircraft_stays_and_observes_zeros():
    game = batch()
    lose(game, 1)
    before, after = game.snapshot()["planes"][0], play(game, 5)["planes"][0]
    moved = np.linalg.norm(after["pos"] - before["pos"], axis=1)
    assert moved[1] == 0.0
    assert (moved[[0, 2, 3]] > 50.0).all()
    assert not game.obs[0, 1].any()
    assert game.outcome.tolist() == [-1]
    assert game.obs[0, 0, COLUMN["mate_1_flies"]] == 0.0
    assert game.obs[0, 3, COLUMN["mate_1_flies"]] == 1.0


@pytest.mark.parametrize(("lost", "outcome"), [((0, 1), 0b1100), ((2, 3), 0b0011), ((0, 1, 2, 3), 0)])
def test_losing_all_aircraft_ends_match(lost, outcome):
    """Both hit the ground in this step, each at hp 1."""
    game = batch(reward=CombatReward(shaping=0.0))
    planes = game.snapshot()["planes"]
    planes["pos"][0, list(lost), 2], planes["vel"][0, list(lost), 2] = -30.0, 100.0
    game.load({"planes": planes})
    play(game)
    while game.outcome[0] < 0:
        play(game)
    assert (game.outcome.tolist(), game.terminated.tolist(), game.truncated.tolist()) == ([outcome], [True], [False])
    won = [0.0] * 4 if outcome == 0 else [1.0 if outcome >> seat & 1 else -1.0 for seat in range(4)]
    drawn = [1.0 - 0.5 - 1.5] * 4
    assert game.reward[0].tolist() == pytest.approx(drawn if not outcome else [2.5 if w > 0 else -2.0 for w in won])
    assert game.final_hp[0].tolist() == [float(seat not in lost) for seat in range(4)]


def test_time_limit_compares_total_hp_of_sides():
    game = batch(max_ticks=8)
    planes = game.snapshot()["planes"]
    planes["hp"] = [[0.9, 0.1, 0.5, 0.6]]
    game.load({"planes": planes})
    play(game, 2)
    assert (game.outcome.tolist(), game.terminated.tolist(), game.truncated.tolist()) == ([0b1100], [False], [True])


def test_nearest_opponent_is_first_and_others_follow_by_seat():
    game = batch(options=rules.CombatOptions(team_size=4))
    names = {name: index for index, name in enumerate(game.options.observation)}
    planes = game.snapshot()["planes"]
    planes["pos"][0] = [(0, 900.0 * seat, -5000) for seat in range(8)]
    planes["hp"][0] = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    game.load({"planes": planes})
    seat_2 = game.obs[0, 2]
    assert seat_2[names["its_hp"]] == pytest.approx(0.6)
    hps = [seat_2[names[f"{who}_{k}_hp"]].item() for who in ("mate", "foe") for k in (1, 2, 3)]
    assert hps == pytest.approx([1.0, 0.9, 0.7, 0.5, 0.4, 0.3])
    assert seat_2[names["foe_1_range_far"]] == pytest.approx(2700 / 5000)
    lose(game, 4)
    assert game.obs[0, 2, names["its_hp"]] == pytest.approx(0.5)


def test_missile_homes_on_opponents_only():
    game = batch()
    planes = game.snapshot()["planes"]
    for seat, north in enumerate((0.0, 1000.0, 2500.0, 9000.0)):  # the mate is nearer and ahead
        planes[0, seat] = planes[0, 0]
        planes["pos"][0, seat], planes["vel"][0, seat] = (north, 0.0, -5000.0), (220.0, 0.0, 0.0)
        planes["nose"][0, seat] = (1.0, 0.0, 0.0)
    game.load({"planes": planes})
    game.actions[:] = torch.tensor([0.0, 0.0, 0.54, -1.0, -1.0, -1.0])
    game.actions[0, 0, 4] = 1.0
    game.step(game.actions)
    assert game.snapshot()["missiles"]["target"][0, 1] == 2
    while game.snapshot()["planes"]["hp"][0, 2] == 1.0:
        play(game)
        assert game.snapshot()["clock"]["tick"][0] < 600
    assert game.snapshot()["planes"]["hp"][0].tolist()[:2] == [1.0, 1.0]


@pytest.mark.parametrize("size", [2, 4])
def test_pilot_match_depends_on_id_only(size):
    options = rules.CombatOptions(team_size=size, missiles=2, flares=20)
    many, one = batch(5, options=options, gun="rounds"), batch(options=options, gun="rounds")
    one.match_id[:] = 3
    one.reset(5)
    for game in (many, one):
        game.assign(torch.tensor([[rules.bot_id("ace")] * size + [rules.bot_id("chaser")] * size]))
        hurt = False
        for _ in range(240):
            game.step(game.actions)
            hurt = hurt or bool((game.obs[..., COLUMN["hp"]] < 1.0).any())
        assert hurt or game is one
    assert torch.equal(many.obs[3], one.obs[0])


@pytest.mark.parametrize("size", [1, 4])
def test_pettingzoo_interface(size):
    env = parallel_env(team_size=size, missiles=2, flares=10, max_ticks=40)
    parallel_api_test(env, num_cycles=25)
    assert env.possible_agents == [f"player_{seat}" for seat in range(2 * size)]
    env.close()


def test_lost_agent_terminates_alone():
    env = parallel_env(team_size=2, opponent="straight", render_mode="acmi")
    env.reset(seed=1)
    assert env.agents == ["player_0", "player_1"]
    lose(env._batch, 0)
    hold = np.array([0.0, 0.0, 0.5, -1.0], dtype=np.float32)
    _, _, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, hold))
    assert terminated == {"player_0": True, "player_1": False}
    assert truncated == {"player_0": False, "player_1": False}
    assert env.agents == ["player_1"]
    assert list(env.step({"player_1": hold})[0]) == ["player_1"]
    colors = [line.rsplit("=", 1)[1] for line in env.render().splitlines() if "Color=" in line]
    assert colors == ["Blue", "Blue", "Red", "Red"]


def test_lanes_give_learner_all_aircraft_of_side():
    """Lane i has seat i % 2; in each set of 2 T lanes the learner flies side 0 of one match and side 1 of the next."""
    game = AirTeams(batch(4))
    env = LearnerEnv(game, bots=tuple(rules.BOTS), seed=0)
    env.assign(np.full(8, rules.bot_id("turning")))
    turning = rules.bot_id("turning")
    own, other = [rules.ACTIONS] * 2, [turning] * 2
    assert game.matches.bots.tolist() == [own + other, other + own] * 2
    actions = torch.zeros(8, game.action_size)
    actions[:, 0] = torch.arange(8) / 10
    obs, reward, *_ = env.step(actions)
    # Seats of lanes 0 to 3: aircraft 0 of match 0, 0 of side 1 in match 1, then aircraft 1 of each.
    seats = [(0, 0), (1, 2), (0, 1), (1, 3), (2, 0), (3, 2), (2, 1), (3, 3)]
    for lane, (match, seat) in enumerate(seats):
        assert game.matches.actions[match, seat, 0] == pytest.approx(lane / 10)
        assert obs[lane].tolist() == game.matches.obs[match, seat].tolist()
        assert reward[lane] == game.matches.reward[match, seat]


@pytest.mark.parametrize("lost", [(0, 1), (2, 3), (0, 1, 2, 3)])
def test_lanes_have_result_of_their_side(lost):
    """Wins of the learner's lanes of two matches: the first is lost or won, the second goes on."""
    game = AirTeams(batch(2))
    env = LearnerEnv(game, bots=tuple(rules.BOTS), seed=0)
    planes = game.matches.snapshot()["planes"]
    planes["pos"][0, list(lost), 2], planes["vel"][0, list(lost), 2] = -30.0, 100.0
    game.matches.load({"planes": planes})
    for _ in range(10):
        env.step(torch.zeros(4, game.action_size))
    tally = env.harvest()
    won = 2 if lost == (2, 3) else 0
    drawn = 2 if len(lost) == 4 else 0
    assert [int(one.sum()) for one in (tally.wins, tally.draws, tally.losses)] == [won, drawn, 2 - won - drawn]


def test_lanes_resume_from_state():
    first, second = AirTeams(batch(2)), AirTeams(batch(2, seed=9))
    first.step(torch.full((4, 2, first.action_size), 0.3))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.obs, second.obs)
    for game in (first, second):
        game.step(torch.full((4, 2, first.action_size), -0.2))
    assert torch.equal(first.obs, second.obs)
    assert torch.equal(first.reward, second.reward)
