"""Custom rewards: the function's view, unchanged training, and rejected functions."""

import copy
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import sparring
from sparring import InputError
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.trainers import train
from sparring.configs import opponents as registry
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.envs.dogfight.batch import DogfightBatch, Mirror
from sparring.envs.dogfight.config import DogfightEnvConfig, RewardConfig
from sparring.envs.dogfight.rules import BOTS
from sparring.envs.dogfight.training.own_reward import OwnReward
from tests.agents.ppo.small_run import LONG, config, metrics, state_of, untimed
from tests.agents.stop_after import StopAfter
from tests.envs.dogfight.training.own_rewards import events

EVENTS = "tests.envs.dogfight.training.own_rewards:events"
ZERO = dict.fromkeys(("approach", "alive", "proximity", "facing", "shaping"), 0.0)
WEIGHTS = RewardConfig(damage_dealt=3.0, damage_taken=1.0, win=5.0, lose=2.0, draw=-1.0, **ZERO)
N = 16


@pytest.fixture(autouse=True)
def registry_of_its_own(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def learner(function, *, rules="classic", mirror=False, reward=WEIGHTS):
    batch = DogfightBatch(N, rules=rules, action_repeat=40, max_ticks=2400, reward=reward, seed=3, threads=1)
    view = Mirror(rules, batch.obs_dim) if mirror else None
    env = LearnerEnv(batch, bots=BOTS, seed=0, view=view)
    registry.register_opponent("own")(function)
    env.own_reward = OwnReward("own", batch, env.seat_rows, 0.99)
    env.assign(np.arange(N) % len(BOTS))
    return env


def steps(env, count=160):
    draw = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield env.step(torch.rand(N, 3, generator=draw) * 2 - 1)


@pytest.mark.parametrize("rules", ["classic", "challenge"])
def test_events_match_simulator(rules):
    """The weighted sum of the view equals the simulator's reward bit for bit, over many match ends."""
    seen = []

    def function(view):
        assert torch.equal(events(view), view.builtin)
        decided = view.won | view.lost | view.drawn
        assert torch.equal(decided, view.terminated | view.truncated)
        seen.append(torch.stack([x.sum() for x in (view.dealt, view.taken, view.lost, view.drawn | view.won)]))
        return view.builtin

    for _, reward, _, _ in steps(learner(function, rules=rules), 240):
        assert reward.dtype == torch.float32
    assert (torch.stack(seen).sum(0) > 0).all()


@pytest.mark.parametrize("mirror", [False, True])
def test_before_and_after_match_played_states(mirror):
    """`approach` pays metres of distance (observation 12 in km); at the end it uses the ended match."""
    ended = []

    def function(view):
        expected = 1000.0 * (view.before[:, 12] - view.after[:, 12])
        torch.testing.assert_close(expected, view.builtin, atol=2e-3, rtol=0.0)
        ended.append(int((view.terminated | view.truncated).sum()))
        if len(ended) > 1 and not any(ended[-2:]):
            assert torch.equal(view.before, last[0])
        last[0] = view.after
        x = view.after[:, 6]
        sides.append(x[x != 0].sign())
        return view.builtin

    last, sides = [None], []
    only = RewardConfig(**ZERO | {"damage_dealt": 0.0, "damage_taken": 0.0, "win": 0.0, "lose": 0.0, "approach": 1.0})
    for _ in steps(learner(function, mirror=mirror, reward=only)):
        pass
    assert sum(ended) > 10
    assert set(torch.cat(sides).tolist()) == {-1.0, 1.0}  # never mirrored


def test_training_with_equal_custom_reward_matches_built_in(tmp_path):
    """The whole schedule with self-play and mirror ends in the same state bit for bit, also after resuming."""
    env = DogfightEnvConfig(num_envs=8, action_repeat=120, mirror=True, reward=WEIGHTS)
    small = config(tmp_path / "one", env=env, phases=LONG)
    train(small)
    other = RewardConfig(damage_dealt=0.5)  # has no say
    own = config(tmp_path / "two", env=replace(env, reward=other), phases=LONG)
    sparring.train(own, reward=events, callbacks=[StopAfter("rollout/reward")])
    sparring.train(own, reward=events)
    assert untimed(metrics(tmp_path / "one")) == untimed(metrics(tmp_path / "two"))
    one, two = state_of(tmp_path / "one"), state_of(tmp_path / "two")
    assert {key for key in one if one[key] != two.get(key)} - {"/progress"} == set()
    assert (own.reward, load(["resume=small", f"checkpoint_dir={tmp_path / 'two'}"]).reward) == ("", "events")
    registry._registered.clear()
    message = (
        r"its reward events is a function of a script; continue it there, with sparring\.train\(.*, reward=events\)$"
    )
    with pytest.raises(ConfigError, match=message):
        load(["resume=small", f"checkpoint_dir={tmp_path / 'two'}"])


def test_only_reward_named_on_command_line_is_imported(tmp_path):
    options = [f"checkpoint_dir={tmp_path}", "device=cpu", "threads=1", "logger.progress=false", "env.num_envs=8"]
    options += ["ppo.rollout_steps=4", "ppo.minibatch_size=32", "network.hidden=8", "evaluation.every=0"]
    train(load(["+run=quickstart", "name=one", "max_updates=1", f"reward={EVENTS}", *options]))
    sys.modules.pop("tests.envs.dogfight.training.own_rewards", None)
    with pytest.raises(ConfigError, match=rf"^resume=one: its reward {EVENTS} runs the code .* add reward={EVENTS}$"):
        load(["resume=one", "max_updates=2", *options])
    assert "tests.envs.dogfight.training.own_rewards" not in sys.modules
    train(load(["resume=one", "max_updates=2", f"reward={EVENTS}", *options]))
    assert "tests.envs.dogfight.training.own_rewards" in sys.modules


def test_copied_environment_has_own_reward(tmp_path):
    env = learner(events)
    for _ in steps(env, 5):
        pass
    twin = copy.deepcopy(env)
    for one, other in zip(steps(env, 40), steps(twin, 40), strict=True):
        assert torch.equal(one[1], other[1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda view: view.dealt[:3], r"returned shape \(3,\) on cpu; expected is a tensor of shape \(16,\)"),
        (lambda view: view.dealt.numpy(), "returned no tensor but a ndarray"),
        (lambda view: view.dealt.to("meta"), r"returned shape \(16,\) on meta"),
        (lambda view: view.dealt / 0.0, "returned nan for match 0; give finite numbers"),
        (lambda view: view.hp, r"raised AttributeError: .*no attribute 'hp' \(.*test_own_reward\.py:\d+\)"),
    ],
)
def test_wrong_return_value_gives_one_line_error(function, message):
    with pytest.raises(InputError, match=f"^reward own: {message}") as caught:
        next(steps(learner(function)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (3, "reward=3: is a int, which is not callable"),
        ("no_such_package:f", "reward no_such_package:f: cannot find the module no_such_package"),
        ("tests.envs.dogfight.training.own_rewards:event", "has no event; did you mean 'events'"),
        ("tests.envs.dogfight.training.own_rewards:nothing", "is a float, which cannot be called"),
        ("height", "reward=height: is not a function; use module:name"),
    ],
)
def test_non_callable_reward_is_rejected(tmp_path, reward, message):
    with pytest.raises(InputError, match=message):
        sparring.train(config(tmp_path), reward=reward)
    with pytest.raises(ConfigError, match="only the dogfight accepts a custom reward"):
        sparring.train(load(["+run=diplomacy_ppo"]), reward=events)
