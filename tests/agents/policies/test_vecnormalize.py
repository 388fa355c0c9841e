"""SB3's VecNormalize: same numbers as SB3, finding the file, and no code execution."""

import copy
import os
import pickle
import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from sparring import InputError, evaluate, load, sb3_env
from sparring.agents.policies.sb3_files import find_statistics, read_statistics, read_zip
from sparring.envs.dogfight.training.opponents.load import open_player

OBS = np.random.default_rng(0).normal(0.0, 2.0, (50, 59)).astype(np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a policy after one rollout as SB3 saves it, with and without VecNormalize."""
    folder = tmp_path_factory.mktemp("sb3")
    made = {}
    for name in ("plain", "normal"):
        env = sb3_env("dogfight", num_envs=2, opponent="do_nothing")
        env = VecNormalize(env, clip_obs=3.0, epsilon=1e-4) if name == "normal" else env
        model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(32)
        model.save(folder / f"{name}.zip")
        made[name] = (folder / f"{name}.zip").read_bytes(), env
    return made


@pytest.fixture
def folder(tmp_path, trained):
    for name, (data, _) in trained.items():
        (tmp_path / f"{name}.zip").write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_normalization_matches_sb3(trained, tmp_path, protocol):
    env = trained["normal"][1]
    (tmp_path / "vn.pkl").write_bytes(pickle.dumps(env, protocol))
    if protocol == 2:  # SB3 writes 4, from Python 3.14 on 5; the bytes of 2 need a codec's function
        with pytest.raises(InputError, match=r"names _codecs\.encode"):
            read_statistics(tmp_path / "vn.pkl", 59)
        return
    seen = read_statistics(tmp_path / "vn.pkl", 59)(torch.from_numpy(OBS)).numpy()
    np.testing.assert_array_equal(seen, env.normalize_obs(OBS).astype(np.float32))
    assert np.abs(seen).max() == 3.0


@pytest.mark.parametrize(
    ("zip_name", "name"),
    [
        ("m.zip", "m_vecnormalize.pkl"),
        ("rl_model_8000_steps.zip", "rl_model_vecnormalize_8000_steps.pkl"),
        ("m.zip", "m.pkl"),
        ("m.zip", "m/vecnormalize.pkl"),
        ("best_model.zip", "vecnormalize.pkl"),
        ("m.zip", "other_vecnormalize.pkl"),
    ],
)
def test_statistics_are_found_under_usual_names(tmp_path, zip_name, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert find_statistics(tmp_path / zip_name) == (None if name.startswith("other") else tmp_path / name)


def test_zip_uses_statistics_from_argument_or_neighbouring_file(folder, trained):
    env = trained["normal"][1]
    raw = load(folder / "plain.zip")
    zip_file = folder / "normal.zip"
    with pytest.warns(UserWarning, match="was trained under VecNormalize and observes without its statistics"):
        without = load(zip_file)
    assert read_zip(folder / "plain.zip").normalized is False
    expected = without.predict(env.normalize_obs(OBS).astype(np.float32))[0]
    env.save(str(folder / "elsewhere"))
    given = load(zip_file, vecnormalize=folder / "elsewhere")
    np.testing.assert_array_equal(given.predict(OBS)[0], expected)
    report = evaluate(given, opponents="do_nothing", games=2).data
    assert "observes through the statistics of elsewhere" in report["notes"][0]
    with pytest.raises(InputError, match=r"copy .*elsewhere to normal_vecnormalize\.pkl"):
        evaluate(raw, opponents=[given], games=2)
    env.save(str(folder / "vecnormalize.pkl"))
    for policy in (load(zip_file), open_player(str(zip_file)).contestant):
        actions = policy.act(torch.from_numpy(OBS)).clamp(torch.tensor([-1.0, 0, -1]), torch.tensor(1.0))
        np.testing.assert_array_equal(actions.numpy(), expected)
    x = torch.from_numpy(OBS)
    plain = load(folder / "plain.zip")  # the zip shows that it had none: those in the folder are another's
    assert torch.equal(plain.act(x), raw.act(x))


def changed(env, **change):
    other = VecNormalize.__new__(VecNormalize)
    other.__dict__.update(env.__dict__ | change)
    return other


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_code_in_statistics_file_never_runs(trained, tmp_path):
    canary, env = tmp_path / "canary", trained["normal"][1]
    call = Call(open, str(canary), "w")
    by_numpy = Call(np.save, str(canary) + ".npy", 1)
    pickle.loads(pickle.dumps([call, by_numpy]))  # they would do it
    for made in (canary, tmp_path / "canary.npy"):
        made.unlink()
    wrapped = [changed(env, **change) for change in ({"obs_rms": call}, {"more": call}, {"obs_rms": by_numpy})]
    system = b"cos\nsystem\n(S'touch " + os.fsencode(canary) + b"'\ntR."
    huge = b"\x80\x04Nr\xff\xff\xff\x7f."  # would reserve 16 GiB
    for data in (pickle.dumps(call), system, huge, b"", b"\xff\xfe", *map(pickle.dumps, (by_numpy, {}, *wrapped))):
        (tmp_path / "vn.pkl").write_bytes(data)
        with pytest.raises(InputError, match=r"vn\.pkl: ") as caught:
            read_statistics(tmp_path / "vn.pkl", 59)
        assert "\n" not in str(caught.value)
        assert not canary.exists()
        assert not (tmp_path / "canary.npy").exists()
        assert data != huge or "numbers more objects than it can contain" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_obs": False}, None),
        ({"clip_obs": 0.0}, "above 0"),
        ({"obs_rms": {}}, "dictionary observations"),
        ({"mean": np.full(59, np.nan)}, "not finite"),
        ({"mean": np.zeros(46)}, r"shape \(46,\), but the policy observes 59"),
        ({"mean": np.zeros(59, dtype=object)}, "array of O8"),
    ],
)
def test_other_statistics_are_rejected(trained, tmp_path, change, message):
    env = trained["normal"][1]
    if "mean" in change:
        rms = copy.copy(env.obs_rms)
        rms.mean = change["mean"]
        change = {"obs_rms": rms}
    (tmp_path / "vn.pkl").write_bytes(pickle.dumps(changed(env, **change)))
    if message is None:
        assert read_statistics(tmp_path / "vn.pkl", 59) is None
        return
    with pytest.raises(InputError, match=message):
        read_statistics(tmp_path / "vn.pkl", 59)


def test_environment_warns_of_opponent_without_statistics(folder):
    with pytest.warns(UserWarning, match="VecNormalize"):
        gym.make("sparring/Dogfight-v1", opponent=str(folder / "normal.zip"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym.make("sparring/Dogfight-v1", opponent=str(folder / "plain.zip"))
