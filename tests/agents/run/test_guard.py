"""The guard's reaction to broken updates, and failure detectors on synthetic and recorded metrics."""

import itertools
import json
import math
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.agents.run.guard import COOL_DOWN, ENOUGH, HOLD, Detectors, Guard, GuardVerdict, LearningFailed
from sparring.agents.run.progress import Progress
from sparring.agents.run.session import RunSession
from sparring.agents.run.signals import Stopped
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from sparring.configs.core.session import GuardConfig
from sparring.configs.schema import NetworkConfig, PPOConfig
from sparring.envs.dogfight.batch import DogfightBatch
from tests.agents.ppo.small_run import config, metrics

NAN = float("nan")


def learner():
    return PPOLearner(ActorCritic(2, 1, 1, NetworkConfig(hidden=4)), PPOConfig(), Autocast("fp32", "cpu"), seed=0)


def make_guard(said=None, **options):
    say = [].append if said is None else said.append
    return Guard(GuardConfig(**options), learner(), alert=say)


def train_metrics(kl=0.01, **changes):
    plain = {"approx_kl": kl, "kl_max": kl, "kl_stop": 0.0, "skipped_steps": 0.0, "epochs_completed": 4.0}
    return {f"train/{name}": value for name, value in (plain | {"weight_norm": 3.0} | changes).items()}


def shift(guard):
    """An update that moves every weight."""
    guard.before()
    with torch.no_grad():
        for parameter in guard.learner.network.parameters():
            parameter.add_(1.0)


def first_weight(guard):
    return guard.learner.network.actor[0].weight[0, 0].item()


BROKEN = {
    "its KL reached 0.6, over 0.5": {"kl": 0.6},
    "no step of it was finite": {"epochs_completed": 0.0, "skipped_steps": 8.0},
    "its weights are not finite": {"weight_norm": NAN},
}


@pytest.mark.parametrize("reason", BROKEN)
def test_broken_update_is_reverted_and_rate_is_cut(reason):
    said = []
    guard = make_guard(said)
    before = first_weight(guard)
    shift(guard)
    assert guard.after(7, train_metrics(**BROKEN[reason])) is GuardVerdict.GO_ON
    assert first_weight(guard) == before
    assert guard.rate_scale == 0.5
    assert said == [f"update 7 is undone ({reason}); the learning rate is multiplied by 0.5"]


@pytest.mark.parametrize("value", [NAN, math.inf])
def test_update_with_non_finite_moment_is_reverted(value):
    said = []
    guard = make_guard(said)
    before = first_weight(guard)
    shift(guard)
    weight = guard.learner.network.actor[0].weight
    guard.learner.optimizer.state[weight] = {"exp_avg_sq": torch.full_like(weight, value)}
    assert guard.after(7, train_metrics()) is GuardVerdict.GO_ON
    assert first_weight(guard) == before
    assert said == [
        "update 7 is undone (the optimizer's moments are not finite); the learning rate is multiplied by 0.5"
    ]


def test_valid_update_is_kept():
    guard = make_guard()
    before = first_weight(guard)
    shift(guard)
    assert guard.after(0, train_metrics(kl=0.49)) is GuardVerdict.GO_ON
    assert first_weight(guard) == before + 1.0
    assert guard.counts["restored_updates"] == 0


def verdicts(guard, updates):
    found = []
    for update in updates:
        shift(guard)
        found.append(guard.after(update, train_metrics(kl=1.0)))
    return found


def test_distant_faults_each_count_as_first():
    assert verdicts(make_guard(), [0, 50, 100, 150]) == [GuardVerdict.GO_ON] * 4


def test_disabled_guard_only_counts():
    guard = make_guard(enabled=False)
    assert verdicts(guard, [0, 1, 2]) == [GuardVerdict.GO_ON] * 3
    assert (guard.rate_scale, guard.counts["restored_updates"]) == (1.0, 0)
    guard.after(3, train_metrics(kl_stop=1.0, skipped_steps=2.0))
    assert (guard.counts["kl_stops"], guard.counts["skipped_steps"]) == (1, 2)


def test_adaptive_learning_rate_follows_kl():
    guard = Guard(GuardConfig(), learner(), adaptive_kl=0.01, alert=pytest.fail)
    for kl, scale in ((0.03, 1 / 1.5), (0.01, 1 / 1.5), (0.001, 1.0), (0.001, 1.5)):
        guard.after(0, train_metrics(kl=kl))
        assert guard.rate_scale == pytest.approx(scale)


def test_guard_state_is_restored():
    guard, twin = make_guard(), make_guard()
    verdicts(guard, [1])
    guard.watch({"train/entropy": 1.0}, quarantined=2)
    twin.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    assert twin.state_dict() == guard.state_dict()
    assert verdicts(twin, [2]) == [GuardVerdict.ROLL_BACK]


# ---- in a run, with the fault put where it would happen


