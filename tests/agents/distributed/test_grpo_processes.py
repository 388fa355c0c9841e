"""GRPO in two processes: same numbers as in one, sharded models, resuming in one, losing a process."""

import os
import pickle
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.tensor import DTensor

from sparring.agents.distributed.processes import ALONE, Processes, ProcessLostError, joined, watching_exchanges
from sparring.agents.language.grpo.learner import GRPOLearner
from sparring.agents.language.grpo.rollouts.workers import SharedRollouts
from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.language.models.adapters import BASE, Adapters, LoraShape, base_identity
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.language import OverfitConfig
from sparring.curriculum.league.file import read_league
from tests.agents.distributed.launch_processes import end, start
from tests.agents.distributed.test_processes import compare, content, succeed
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.small_runs import in_process, rows
from tests.agents.language.grpo.test_learner_wiring import samples
from tests.agents.language.toys import llama, word_tokenizer

LEARN = {
    "plain": ("grpo.minibatch_samples=5", "grpo.epochs=2", "grpo.use_ema_reference=true", "model.batch_size=2"),
    "corrected": ("grpo.use_importance_correction=true", "grpo.minibatch_samples=3", "model.batch_size=1"),
}
"""Minibatches that do not divide by the processes or by the batch, and one of a single sample."""
RATE = ("grpo.learning_rate=1e-3", "grpo.target_kl=0", "grpo.kl_beta=0.1")


def learned(options, given, processes=ALONE, *, divided=False):
    """Return metrics and state after two learner steps on `given` samples, with identical processes."""
    config = small_config(*RATE, *options)
    adapters = Adapters(llama(word_tokenizer()), LoraShape.of(config.model), seed=3)
    base = base_identity(adapters.model)
    if divided:
        adapters.divide(torch.device("cpu"))
    learner = GRPOLearner(
        adapters.model,
        adapters.parameters(),
        config,
        base=base,
        without_adapters=lambda: adapters.playing(BASE),
        seed=5,
        processes=processes,
        divided=divided,
    )
    decisions, weights = [one.decision for one in given], adapters.weights()
    metrics = [learner.agreement(decisions, weights)] + [learner.learn(given) for _ in range(2)]
    assert base_identity(adapters.model) == base  # of the whole weights, also once they are divided
    whole = [p for name, p in adapters.model.named_parameters() if ".layers." in name and ".lora_" not in name]
    assert {isinstance(parameter, DTensor) for parameter in whole} == {divided}
    return {"metrics": metrics, "state": learner.state_dict()}


def _learn_in_two(environment, given, folder):
    os.environ.update(environment)
    torch.set_num_threads(1)
    with joined(0, "cpu", 60.0) as processes:
        results = {
            (name, divided): learned(options, given, processes, divided=divided)
            for name, options in LEARN.items()
            for divided in (False, True)
        }
    (folder / f"{processes.rank}.pickle").write_bytes(pickle.dumps(results))


