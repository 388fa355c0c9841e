"""SB3 policies and ONNX models in Gymnasium environments, against SB3's `predict` and torch."""

import json

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

pytest.importorskip("stable_baselines3")
pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import sparring
from sparring.agents.opponents import players
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.eval.export import main as export_main
from sparring.eval.run import main

ID, SEED, EPISODES = "test/Lights-v0", 3, 4
QUICK = ["--threads", "1", "--device", "cpu", "--quiet", "--episodes", str(EPISODES), "--seed", str(SEED)]
GYMNASIUM = ["--env", "gymnasium"]
SPACES = {
    "CartPole-v1": None,
    "Pendulum-v1": None,
    "choices": (Discrete(3), MultiDiscrete([2, 3])),
    "switches": (MultiDiscrete([3, 2]), MultiBinary(3)),
    "numbers": (Box(-1.0, 1.0, (2, 2), np.float32), Box(-0.5, 0.25, (2,), np.float32)),
}


class Lights(gymnasium.Env):
    """Observe random places; reward the action's components with different weights."""

    def __init__(self, spaces):
        self.observation_space, self.action_space = spaces

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.now = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.now += 1
        numbers = np.ravel(action).astype(np.float64)
        return (
            self.observation_space.sample(),
            float(numbers @ np.arange(1, len(numbers) + 1)),
            self.now == 6,
            False,
            {},
        )


@pytest.fixture(autouse=True)
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(players, "ROOT", tmp_path.parent)
    yield tmp_path
    gymnasium.registry.pop(ID, None)


def environment(case):
    """Return the id of a case's environment, and a function that creates it."""
    if SPACES[case] is None:
        return case, lambda: gymnasium.make(case)
    gymnasium.registry.pop(ID, None)
    gymnasium.register(ID, Lights, kwargs={"spaces": SPACES[case]})
    return ID, lambda: Lights(SPACES[case])


def model_of(env, *, scale=30.0, **options):
    """Return an SB3 policy whose actions depend on observations."""
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=1, **options)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(scale)
    return model


def returns_of(make, act):
    """Return the return of each episode from `SEED` onward."""
    found = []
    for seed in range(SEED, SEED + EPISODES):
        env, total, over = make(), 0.0, False
        obs, _ = env.reset(seed=seed)
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    return found


def evaluated(folder, *words):
    assert main([*words, *QUICK, "--out", str(folder)]) == 0
    (name,) = folder.glob("eval*.json")
    content = json.loads(name.read_text())
    name.unlink()
    return content


def check(found, expected):
    result = found["return"]
    assert result["mean"] == pytest.approx(np.mean(expected), abs=1e-3)
    assert (result["least"], result["most"]) == pytest.approx((min(expected), max(expected)), abs=1e-3)


@pytest.mark.parametrize("case", SPACES)
def test_zip_earns_sb3_return(case, checkpoints):
    env_id, make = environment(case)
    model = model_of(make())
    model.save(checkpoints / "model.zip")
    expected = returns_of(make, lambda obs: model.predict(obs, deterministic=True)[0])
    assert len(set(expected)) > 1
    found = evaluated(checkpoints / "out", *GYMNASIUM, "--ckpt", str(checkpoints / "model.zip"), "--id", env_id)
    check(found, expected)
    assert (found["env"], found["run"]) == (env_id, None)


@pytest.mark.parametrize("options", [{"use_sde": True}, {"use_sde": True, "policy_kwargs": {"squash_output": True}}])
def test_gsde_zip_earns_sb3_return(options, checkpoints):
    env_id, make = environment("Pendulum-v1")
    model = model_of(make(), scale=1.0, **options)
    model.save(checkpoints / "model.zip")
    expected = returns_of(make, lambda obs: model.predict(obs, deterministic=True)[0])
    found = evaluated(checkpoints / "out", *GYMNASIUM, "--ckpt", str(checkpoints / "model.zip"), "--id", env_id)
    check(found, expected)


def test_zip_observes_through_neighbouring_statistics(checkpoints):
    env_id, make = environment("CartPole-v1")
    env = VecNormalize(DummyVecEnv([make]), clip_obs=2.0)
    model = model_of(env).learn(64)
    model.save(checkpoints / "model.zip")
    words = [*GYMNASIUM, "--ckpt", str(checkpoints / "model.zip"), "--id", env_id]
    missing = evaluated(checkpoints / "out", *words)
    assert "observes without its statistics" in missing["notes"][0]
    env.save(str(checkpoints / "elsewhere.pkl"))
    expected = returns_of(make, lambda obs: model.predict(env.normalize_obs(obs), deterministic=True)[0])
    for more in (["--vecnormalize", str(checkpoints / "elsewhere.pkl")], []):
        found = evaluated(checkpoints / "out", *words, *more)
        check(found, expected)
        assert "observes through the statistics of" in found["notes"][0]
        (checkpoints / "elsewhere.pkl").rename(checkpoints / "model_vecnormalize.pkl") if more else None
    assert found["return"] != missing["return"]