def events(folder):
    rows = [json.loads(line) for line in (folder / "small" / "events.jsonl").read_text().splitlines()]
    return [row["event"] for row in rows if row["kind"] == "alert"]


def inject(monkeypatch, owner, name, fault, calls=(0,)):
    """Let `fault` corrupt the result of some calls of a method, counted from 0."""
    original, count = getattr(owner, name), itertools.count()

    def spoiled(self, *arguments, **options):
        result = original(self, *arguments, **options)
        if next(count) in calls:
            fault(self, result)
        return result

    monkeypatch.setattr(owner, name, spoiled)


@pytest.mark.parametrize("tensor", ["obs", "reward"])
def test_non_finite_match_restarts(tmp_path, monkeypatch, tensor):
    inject(monkeypatch, DogfightBatch, "step", lambda batch, _: getattr(batch, tensor)[3].fill_(NAN))
    train(config(tmp_path))
    rows = metrics(tmp_path)
    assert [row["guard/quarantined_matches"] for row in rows] == [1, 1, 1]
    assert [row["guard/skipped_steps"] for row in rows] == [0, 0, 0]
    assert events(tmp_path) == ["1 matches were not finite and were started again"]
    assert all(value is not None for row in rows for value in row.values())


def test_non_finite_state_restarts_match(tmp_path, monkeypatch):
    def spoil(batch, _):
        state = batch.snapshot()
        state["fighters"]["speed"][5, 0] = NAN
        batch.load({"fighters": state["fighters"]})

    inject(monkeypatch, DogfightBatch, "step", spoil)
    train(config(tmp_path))
    assert metrics(tmp_path)[-1]["guard/quarantined_matches"] == 1


@pytest.mark.parametrize("tensor", ["log_prob", "value", "advantage", "returns"])
def test_non_finite_samples_skip_only_their_minibatches(tmp_path, monkeypatch, tensor):
    inject(monkeypatch, Rollout, "finish", lambda rollout, _: getattr(rollout, tensor)[2, 3].fill_(NAN))
    train(config(tmp_path))
    rows = metrics(tmp_path)
    assert [row["guard/skipped_steps"] for row in rows] == [2, 2, 2]  # one of two minibatches, in two epochs
    assert [row["guard/restored_updates"] for row in rows] == [0, 0, 0]


def spoil_moment(learner, _):
    for state in learner.optimizer.state.values():
        state["exp_avg"].fill_(NAN)


def test_broken_moment_is_removed_by_rollback(tmp_path, monkeypatch):
    """Reverting updates does not help if the reverted state is already broken; an earlier state does."""
    inject(monkeypatch, StateFolder, "publish", lambda states, _: spoil_moment(runs[0].learner, None), calls=[1])
    runs = []
    inject(monkeypatch, PPOTrainer, "restore_or_init", lambda trainer, _: runs.append(trainer))
    train(config(tmp_path, checkpoint_every=1))
    last = metrics(tmp_path)[-1]
    assert (last["guard/restored_updates"], last["guard/rollbacks"]) == (2, 1)
    assert math.isfinite(last["train/weight_norm"])


def break_update(learner, result):
    result["train/kl_max"] = 9.9


def test_first_broken_update_is_reverted_and_run_continues(tmp_path, monkeypatch):
    inject(monkeypatch, PPOLearner, "update", break_update)
    train(config(tmp_path))
    rows = metrics(tmp_path)
    assert [row["guard/restored_updates"] for row in rows] == [1, 1, 1]
    assert [row["train/learning_rate"] for row in rows] == pytest.approx([3e-4, 1.65e-4 / 2, 3e-5 / 2])


def test_second_broken_update_rolls_back_to_last_state(tmp_path, monkeypatch):
    inject(monkeypatch, PPOLearner, "update", break_update, calls=[1, 2])
    moved = []
    inject(monkeypatch, Progress, "skip", lambda progress, _: moved.append(progress._bar.n))
    train(config(tmp_path, checkpoint_every=1))
    assert moved == [1]  # from after the third update, which broke again, back to the first
    assert [row["env_steps"] for row in metrics(tmp_path)] == [128, 256, 384]
    assert [row["guard/rollbacks"] for row in metrics(tmp_path)] == [0, 1, 1]
    shown = EventAccumulator(str(tmp_path / "small")).Reload().Scalars("guard/rollbacks")
    assert [(event.step, event.value) for event in shown] == [(128, 0), (256, 1), (384, 1)]
    said = events(tmp_path)
    assert "rolled back to update_000001" in said
    assert sum("is undone" in text for text in said) == 2


def test_third_broken_update_ends_run_with_report(tmp_path, monkeypatch):
    inject(monkeypatch, PPOLearner, "update", break_update, calls=[1, 2, 3])
    with pytest.raises(LearningFailed) as failed:
        train(config(tmp_path, checkpoint_every=1))
    assert failed.value.code == 1
    report = json.loads((tmp_path / "small" / "guard_report.json").read_text())
    assert (report["update"], report["broken_updates"]) == (1, [1, 2, 1])
    assert report["metrics"]["train/kl_max"] == 9.9
    assert report["reason"] == "the policy keeps breaking"
    assert "the policy keeps breaking" in events(tmp_path)[-1]


