"""Options rejected by the batch and its interfaces, and wide seeds."""

import errno

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import RewardConfig
from sparring.envs.dogfight.interfaces.gymnasium_env import DogfightEnv
from sparring.envs.dogfight.interfaces.parallel_env import parallel_env
from sparring.envs.dogfight.interfaces.vector_env import DogfightVectorEnv


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu"}, r"device=gpu: must be auto, cpu, cuda or cuda:N such as cuda:1; did you mean 'cuda'\?$"),
        ({"device": "mps"}, r"device=mps: must be auto, cpu, cuda or cuda:N such as cuda:1$"),
        ({"device": "cuda:99"}, r"device=cuda:99: this machine has \d+ CUDA devices; use device=cpu or device=auto"),
        ({"threads": -1}, r"threads=-1: must be a whole number in \[0, 4096\]"),
        ({"action_repeat": 1.5}, r"action_repeat=1\.5: must be a whole number in \[1, 10800\]"),
        ({"action_repeat": 0}, r"action_repeat=0: must be a whole number"),
        ({"num_envs": 0}, r"num_envs=0: must be a whole number in \[1, 10000000\]"),
        ({"num_envs": True}, r"num_envs=True: must be a whole number"),
        ({"trace": -1}, r"trace=-1: must be a whole number"),
        ({"max_ticks": 0}, r"max_ticks=0: must be a whole number"),
        ({"seed": 2**40}, r"seed=1099511627776: must be a whole number in \[0, 2147483647\]"),
        ({"seed": -1}, r"seed=-1: must be a whole number"),
        ({"gamma": 7}, r"gamma=7: must be in \[0, 1\]"),
        ({"gamma": "high"}, r"gamma=high: must be a number in \[0, 1\]"),
        ({"reward": RewardConfig(win=float("inf"))}, r"reward\.win=inf: must be in \[-1000, 1000\]"),
        ({"rules": "challenge", "bot_rate": "foo"}, "unknown bot_rate 'foo': choose from tick, agent"),
    ],
    ids=str,
)
def test_invalid_batch_options(arguments, message):
    with pytest.raises(InputError, match=message) as refused:
        DogfightBatch(**({"num_envs": 1} | arguments))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 7}, r"gamma=7: must be in \[0, 1\]"),
        ({"reward": {"win": float("nan")}}, r"reward\.win=nan: must be in \[-1000, 1000\]"),
        ({"reward": {"win": "much"}}, r"reward\.win=much: must be a number in"),
        ({"device": "mps"}, "device=mps: must be auto, cpu"),
        ({"action_repeat": 1.5}, r"action_repeat=1\.5: must be a whole number"),
    ],
    ids=str,
)
@pytest.mark.parametrize("face", [DogfightEnv, parallel_env, DogfightVectorEnv])
def test_invalid_interface_options(face, arguments, message):
    with pytest.raises(InputError, match=message):
        face(**arguments)


def test_cuda_without_gpu_is_rejected_with_message(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="device=cuda: this machine has 0 CUDA devices; use device=cpu or device=auto"):
        DogfightBatch(1, device="cuda")


def test_challenge_rules_have_own_bot_rate():
    assert DogfightBatch(1, rules="challenge", bot_rate="tick").bot_rate == "agent"


@pytest.mark.parametrize("bot", [9, 5, -5, -2])
@pytest.mark.parametrize("make", [np.full, torch.full])
def test_ids_without_bot_are_rejected(make, bot):
    batch = DogfightBatch(3)
    with pytest.raises(InputError, match=rf"bots=\[{bot}\]: choose from -1 actions, 0 do_nothing, .* 4 brawler"):
        batch.assign(make((3, 2), bot))
    assert (batch.bots == rules.ACTIONS).all()
    with pytest.raises(InputError, match=r"bots=\[1\.5\]"):
        batch.assign(np.full((3, 2), 1.5))


@pytest.mark.parametrize("bot", [rules.ACTIONS, 0, len(rules.BOTS) - 1])
def test_all_registered_ids_are_accepted(bot):
    batch = DogfightBatch(3)
    batch.assign(np.array([[bot, rules.ACTIONS]]))
    assert (batch.bots[:, 0] == bot).all()


@pytest.mark.parametrize(
    ("parameter", "low", "high", "message"),
    [
        ("gravity", float("nan"), 80.0, "range of gravity is nan..80: both must be finite"),
        ("gravity", 80.0, float("inf"), "range of gravity is 80..inf: both must be finite"),
        ("gravity", 90.0, 80.0, "low <= high"),
        ("max_speed", 20.0, 250.0, "max_speed from 20: must be above min_speed, which goes up to 20"),
        ("min_speed", 10.0, 260.0, "max_speed from 250: must be above min_speed, which goes up to 260"),
        ("max_hp", 0.0, 5.0, r"range of max_hp is 0\.\.5: both must be whole numbers from 1 up"),
        ("max_hp", 4.5, 5.0, r"range of max_hp is 4\.5\.\.5: both must be whole numbers from 1 up"),
        ("gun_cooldown_ticks", 90.0, 90.5, "both must be whole numbers"),
        ("bullet_lifetime_ticks", 60.0, 200.0, "bullet_lifetime_ticks up to 200 needs gun_cooldown_ticks >= 100"),
    ],
)
def test_unplayable_physics_is_rejected(parameter, low, high, message):
    ranges = rules.ranges("none")
    ranges[rules.PARAMETER_INDEX[parameter]] = low, high
    with pytest.raises(InputError, match=message):
        DogfightBatch(1).set_ranges(ranges)


@pytest.mark.parametrize("name", [*rules.LEVELS, *rules.REGIMES])
def test_every_level_and_regime_is_playable(name):
    DogfightBatch(1).set_ranges(rules.ranges(name))


def starts(face, seed):
    obs = face.reset(seed=seed)[0]
    return np.stack([*obs.values()]) if isinstance(obs, dict) else obs


@pytest.mark.parametrize("make", [DogfightEnv, parallel_env, lambda: DogfightVectorEnv(2)])
def test_wide_seeds_stay_distinct(make):
    face = make()
    wide = [starts(face, seed) for seed in (0, 2**31, 2**31 + 1, 2**32, 2**40, 2**40)]
    same = [[np.array_equal(a, b) for b in wide] for a in wide]
    assert np.array_equal(same, np.eye(6, dtype=bool) | np.kron(np.diag([0, 0, 1]), np.ones((2, 2))).astype(bool))


@pytest.mark.parametrize("seed", [0, 5, 2**31 - 1])
def test_narrow_seeds_reach_simulator_unchanged(seed):
    env = DogfightEnv(opponent="do_nothing")
    batch = DogfightBatch(1, seed=seed)
    assert np.array_equal(env.reset(seed=seed)[0], batch.obs[0, 0].numpy())
    with pytest.raises(InputError, match=r"seed=2147483648: must be a whole number in \[0, 2147483647\]"):
        batch.reset(2**31)


def test_misspelled_regime_is_rejected_with_open_seats():
    env = parallel_env()
    with pytest.raises(UnknownNameError, match=r"unknown reset option 'regim': choose from regime; did you mean"):
        env.reset(options={"regim": "sniper"})
    env.reset(options={"options": 1, "regime": "sniper"})  # what PettingZoo's own tests pass is not ours


def test_unwritable_kernel_cache_gives_one_line_error(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sparring.envs.launcher.wp.load_module", full)
    with pytest.raises(InputError, match=r"^/.*: No space left on device; compiled kernels are kept there: free some"):
        DogfightBatch(1)
