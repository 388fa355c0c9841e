"""Stable-Baselines3 as a baseline: training on our matches, converting its policies, rejecting unsafe files."""

import signal
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import stable_baselines3
import torch

from sparring.agents.baselines import sb3
from sparring.agents.callbacks import Callback
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.sb3_files import SB3Error, read_zip, to_actor_critic
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.schema import EventConfig, NetworkConfig, PhaseConfig, StageConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.envs.dogfight.rules import BOTS
from sparring.envs.dogfight.training.opponents.load import load_policy
from tests.agents.ppo.small_run import config, metrics


def bots_only(folder, **options):
    phases = [PhaseConfig("curriculum", 2, stages=[StageConfig(0, ["do_nothing"]), StageConfig(1, ["ace"])])]
    return config(folder, trainer="sb3", phases=phases, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("sb3")
    return train(bots_only(root)).parent


def test_follows_schedule_and_saves_checkpoint(trained):
    rows = metrics(trained.parent)
    assert [row["env_steps"] for row in rows] == [128, 256]
    assert "curriculum/ace/share" in rows[1]
    assert "curriculum/ace/share" not in rows[0]
    checkpoint = load_checkpoint(trained / "final.pt")
    assert (checkpoint.contract["continuous"], checkpoint.contract["binary"]) == (3, 0)
    assert checkpoint.training["update"] == 2


def test_times_every_update_and_saves_due_policies(tmp_path):
    folder = train(bots_only(tmp_path, checkpoint_every=1)).parent
    assert all(row["time/steps_per_second"] > 0 for row in metrics(tmp_path))
    assert all(row["rollout/reward"] != 0 for row in metrics(tmp_path))
    first, last = (load_checkpoint(folder / f"step_{steps}.pt") for steps in (128, 256))
    assert [first.training["update"], last.training["update"]] == [1, 2]
    final = load_checkpoint(folder / "final.pt").network.state_dict()
    assert all(torch.equal(final[key], value) for key, value in last.network.state_dict().items())
    assert any(not torch.equal(final[key], value) for key, value in first.network.state_dict().items())


def test_callbacks_see_updates_and_can_stop_training(tmp_path):
    calls = []

    class StopFirst(Callback):
        def on_update(self, run, metrics):
            calls.append((run.update, run.updates, run.env_steps, set(metrics) >= {"rollout/reward"}))
            return True

        def on_checkpoint(self, run, path):
            calls.append(path.name)

    final = train(bots_only(tmp_path, checkpoint_every=1), callbacks=[StopFirst()])
    assert calls == [(1, 2, 128, True), "step_128.pt", "final.pt"]
    assert load_checkpoint(final).training["update"] == 1
    assert len(metrics(tmp_path)) == 1


def test_callback_exception_saves_policy_and_stops(tmp_path):
    class Fails(Callback):
        def on_update(self, run, metrics):
            raise RuntimeError("of the callback")

    with pytest.raises(RuntimeError, match="of the callback"):
        train(bots_only(tmp_path), callbacks=[Fails()])
    assert load_checkpoint(tmp_path / "small" / "final.pt").training["update"] == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 130)])
def test_signal_finishes_update_and_saves_policy(tmp_path, monkeypatch, capfd, number, code):
    """The exit code must not ask the scheduler for a restart, because this baseline cannot resume."""
    steps = []

    def signalled(env, step=sb3.LearnerVecEnv.step_wait):
        steps.append(1)
        if len(steps) == 5:
            signal.raise_signal(number)
        return step(env)

    monkeypatch.setattr(sb3.LearnerVecEnv, "step_wait", signalled)
    with pytest.raises(SystemExit) as stopped:
        train(bots_only(tmp_path))
    assert stopped.value.code == code
    assert len(metrics(tmp_path)) == 1
    training = load_checkpoint(tmp_path / "small" / "final.pt").training
    assert (training["update"], training["interrupted"]) == (1, True)
    said = "".join(capfd.readouterr())
    assert "interrupted after 1 update: " in said
    assert "trainer=sb3 cannot resume; start another run with another name=" in said
    assert "resume=" not in said
    with pytest.raises(ConfigError, match="name=small: was started, and trainer=sb3 cannot resume"):
        train(bots_only(tmp_path))


def test_full_disk_at_end_gives_one_line_without_resume_hint(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sb3.Curriculum, "save", full)
    with pytest.raises(InputError, match=r"final\.pt: cannot be written .*; trainer=sb3 cannot resume; start another"):
        train(bots_only(tmp_path))