def test_stop_after_rollback_saves_restored_policy(tmp_path, monkeypatch):
    inject(monkeypatch, PPOLearner, "update", break_update, calls=[1, 2])
    inject(monkeypatch, RunSession, "rewind", lambda session, _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Stopped):
        train(config(tmp_path, checkpoint_every=1))
    training = load_checkpoint(tmp_path / "small" / "final.pt").training
    assert (training["update"], training["phase"]) == (1, "curriculum")


USUAL = {"train/entropy": 0.5, "rollout/action_size": 0.4, "train/value_loss": 0.02, "train/grad_norm": 0.3}
USUAL |= {"curriculum/ace/win_rate": 0.95, "curriculum/chaser/win_rate": 0.85}
FAULTS = {
    "train/entropy fell from 0.50 to -1.10 nats": {"train/entropy": -1.1},
    "continuous actions are 25 in size, far beyond their bounds": {"rollout/action_size": 25.0},
    "train/value_loss is 0.5, 25 times its recent maximum": {"train/value_loss": 0.5},
    "train/grad_norm is 60, 200 times its recent maximum": {"train/grad_norm": 60.0},
    "bots mastered before are no longer beaten: ace 55%": {"curriculum/ace/win_rate": 0.55},
}


def alerts(detectors, metrics, updates):
    return [detectors.alerts(metrics) for _ in range(updates)]


def healthy():
    detectors = Detectors()
    assert not any(alerts(detectors, USUAL, ENOUGH))
    return detectors


@pytest.mark.parametrize("text", FAULTS)
def test_persistent_fault_is_reported_once_per_cooldown(text):
    said = alerts(healthy(), USUAL | FAULTS[text], HOLD + COOL_DOWN)
    assert said[HOLD - 1] == said[-1] == [text]
    assert sum(map(len, said)) == 2


@pytest.mark.parametrize("text", FAULTS)
def test_transient_fault_is_not_reported(text):
    detectors = healthy()
    for _ in range(10):
        assert not any(alerts(detectors, USUAL | FAULTS[text], HOLD - 1))
        assert not any(alerts(detectors, USUAL, 1))


def test_unmastered_bot_cannot_be_forgotten():
    assert not any(alerts(healthy(), USUAL | {"curriculum/chaser/win_rate": 0.2}, 20))


def test_detectors_wait_for_baseline():
    detectors = Detectors()
    assert not any(alerts(detectors, USUAL, ENOUGH - 1))
    assert not any(alerts(detectors, USUAL | {"train/grad_norm": 60.0, "train/entropy": -3.0}, 1))


@pytest.mark.parametrize("text", [text for text in FAULTS if text.startswith("train/")])
def test_skipped_update_does_not_blind_detectors(text):
    """An update with all steps skipped has loss NaN; so do earlier versions' states after one."""
    detectors = healthy()
    skipped = dict.fromkeys(("train/entropy", "train/value_loss", "train/grad_norm"), math.nan)
    assert not any(alerts(detectors, USUAL | skipped, 1))
    assert alerts(detectors, USUAL | FAULTS[text], HOLD)[-1] == [text]
    state = healthy().state_dict()
    for name in skipped:
        state["recent"][name][0] = math.nan
    detectors.load_state_dict(state)
    assert not any(alerts(detectors, USUAL, 1))
    assert alerts(detectors, USUAL | FAULTS[text], HOLD)[-1] == [text]


def test_windows_and_counters_are_restored():
    detectors, twin = healthy(), Detectors()
    fault = USUAL | {"train/grad_norm": 60.0, "curriculum/ace/win_rate": 0.1}
    assert not any(alerts(detectors, fault, HOLD - 1))
    twin.load_state_dict(json.loads(json.dumps(detectors.state_dict())))
    assert twin.alerts(fault) == detectors.alerts(fault) != []


TRACES = json.loads((Path(__file__).parent / "healthy_traces.json").read_text())


@pytest.mark.parametrize("number", range(20))
def test_nothing_fires_on_healthy_runs(number):
    """Recorded by record_healthy_traces.py."""
    optimizer = SimpleNamespace(state={})
    learner = SimpleNamespace(config=PPOConfig(), state_dict=dict, optimizer=optimizer)
    guard = Guard(GuardConfig(), learner, alert=pytest.fail)
    for update, row in enumerate(TRACES[number]):
        guard.before()
        assert guard.after(update, row) is GuardVerdict.GO_ON
        guard.watch(row, quarantined=0)
    assert len(TRACES[number]) == 80
    assert (guard.counts["restored_updates"], guard.counts["alerts"]) == (0, 0)
