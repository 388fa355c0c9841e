"""A small PPO run: setup, output files, and reproducibility."""

import itertools
import signal
import subprocess
import sys
import time

import pytest
import torch

from sparring.agents.distributed.processes import derive_seeds
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo import trainer
from sparring.agents.ppo import trainer as module
from sparring.agents.ppo.evaluation import BotEvaluation
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.trainer import SEED_USES, PPOTrainer, anneal
from sparring.agents.run.signals import Stopped
from sparring.agents.trainers import train
from sparring.configs.core import status
from sparring.configs.core.device import choose_device, set_threads, usable_cores
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.session import LoggerConfig
from sparring.configs.schema import EvaluationConfig, EventConfig, PhaseConfig, PPOConfig
from sparring.configs.serialization import to_plain
from sparring.curriculum.pool import Pool
from sparring.envs.dogfight.training import task as dogfight
from tests.agents.ppo.small_run import ENVS, PHASES, STEPS, config, metrics


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a run that finished all phases."""
    root = tmp_path_factory.mktemp("runs")
    return train(config(root)).parent


def test_folder_holds_expected_files(finished):
    names = {path.name for path in finished.iterdir()}
    events = {name for name in names if name.startswith("events.out.tfevents")}
    step = f"step_{2 * STEPS * ENVS}.pt"
    logs = {"config.yaml", "manifest.json", "metrics.jsonl", "events.jsonl", "lock", "league.json"}
    logs |= {"origin.json"}
    assert names - events == logs | {"pool", "state", "before.pt", step, "final.pt"}
    assert len(events) == 1


def test_final_checkpoint_describes_its_training(finished):
    checkpoint = load_checkpoint(finished / "final.pt")
    training = checkpoint.training
    assert (training["run"], training["phase"], training["randomization"]) == ("small", "selfplay", "full")
    assert (training["update"], training["env_steps"], training["interrupted"]) == (3, 3 * STEPS * ENVS, False)
    assert training["config"] == to_plain(config(finished.parent))
    assert (checkpoint.contract["obs_dim"], checkpoint.contract["action_repeat"]) == (59, 120)


def test_checkpoints_are_saved_in_order(finished):
    names = ("before", f"step_{2 * STEPS * ENVS}", "final")
    taken = [load_checkpoint(finished / f"{name}.pt") for name in names]
    assert [checkpoint.training["update"] for checkpoint in taken] == [1, 2, 3]
    weights = [checkpoint.network.actor[0].weight for checkpoint in taken]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_one_metrics_row_per_update(finished):
    rows = metrics(finished.parent)
    assert [row["env_steps"] for row in rows] == [STEPS * ENVS * done for done in (1, 2, 3)]
    assert [row["curriculum/phase"] for row in rows] == [0, 1, 2]
    assert [row["league/pool_size"] for row in rows] == [0, 1, 2]
    assert ["guard/check_win_rate" in row for row in rows] == [False, False, True]
    assert [row["train/learning_rate"] for row in rows] == pytest.approx([3e-4, 1.65e-4, 3e-5])


def test_snapshots_are_in_pool_of_run(finished):
    shape = load_checkpoint(finished / "final.pt").network.shape
    pool = Pool(finished / "pool", 3, shape=shape)
    assert [snapshot.update for snapshot in pool.snapshots] == [1, 2]
    before = load_checkpoint(finished / "before.pt").network.state_dict()["actor.0.weight"]
    assert torch.equal(pool.load("snapshot_000001")["actor.0.weight"], before)


def final_weights(root, **options):
    return torch.cat([p.flatten() for p in load_checkpoint(train(config(root, **options))).network.parameters()])


def test_same_seed_gives_same_weights(finished, tmp_path):
    network = load_checkpoint(finished / "final.pt").network
    first = torch.cat([p.flatten() for p in network.parameters()])
    assert torch.equal(final_weights(tmp_path / "again"), first)
    assert not torch.equal(final_weights(tmp_path / "other", seed=2, max_updates=1), first)


def test_checks_do_not_change_training(finished, tmp_path):
    unchecked = final_weights(tmp_path, evaluation=EvaluationConfig())
    network = load_checkpoint(finished / "final.pt").network
    assert torch.equal(unchecked, torch.cat([p.flatten() for p in network.parameters()]))


@pytest.mark.parametrize(("number", "code", "given"), [(signal.SIGINT, 130, "small"), (signal.SIGTERM, 75, "")])
def test_signal_finishes_update_and_keeps_policy(tmp_path, monkeypatch, capsys, number, code, given):
    after = BotEvaluation.after

    def interrupted(*arguments):
        signal.raise_signal(number)
        return after(*arguments)

    monkeypatch.setattr(BotEvaluation, "after", interrupted)
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped:
        train(config(tmp_path, name=given))
    assert stopped.value.code == code
    assert signal.getsignal(number) is before
    name = given or next(tmp_path.iterdir()).name
    training = load_checkpoint(tmp_path / name / "final.pt").training
    assert (training["update"], training["interrupted"]) == (1, True)
    assert len((tmp_path / name / "metrics.jsonl").read_text().splitlines()) == 1
    out = capsys.readouterr().out
    assert f"interrupted after 1 update: {tmp_path / name / 'final.pt'}" in out
    assert f"continue with: python train.py resume={name} " in out


def asked_while_estimating(monkeypatch, times=1):
    """Press Ctrl-C while the run estimates its length."""

    def estimate(*_, **__):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return 0.0

    monkeypatch.setattr(trainer, "estimate_seconds", estimate)


@pytest.mark.parametrize("done", [0, 2])
def test_signal_during_trial_keeps_policy(tmp_path, monkeypatch, done):
    if done:
        train(config(tmp_path, max_updates=done))
    asked_while_estimating(monkeypatch)
    with pytest.raises(Stopped) as stopped:
        train(config(tmp_path))
    assert stopped.value.code == 130
    training = load_checkpoint(tmp_path / "small" / "final.pt").training
    assert (training["update"], training["env_steps"]) == (done, done * STEPS * ENVS)
    assert training["interrupted"] == (not done)  # the policy of the run that ended before stays as it was
    assert training["phase"] == PHASES[max(done - 1, 0)].name


@pytest.mark.parametrize("update", [0, 2])
def test_immediate_stop_keeps_policy_of_last_state(tmp_path, monkeypatch, capfd, update):
    """A second signal arrives during the first update, and during the one after a saved state."""
    left, collect = itertools.count(), Rollout.collect

    def stopped_twice(*arguments, **options):
        if next(left) == update:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return collect(*arguments, **options)

    monkeypatch.setattr(Rollout, "collect", stopped_twice)
    with pytest.raises(Stopped):
        train(config(tmp_path))
    final = tmp_path / "small" / "final.pt"
    training = load_checkpoint(final).training
    assert (training["update"], training["interrupted"]) == (update, True)
    assert max(path.name for path in (tmp_path / "small" / "state").iterdir()) == f"update_{update:06d}"
    hint = f"stopped at once; {update} updates are kept in {final.parent}; continue with: python train.py resume=small"
    assert hint in capfd.readouterr().err


def test_second_signal_during_trial_keeps_policy(tmp_path, monkeypatch):
    asked_while_estimating(monkeypatch, times=2)
    with pytest.raises(Stopped):
        train(config(tmp_path))
    assert load_checkpoint(tmp_path / "small" / "final.pt").training["update"] == 0


def test_max_updates_truncates_schedule(tmp_path, capsys):
    final = train(config(tmp_path, max_updates=2))
    training = load_checkpoint(final).training
    assert (training["update"], training["interrupted"]) == (2, False)
    assert metrics(tmp_path)[1]["train/learning_rate"] == pytest.approx(1.65e-4)  # on its way as in the whole schedule
    introduction = capsys.readouterr().out.splitlines()
    assert introduction[0].endswith(
        f"small: 2 updates, {2 * STEPS * ENVS} env steps, network 16h/0b (2,534 weights), cpu, 1 thread"
    )
    assert "general-sum: " in introduction[1]
    assert introduction[2].endswith("Ctrl-C stops it and keeps the policy")


def test_event_sets_log_std_before_its_update(tmp_path):
    phase = PhaseConfig("curriculum", 1, stages=PHASES[0].stages, events=[EventConfig(log_std=-1.5)])
    train(
        config(
            tmp_path, phases=[phase], ppo=PPOConfig(rollout_steps=8, epochs=1, minibatch_size=64, learning_rate=1e-9)
        )
    )
    assert metrics(tmp_path)[0]["train/log_std_0"] == pytest.approx(-1.5, abs=1e-4)


def test_annealing_is_linear():
    assert [anneal(2.0, 0.1, done) for done in (0.0, 0.5, 1.0)] == pytest.approx([2.0, 1.1, 0.2])


@pytest.fixture(params=[0, 2], ids=["no GPU", "two GPUs"])
def gpus(request, monkeypatch):
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: request.param)
    return request.param


def test_auto_selects_first_gpu_if_available(gpus):
    assert choose_device("auto") == (torch.device("cuda", 0) if gpus else torch.device("cpu"))


def test_device_cpu_is_selected_by_name(gpus):
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:1", 1), ("cuda:2", 2)])
def test_gpu_is_selected_by_index(gpus, name, index):
    if index < gpus:
        assert choose_device(name) == torch.device("cuda", index)
        return
    with pytest.raises(ConfigError, match=rf"device={name}: this machine has {gpus} CUDA devices; use device=cpu"):
        choose_device(name)


def test_set_threads_halves_for_two_learners_and_zero_means_all():
    before = torch.get_num_threads()
    try:
        assert set_threads(3) == torch.get_num_threads() == 3
        assert set_threads(0) == usable_cores()
        assert (set_threads(6, halves=True), torch.get_num_threads()) == (6, 3)
        assert (set_threads(1, halves=True), torch.get_num_threads()) == (1, 1)
        assert torch.get_num_threads() == max(usable_cores() // 2, 1)
    finally:
        torch.set_num_threads(before)


def test_every_random_use_has_own_seed():
    first, again, other = (derive_seeds(seed, SEED_USES) for seed in (1, 1, 2))
    assert first == again
    assert tuple(first) == SEED_USES
    assert len(set(first.values()) | set(other.values())) == 2 * len(SEED_USES)
    assert all(0 <= seed < 2**31 for seed in first.values())


@pytest.mark.parametrize("progress", [True, False])
def test_slow_simulator_start_is_explained_with_progress(progress, tmp_path, monkeypatch, capsys):
    make_batch = dogfight.DogfightTask.make_batch

    def slowly(*arguments, **options):
        time.sleep(0.3)
        return make_batch(*arguments, **options)

    monkeypatch.setattr(status, "PATIENCE", 0.05)
    monkeypatch.setattr(dogfight.DogfightTask, "make_batch", slowly)
    PPOTrainer(config(tmp_path, logger=LoggerConfig(progress=progress))).close()
    assert (status.COMPILING in capsys.readouterr().err) is progress


@pytest.mark.slow
def test_training_does_not_import_torch_compiler():
    """Importing it takes 0.8 s at every start. Adam's steps are tested in `test_parity.py`."""
    code = """
import sys
import torch
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.optimizer import adam
from sparring.configs.schema import NetworkConfig
network = ActorCritic(3, 1, 1, NetworkConfig(hidden=8), seed=1)
optimizer = adam(network, 0.1)
before = network.log_std.item()
network.log_std.grad = torch.ones(1)
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
assert abs(before - network.log_std.item() - 0.1) < 1e-4
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