@pytest.mark.parametrize("run", ["gymnasium", "gymnasium_continuous"])
def test_exported_model_earns_return_of_its_checkpoint(run, checkpoints):
    place = [f"checkpoint_dir={checkpoints}", "name=small", "logger.progress=false", "device=cpu", "threads=1"]
    size = ["env.num_envs=2", "ppo.rollout_steps=32", "ppo.minibatch_size=32", "network.hidden=8", "max_updates=2"]
    final = train(load([f"+run={run}", *place, *size, "env.normalize_obs=true"]))
    assert export_main(["--ckpt", str(final)]) == 0
    expected = evaluated(checkpoints / "out", "--ckpt", "small")
    found = evaluated(checkpoints / "out", "--ckpt", str(final.with_suffix(".onnx")))
    assert found["return"]["mean"] == pytest.approx(expected["return"]["mean"], rel=1e-3)
    assert found["env"] == expected["env"]
    loaded, policy = sparring.load(final.with_suffix(".onnx")), sparring.load(final)
    obs = np.random.default_rng(0).normal(size=policy.observation_space.shape).astype(np.float32)
    np.testing.assert_allclose(loaded.predict(obs)[0], policy.predict(obs)[0], atol=1e-5)


def constant_model(path, values, size=4):
    """Return an ONNX model that always returns `values`, without training metadata."""
    weights = [
        helper.make_tensor("zeros", TensorProto.FLOAT, [size, len(values)], np.zeros(size * len(values))),
        helper.make_tensor("values", TensorProto.FLOAT, [len(values)], np.array(values, np.float32)),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k]) for n, k in (("x", size), ("y", len(values)))]
    nodes = [helper.make_node("MatMul", ["x", "zeros"], ["h"]), helper.make_node("Add", ["h", "values"], ["y"])]
    graph = helper.make_graph(nodes, "constant", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return str(path)


def test_third_party_model_plays_in_named_environment(checkpoints):
    env_id, make = environment("CartPole-v1")
    model = constant_model(checkpoints / "right.onnx", [1.0])
    check(evaluated(checkpoints / "out", *GYMNASIUM, "--ckpt", model, "--id", env_id), returns_of(make, lambda obs: 1))


def test_incompatible_files_are_rejected_in_one_line(checkpoints, error_line):
    env_id, make = environment("CartPole-v1")
    model_of(make()).save(checkpoints / "model.zip")
    archive = str(checkpoints / "model.zip")
    plain, high, short = (
        constant_model(checkpoints / f"{name}.onnx", values, size)
        for name, values, size in (("plain", [0.0], 4), ("high", [2.0], 4), ("short", [0.0], 3))
    )
    broken = constant_model(checkpoints / "broken.onnx", [float("nan")])
    for words, message in (
        (["--ckpt", archive], "model.zip: does not name its environment; add --id, as in --id CartPole-v1"),
        (["--ckpt", plain], "plain.onnx: does not name its environment"),
        (["--ckpt", archive, "--id", "Pendulum-v1"], "has obs_dim=4, and Pendulum-v1 has 3"),
        (["--ckpt", archive, "--id", "MountainCarContinuous-v0"], "has obs_dim=4, and MountainCarContinuous-v0 has 2"),
        (["--ckpt", archive, "--id", "Nowhere-v9"], "Nowhere"),
        (["--ckpt", short, "--id", env_id], "wanted is a model of CartPole-v1: input float32 [1, 4] or [N, 4]"),
        (["--ckpt", high, "--id", env_id], "returned [2.0]; expected finite numbers and choices below [2]"),
        (["--ckpt", broken, "--id", env_id], "returns NaN or infinite actions"),
        (["--ckpt", plain, "--id", env_id, "--vecnormalize", "a.pkl"], "goes with a zip of Stable-Baselines3"),
    ):
        assert message in error_line(main, [*GYMNASIUM, *words, *QUICK])


def test_checkpoint_plays_its_own_environment(checkpoints, error_line):
    place = [f"checkpoint_dir={checkpoints}", "name=small", "logger.progress=false", "device=cpu", "threads=1"]
    size = ["env.num_envs=2", "ppo.rollout_steps=32", "ppo.minibatch_size=32", "network.hidden=8", "max_updates=1"]
    final = train(load(["+run=gymnasium", *place, *size]))
    assert "names its environment; leave it out" in error_line(main, ["--ckpt", "small", "--id", "CartPole-v1", *QUICK])
    assert export_main(["--ckpt", str(final)]) == 0
    model = onnx.load(str(final.with_suffix(".onnx")))
    words = [*GYMNASIUM, "--ckpt", str(checkpoints / "other.onnx")]
    for env_id, more, message in (
        ("Acrobot-v1", ["--id", "CartPole-v1"], "--id CartPole-v1: "),
        ("somewhere:CartPole-v1", [], "runs the code of the module somewhere"),
        ("sparring/Dogfight-v1", [], "plays the dogfight; evaluate it with eval/run.py --env dogfight"),
    ):
        contract = json.loads(model.metadata_props[0].value) | {"id": env_id}
        helper.set_model_props(model, {model.metadata_props[0].key: json.dumps(contract)})
        onnx.save(model, str(checkpoints / "other.onnx"))
        assert message in error_line(main, [*words, *more, *QUICK])
