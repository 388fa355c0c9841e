"""Starting a run from a policy: weights and statistics only, and rejected policies."""

import shutil
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from sparring.agents.distributed.processes import derive_seeds
from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint
from sparring.agents.ppo.trainer import SEED_USES
from sparring.agents.run.preflight import initial_policy
from sparring.agents.run.states import read_state
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import SHIPPED
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.config import DogfightEnvConfig
from tests.agents.ppo.small_run import ENVS, PHASES, config, flat, metrics, state_of, untimed

ENV = DogfightEnvConfig(num_envs=ENVS, action_repeat=120)
SMALL = "env.num_envs=2 ppo.rollout_steps=32 ppo.minibatch_size=32 network.hidden=8 device=cpu threads=1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a dogfight run of three updates."""
    root = tmp_path_factory.mktemp("first")
    return train(config(root))


def first_state(root, name):
    return read_state(root / name / "state" / "update_000000").content


def test_run_starts_with_weights_only(trained, tmp_path, capsys):
    final = train(config(tmp_path, init_from=str(trained), keep_states=9, checkpoint_every=1))
    assert "starts from the policy of small after update 3" in capsys.readouterr().out
    started = first_state(tmp_path, "small")
    assert flat(started["learner"]["network"]) == flat(load_checkpoint(trained).network.state_dict())
    assert started["learner"]["optimizer"]["state"] == {}
    assert started["updates"] == 0
    training = load_checkpoint(final).training
    assert (training["update"], training["config"]["init_from"]) == (3, str(trained))


def test_released_policy_is_found_by_name(tmp_path):
    found = initial_policy(config(tmp_path, init_from="released/dogfight_bots_only"))
    assert found.samefile(SHIPPED / "released" / "dogfight_bots_only.pt")


def test_initial_policy_is_read_at_start_only(trained, tmp_path):
    """The copy is deleted after the start, and the run resumes bit for bit."""
    copy = tmp_path / "copy.pt"
    copy.write_bytes(trained.read_bytes())
    train(config(tmp_path / "whole", init_from=str(copy)))
    train(config(tmp_path / "cut", init_from=str(copy), max_updates=2))
    copy.unlink()
    train(config(tmp_path / "cut", init_from=str(copy)))
    assert state_of(tmp_path / "cut") == state_of(tmp_path / "whole")
    assert untimed(metrics(tmp_path / "cut")) == untimed(metrics(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"network": NetworkConfig(hidden=32)}, r"was trained with network\.hidden=16, this run has 32"),
        (
            {"env": DogfightEnvConfig(num_envs=ENVS, action_repeat=60)},
            r"trained with action_repeat=120, this run has 60",
        ),
        ({"env": DogfightEnvConfig(num_envs=ENVS, rules="challenge", action_repeat=120)}, r"with rules=classic, this"),
        (
            {"env": DogfightEnvConfig(num_envs=ENVS, action_repeat=120, mirror=True)},
            r"with mirror=False, this run has Tr",
        ),
        ({"env": replace(ENV, observe_physics=False)}, r"trained with obs_dim=59, this run has 46"),
        ({"init_from": "no_such.pt"}, r"init_from=no_such\.pt: is neither a policy's file nor a run with a final\.pt"),
    ],
)
def test_mismatched_policy_is_rejected_in_one_line(trained, tmp_path, options, words):
    with pytest.raises(InputError, match=words) as error:
        train(config(tmp_path, **({"init_from": str(trained)} | options)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place", ["state/update_000003/state.pt", "state/update_000003"])
def test_training_state_is_rejected_with_policies_of_its_run(trained, tmp_path, place):
    run = tmp_path / "first"
    shutil.copytree(trained.parent, run)
    given = str(run / place)

    def refused(words):
        with pytest.raises(InputError) as error:
            train(config(tmp_path / "second", init_from=given))
        assert str(error.value) == f"init_from={given}: is a training state, not a policy; {words}"

    refused(f"give {run / 'final.pt'}")
    (run / "best.pt").write_bytes(b"")
    refused(f"give {run / 'final.pt'} or {run / 'best.pt'}")
    for policy in run.glob("*.pt"):
        policy.unlink()
    refused("its run has saved no policy yet")
    assert not (tmp_path / "second" / "small").exists()
    if place.endswith(".pt"):
        with pytest.raises(CheckpointError, match="is a training state, not a policy; its run has saved no policy yet"):
            load_checkpoint(run / place)


def test_rejected_initial_policy_leaves_folder_reusable(trained, tmp_path):
    """Each start after the first empties the pool, which writes its index."""
    wrong = NetworkConfig(hidden=32)
    for _ in range(2):
        with pytest.raises(InputError, match=r"network\.hidden=16, this run has 32"):
            train(config(tmp_path, init_from=str(trained), network=wrong))
    assert train(config(tmp_path, init_from=str(trained), phases=PHASES[:1])).exists()


def test_other_exploration_bounds_apply_immediately(trained, tmp_path):
    bounds = NetworkConfig(hidden=16, log_std_init=-0.5, log_std_min=-0.6, log_std_max=-0.4)
    assert load_checkpoint(trained).network.log_std.max() < -0.7
    train(config(tmp_path, init_from=str(trained), network=bounds, phases=PHASES[:1]))
    assert first_state(tmp_path, "small")["learner"]["network"]["log_std"].tolist() == pytest.approx([-0.6, -0.6])


def gym(tmp_path, name, *options):
    place = [f"checkpoint_dir={tmp_path}", f"name={name}", "logger.progress=false", "phases.0.updates=2"]
    return load(["+run=gymnasium_continuous", *place, *SMALL.split(), *options])


def test_observation_statistics_continue_and_reward_ones_reset(tmp_path):
    first = load_checkpoint(train(gym(tmp_path, "first")))
    train(gym(tmp_path, "second", "init_from=first", "seed=2"))  # by its run's name
    started = first_state(tmp_path, "second")["gymnasium"]
    assert first.contract["normalizer"]["count"] == 2 * (64 + 1)
    assert started["observations"]["count"] == 2 * (64 + 1) + 2  # and its own first observations
    assert started["returns"]["count"] == 0
    seed, env = derive_seeds(2, SEED_USES)["env"], gymnasium.make("Pendulum-v1")
    shown = sum(env.reset(seed=seed + copy)[0].astype(np.float64) for copy in range(2))
    expected = (130 * np.array(first.contract["normalizer"]["mean"]) + shown) / 132
    np.testing.assert_allclose(started["observations"]["mean"], expected)


def test_other_environment_or_missing_statistics_are_rejected(tmp_path):
    train(gym(tmp_path, "first"))
    with pytest.raises(InputError, match=r"was trained with id=Pendulum-v1, this run has MountainCar"):
        train(gym(tmp_path, "second", "init_from=first", "env.id=MountainCarContinuous-v0"))
    with pytest.raises(InputError, match=r"env\.normalize_obs=false: the initial policy was trained with true; set"):
        train(gym(tmp_path, "third", "init_from=first", "env.normalize_obs=false"))
    with pytest.raises(InputError, match=r"init_from=firts: is neither .*; did you mean 'first'"):
        train(gym(tmp_path, "fourth", "init_from=firts"))


def test_baseline_rejects_initial_policy(tmp_path):
    with pytest.raises(InputError, match=r"init_from=x: trainer=sb3 starts from random weights"):
        train(replace(config(tmp_path), init_from="x", trainer="sb3"))
