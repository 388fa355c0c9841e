"""The Gymnasium environment of air combat: bounds, opponents, rendering, and SB3 training."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import sparring  # noqa: F401 - registers the games
from sparring.configs.core.errors import ConfigError, InputError
from sparring.envs.air_combat import GAME, gymnasium_env, rules, spaces
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.gymnasium_env import AirCombatEnv
from sparring.envs.air_combat.training.opponents import spaces_of

ID = "sparring/AirCombat-v1"


@pytest.mark.parametrize(
    "options",
    [
        {"model": "point_mass"},
        {"model": "f16"},
        {"model": "f16", "missiles": 4, "flares": 8, "radar": True, "team_size": 2, "randomization": "full"},
    ],
    ids=["point mass", "F-16", "options"],
)
def test_ten_thousand_random_steps_stay_within_bounds(options):
    """Actions lasting a second reach every corner: dives, stalls, passes and the ground."""
    chosen = rules.CombatOptions(**{name: value for name, value in options.items() if name != "model"})
    game = AirCombatBatch(50, model=options["model"], threads=1, seed=5, options=chosen)
    space, random = spaces.observation_space(chosen), np.random.default_rng(5)
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    low, high = np.full(space.shape, np.inf), np.full(space.shape, -np.inf)
    for step in range(200 * 2):
        if step % 15 == 0:
            corners = random.choice([-1.0, 0.0, 1.0], tuple(game.actions.shape))
            game.actions.copy_(game.actions.new_tensor(corners))
        game.step(game.actions)
        for obs in (game.obs, game.final_obs):
            rows = obs.flatten(0, 1).numpy()
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    outside = np.flatnonzero((low < space.low) | (high > space.high))
    assert [chosen.observation[column] for column in outside] == []


def test_observations_outside_bounds_are_clipped():
    env = gym.make(ID).unwrapped
    env.reset(seed=1)
    env._match._batch.obs[0, 0, 0] = 100.0
    assert env._match._rows(env._match._batch.obs)["player_0"][0] == env.observation_space.high[0]


def test_interfaces_and_policies_have_same_spaces():
    env = AirCombatEnv(action_form="discrete", missiles=2)
    observed, acted = spaces_of({**env._match.contract})
    assert (observed, acted) == (env.observation_space, env.action_space)


def result_against(opponent, options=None, **arguments):
    env = gym.make(ID, opponent=opponent, action_repeat=15, **arguments)
    env.reset(seed=3, options=options)
    for _ in range(600):
        *_, terminated, truncated, info = env.step(np.array([0.0, 0.0, 0.54, -1.0], dtype=np.float32))
        if terminated or truncated:
            return info
    raise AssertionError("the match did not end")


def test_opponents_are_pilots_policies_and_python_objects():
    """An idle pilot loses against a fighter, and ties against another idle one."""

    class Hands:
        def act(self, obs):
            return np.tile(np.array([0.0, 0.0, 0.54, -1.0], dtype=np.float32), (len(obs), 1))

    assert result_against("ace")["outcome"] == -1
    assert result_against("do_nothing")["outcome"] == 0
    assert result_against(Hands().act)["outcome"] == 0
    assert result_against("do_nothing", options={"opponent": "ace"})["outcome"] == -1


def test_opponent_of_one_match_is_replaced_on_reset():
    env = AirCombatEnv(opponent="do_nothing")
    env.reset(seed=1, options={"opponent": "ace"})
    assert env._match._batch.bots.tolist() == [[rules.ACTIONS, rules.bot_id("ace")]]
    env.reset()
    assert env._match._batch.bots.tolist() == [[rules.ACTIONS, rules.bot_id("do_nothing")]]


def test_policy_is_opened_once_for_all_matches(monkeypatch):
    opened = []
    game = SimpleNamespace(
        opponent=lambda opponent, contract: opened.append(opponent) or GAME.opponent(opponent, contract)
    )
    monkeypatch.setattr(gymnasium_env, "GAME", game)
    env = AirCombatEnv(opponent="chaser")
    for options in (None, None, {"opponent": "ace"}, None, None):
        env.reset(options=options)
    assert opened == ["chaser", "ace", "chaser"]


def test_vector_env_cycles_opponents_and_reports_returns():
    env = gym.make_vec(ID, 3, opponent=["straight", "ace"], action_repeat=60)
    env.reset(seed=1)
    pilots = [each.unwrapped._match._batch.bots[0, 1].item() for each in env.envs]
    assert pilots == [rules.bot_id(name) for name in ("straight", "ace", "straight")]
    dive = np.tile(np.array([-1.0, 0.0, 1.0, -1.0], dtype=np.float32), (3, 1))
    returns, steps, ends = np.zeros(3), np.zeros(3), 0
    for _ in range(100):
        _, reward, terminated, truncated, infos = env.step(dive)
        returns, steps = returns + reward, steps + 1
        over = terminated | truncated
        if over.any():
            assert infos["_episode"].tolist() == over.tolist()
            assert infos["episode"]["r"][over] == pytest.approx(returns[over])
            assert infos["episode"]["l"][over].tolist() == steps[over].tolist()
        returns[over], steps[over] = 0.0, 0.0
        ends += over.sum()
    assert ends > 6
    env.close()


def test_unplayable_opponents_are_rejected():
    with pytest.raises(InputError, match="nobody"):
        gym.make(ID, opponent="nobody")
    with pytest.raises(ConfigError, match="team_size=2: must be 1 here"):
        gym.make(ID, team_size=2)
    env = AirCombatEnv()
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(4, dtype=np.float32))
    with pytest.raises(InputError, match=r"reset option.*opponnet"):
        env.reset(options={"opponnet": "ace"})
    env.reset(seed=1)
    with pytest.raises(ValueError, match="must be 4 finite numbers"):
        env.step(np.array([np.nan, 0.0, 0.0, 0.0], dtype=np.float32))


def test_render_returns_match_as_tacview_file():
    env = gym.make(ID, render_mode="acmi")
    env.reset(seed=1)
    env.step(env.action_space.sample())
    assert env.render().startswith("FileType=text/acmi/tacview")
    assert AirCombatEnv().render() is None