def test_events_happen_before_their_update(tmp_path):
    plain = bots_only(tmp_path / "plain", checkpoint_every=1)
    events = [EventConfig(at=1, snapshot="before_ace", log_std=-1.5)]
    phases = [replace(phase, events=events) for phase in plain.phases]
    eventful = replace(plain, phases=phases, checkpoint_dir=str(tmp_path / "eventful"))
    before, after = (train(options).parent for options in (plain, eventful))
    first, snapshot = (load_checkpoint(path) for path in (before / "step_128.pt", after / "before_ace.pt"))
    assert snapshot.training["update"] == 1
    weights = first.network.state_dict()
    assert all(torch.equal(weights[key], value) for key, value in snapshot.network.state_dict().items())
    log_std = load_checkpoint(after / "final.pt").network.log_std
    assert (log_std + 1.5).abs().max() < 0.1
    assert (load_checkpoint(before / "final.pt").network.log_std + 1.5).abs().min() > 0.1


def test_truncated_run_reports_progress_and_keeps_folder_clean(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert load_checkpoint(train(bots_only(tmp_path, max_updates=1))).training["update"] == 1
    assert list(temporary.iterdir()) == []


def test_unsupported_options_are_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"phases\.1\.scripted_end=1\.0: trainer=sb3 has no self-play"):
        train(config(tmp_path, trainer="sb3"))
    with pytest.raises(ConfigError, match=r"network\.blocks=2: trainer=sb3 supports only plain layers"):
        train(replace(bots_only(tmp_path), network=NetworkConfig(hidden=16, blocks=2)))
    with pytest.raises(ConfigError, match=r"network\.memory=gru: trainer=sb3 does not support it; use trainer=ppo"):
        train(replace(bots_only(tmp_path), network=NetworkConfig(hidden=16, memory="gru")))


@pytest.fixture
def vec_env():
    batch = DogfightBatch(6, threads=1, max_ticks=20)
    network = ActorCritic(59, 2, 1, NetworkConfig(hidden=4))
    env = LearnerEnv(batch, bots=BOTS, slots=1, network_shape=network.shape, seed=0)
    yield sb3.LearnerVecEnv(env, action_space())
    batch.close()


def test_step_reports_match_end_in_sb3_format(vec_env):
    first = vec_env.reset()
    for step in range(2):
        obs, reward, done, infos = vec_env.step(np.zeros((6, 3), dtype=np.float32))
        assert (obs.shape, reward.shape, done.tolist()) == ((6, 59), (6,), [step == 1] * 6)
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert infos[0]["terminal_observation"][45] == 0.0  # no time left
    assert obs[0, 45] == 1.0
    vec_env.step(np.ones((6, 3), dtype=np.float32))
    assert obs[0, 45] == first[0, 45] == 1.0  # arrays are the caller's own


def model(activation=torch.nn.ReLU, layers=(16, 16)):
    class Still(stable_baselines3.common.vec_env.DummyVecEnv):
        def __init__(self):
            self.num_envs, self.render_mode = 1, None
            self.observation_space, self.action_space = observation_space("classic", True), action_space()

    options = {"net_arch": {"pi": list(layers), "vf": list(layers)}, "activation_fn": activation}
    return stable_baselines3.PPO("MlpPolicy", Still(), policy_kwargs=options, device="cpu", seed=0)


@pytest.mark.parametrize(("activation", "name"), [(torch.nn.ReLU, "relu"), (torch.nn.Tanh, "tanh")])
def test_converted_policy_computes_same_function(activation, name):
    policy = model(activation).policy
    obs = torch.randn(50, 59)
    network = to_actor_critic(policy.state_dict(), name)
    actions, values, log_prob = policy(obs, deterministic=True)
    torch.testing.assert_close(network.act(obs, deterministic=True)[0], actions)
    torch.testing.assert_close(network.value(obs), values[:, 0])
    torch.testing.assert_close(network.evaluate(obs, actions)[0], log_prob)


def test_zip_plays_in_evaluation(tmp_path):
    saved = model(torch.nn.Tanh)
    saved.save(tmp_path / "model.zip")
    entrant = load_policy(tmp_path / "model.zip", "cpu")
    obs = torch.randn(5, 59)
    assert entrant.contestant.contract["rules"] == "classic"
    torch.testing.assert_close(entrant.contestant.act(obs), saved.policy(obs, deterministic=True)[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": torch.nn.ELU}, r"activation\.ELU: its activation is not one of torch\.nn's ReLU and Tanh"),
        ({"layers": (16, 16, 16)}, "its policy needs two plain layers each"),
        ({"layers": (16, 8)}, "its layers are not all of one width"),
    ],
)
def test_unplayable_zip_is_rejected_with_reason(tmp_path, options, words):
    model(**options).save(tmp_path / "model.zip")
    with pytest.raises(SB3Error, match=words):
        read_zip(tmp_path / "model.zip")


def test_existing_run_is_left_unchanged(trained):
    """A baseline run has no resumable states; starting it again used to overwrite its metrics."""
    before = {path.name: path.read_bytes() for path in trained.iterdir() if path.is_file()}
    with pytest.raises(
        ConfigError, match="name=small: was started, and trainer=sb3 cannot resume; choose another name"
    ):
        train(bots_only(trained.parent))
    assert {path.name: path.read_bytes() for path in trained.iterdir() if path.is_file()} == before