@pytest.fixture(scope="module")
def in_two(tmp_path_factory):
    """Return what each of two processes has learned, by rank."""
    folder = tmp_path_factory.mktemp("two")
    members = start(None, 2, folder, body=_learn_in_two, arguments=(samples(), folder))
    ended = end(members)
    assert [code for code, _ in ended] == [0, 0], ended
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(2)]


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("name", LEARN)
def test_two_processes_match_one_process(in_two, name, divided):
    one, two, other = learned(LEARN[name], samples()), in_two[0][name, divided], in_two[1][name, divided]
    compare(two["state"], one["state"])
    for found, expected in zip(two["metrics"], one["metrics"], strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert two["metrics"] == other["metrics"]  # all decide alike
    weights, others = (results["state"]["parameters"] for results in (two, other))
    assert all(torch.equal(value, others[key]) for key, value in weights.items())
    assert one["metrics"][-1]["kl/mean"] > 1e-7  # something was learned


def tiny_run(toy, folder, *options):
    places = [f"model.name={toy}", f"checkpoint_dir={folder}", "name=small", "checkpoint_every=1"]
    league = ["league.checkpoint_every=2", "league.cold_start_steps=1"]
    return small_config(*places, *league, "grpo.groups=1", *options)


def shared_in_process(trainer):
    """As `in_process`, of several processes: plans ahead as workers do, without processes that import everything."""
    return SharedRollouts(trainer.processes, lambda alert: in_process(trainer))


def _train_in_process(environment, config):
    os.environ.update(environment)
    GRPOTrainer._new_players = shared_in_process
    train(config)


def test_run_matches_in_two_processes_and_resumes_in_one(toy, tmp_path, monkeypatch, capsys):
    """Covers batches of older weights, a checkpoint joining the league, and unfinished plans in the state."""
    options, (one, two) = ("grpo.buffer_depth=1", "grpo.steps=3"), (tmp_path / name for name in ("one", "two"))
    config = tiny_run(toy, two, *options, "max_updates=2")
    ended = succeed(start(config, 2, tmp_path, body=_train_in_process))
    assert ended[1][1] == ""  # only the first one speaks
    monkeypatch.setattr(GRPOTrainer, "_new_players", in_process)
    train(tiny_run(toy, two, *options))
    assert "inexact resume: processes was 2 and is 1" in capsys.readouterr().out
    final = train(tiny_run(toy, one, *options))
    compare(content(two, 3)["learner"], content(one, 3)["learner"])
    compare(rows(two / "small" / "final.pt"), rows(final))
    assert read_league(content(two, 3)["league"]) == read_league(content(one, 3)["league"])


@pytest.mark.slow
def test_killed_sharded_process_leaves_resumable_state(toy, tmp_path, monkeypatch, capsys):
    options = ("grpo.buffer_depth=1", "grpo.steps=1000", "league.checkpoint_every=1000")
    members = start(tiny_run(toy, tmp_path, *options, "grpo.shard_model=true"), 2, tmp_path, body=_train_in_process)
    log = tmp_path / "small" / "metrics.jsonl"
    while not log.exists() or not log.read_text():
        assert [process.exitcode for process, _ in members] == [None, None], end(members)
        time.sleep(0.05)
    members[1].process.kill()
    (code, out), (killed, _) = end(members)
    assert (code, killed) == (75, -signal.SIGKILL), out
    assert "process 0 of 2: another process of the run is gone" in out
    assert "alert: another process was lost; continue with: python train.py resume=small" in out
    done = len(log.read_text().splitlines())
    monkeypatch.setattr(GRPOTrainer, "_new_players", in_process)
    train(tiny_run(toy, tmp_path, *options, f"max_updates={done + 1}"))
    said = capsys.readouterr().out
    assert f"resumed after update {done} from update_{done:06d}" in said
    assert "option changed: grpo.shard_model was True and is False" in said


def test_wrong_number_of_processes_is_rejected():
    overfit = replace(small_config(), overfit=OverfitConfig(enabled=True))
    with pytest.raises(ConfigError, match=r"overfit\.enabled=true: requires a single process; start it without"):
        GRPOTrainer(overfit, Processes(0, 2))
    with pytest.raises(ConfigError, match=r"grpo\.shard_model=true: divides the model among processes; start it with"):
        GRPOTrainer(small_config("grpo.shard_model=true"))


class Told(Processes):
    """A process that receives planted messages from the others."""

    def __init__(self, rank, planted):
        super().__init__(rank, 2)
        self.planted = planted

    def broadcast(self, value, source=0):
        return value if source == self.rank else self.planted

    def largest(self, number):
        return max(number, self.planted)


def test_folder_not_visible_to_all_machines_is_rejected(tmp_path):
    trainer = SimpleNamespace(config=small_config(f"checkpoint_dir={tmp_path}"), processes=Told(0, 1))
    trainer.session = SimpleNamespace(folder=SimpleNamespace(path=tmp_path))
    with pytest.raises(ConfigError, match=r"process 1 cannot access .*; use a folder shared by all machines"):
        GRPOTrainer._check_folder(trainer)


def test_player_error_stops_all_processes_and_keeps_alerts():
    played = SimpleNamespace(alerts=["a game failed"])
    players = SimpleNamespace(submit=lambda task: None, next=lambda: played, restarts=0)

    def open_players(alert):
        alert("a worker process died")
        return players

    tasks = [SimpleNamespace(plan=SimpleNamespace(step=step)) for step in range(2)]
    own = SharedRollouts(Told(0, (InputError("grpo.groups is too large"), 0)), open_players)
    for task in tasks:
        own.submit(task)
    assert own.next().alerts == ["a worker process died", "a game failed"]
    with pytest.raises(InputError, match=r"grpo\.groups is too large"):
        own.next()
    assert own.tasks == tasks[1:]  # so that a state has it


def test_only_failed_exchange_reports_lost_process():
    with pytest.raises(ProcessLostError, match="Connection closed by peer"), watching_exchanges():
        raise RuntimeError("[/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:9")
    with pytest.raises(RuntimeError, match="out of memory"), watching_exchanges():
        raise RuntimeError("CUDA out of memory")
