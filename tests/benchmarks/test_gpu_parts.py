"""The parts of `benchmarks/gpu.py` on a CPU pass without faults and find planted ones."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu_parts import (
    air_combat,
    captured_step,
    diplomacy_phases,
    dogfight_kernels,
    grpo_steps,
    ppo_resume,
    ppo_update,
    precision_probe,
)
from benchmarks.gpu_parts.agreement import Agreement
from benchmarks.gpu_parts.part import PartOptions
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

ROOT = Path(__file__).resolve().parents[2]
QUICK = PartOptions("cpu", seed=1, quick=True)


def state(x, hp=(10, 10)):
    kind = np.dtype([("x", "f4"), ("hp", "i2"), ("pad", "i2")])
    rows = np.zeros(len(hp), kind)
    rows["x"], rows["hp"] = x, hp
    return {"fighters": rows}


def compared(one, other):
    agreement = Agreement()
    wrong = agreement.add(one, other).tolist()
    return wrong, agreement


def test_equal_states_are_bit_equal_ignoring_padding():
    other = state([1.0, 2.0])
    other["fighters"]["pad"] = 7
    wrong, agreement = compared(state([1.0, 2.0]), other)
    assert wrong == [False, False]
    assert (agreement.equal_share, agreement.different_share, agreement.largest) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "other", [state([1.0, 2.001]), state([1.0, 2.0], hp=(10, 9)), state([1.0, math.nan]), state([1.0, math.inf])]
)
def test_differences_are_counted_by_row_and_field(other):
    wrong, agreement = compared(state([1.0, 2.0]), other)
    assert wrong == [False, True]
    assert agreement.different_share == 0.5
    assert agreement.worst_fields() in ("fighters.x 1", "fighters.hp 1")
    assert agreement.largest == 0.0


def test_kernels_agree_with_themselves_bit_for_bit():
    found = dogfight_kernels.measure(QUICK)
    assert all(found.checks.values())
    assert all(found.numbers[name]["equal_share"] == 1.0 for name in rules.RULES)


def test_wrong_kernel_is_detected(monkeypatch):
    step, original = dogfight_kernels._step, DogfightBatch.step

    def faulty(batches, draws):
        step(batches, draws)
        batches[1].reward += 0.01

    monkeypatch.setattr(dogfight_kernels, "_step", faulty)
    agreement = dogfight_kernels.compared("classic", QUICK, 1).in_step(3)
    assert agreement.different_share == 1.0
    assert agreement.worst_fields().startswith("reward")
    assert DogfightBatch.step is original


def test_captured_step_equals_uncaptured():
    assert captured_step.equal(QUICK, 8, 12)


def test_step_ignoring_actions_is_detected(monkeypatch):
    step = captured_step.UncapturedBatch.step
    monkeypatch.setattr(captured_step.UncapturedBatch, "step", lambda self, actions: step(self, 0.0 * actions))
    assert not captured_step.equal(QUICK, 8, 12)


def test_air_combat_agrees_with_itself_and_fault_is_detected(monkeypatch):
    assert air_combat.compared("f16", QUICK).in_step(2).equal_share == 1.0
    step = air_combat._step

    def faulty(batches, draws):
        step(batches, draws)
        batches[-1].outcome += 1

    monkeypatch.setattr(air_combat, "_step", faulty)
    assert air_combat.compared("point_mass", QUICK).in_step(1).different_share == 1.0


def test_diplomacy_agrees_with_itself_and_is_counted():
    counts = diplomacy_phases.agreement(QUICK)
    assert vars(counts) == {"games": 84, "orders": 84, "positions": 84}


def test_wrong_adjudication_is_detected(monkeypatch):
    process, made = DiplomacyBatch.process, []

    def faulty(self):
        process(self)
        if self not in made:
            made.append(self)
        if self is not made[0]:
            self.year[3] += 1

    monkeypatch.setattr(DiplomacyBatch, "process", faulty)
    counts = diplomacy_phases.agreement(QUICK)
    assert (counts.games, counts.positions) == (84, 78)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_precision_passes_its_probes(precision):
    found = precision_probe.probe(precision, "cpu", 1)
    assert [name for name, holds in found.items() if not holds] == []
    assert ("each skipped step halves the scale" in found) == (precision == "fp16")


def test_missing_autocast_is_detected(monkeypatch):
    monkeypatch.setattr(Autocast, "context", lambda self, update: torch.autocast("cpu", enabled=False))
    assert not precision_probe.probe("bf16", "cpu", 1)["after the warm-up layers compute in it"]


def test_constant_scaler_is_detected(monkeypatch):
    monkeypatch.setattr(torch.amp.GradScaler, "update", lambda self: self._per_optimizer_states.clear())
    found = precision_probe.probe("fp16", "cpu", 1)
    assert not found["each skipped step halves the scale"]


def test_learner_stepping_on_overflow_is_detected(monkeypatch):
    update = PPOLearner.update

    def faulty(self, *args, **options):
        metrics = update(self, *args, **options)
        with torch.no_grad():
            self.network.log_std += 1e-3
        return metrics

    monkeypatch.setattr(PPOLearner, "update", faulty)
    assert not precision_probe.probe("fp16", "cpu", 1)["a skipped step leaves the weights alone"]


def test_resumed_run_equals_uninterrupted_run():
    found = ppo_resume.measure(QUICK)
    assert [name for name, holds in found.checks.items() if not holds] == []
    assert found.numbers["policy_tensors"] > 10


def test_one_flipped_state_bit_is_detected():
    one = ppo_resume.flatten({"a": [torch.zeros(3), 1], "b": {"c": "text"}})
    other = ppo_resume.flatten({"a": [torch.tensor([0.0, -0.0, 0.0]), 1], "b": {"c": "text"}})
    assert ppo_resume.compare(one, other) == {"a.0": False, "a.1": True, "b.c": True}
    assert ppo_resume.compare(one, one | {"d": 1})["d"] is False


def test_only_metric_lines_count_as_grpo_steps(tmp_path):
    line = '{"benchmark/loss": 0.5, "benchmark/rollout_time_s": 3.0, "benchmark/training_time_s": 1.0,'
    line += ' "benchmark/reward_mean": 2.0, "env_steps": 40}\n'
    (tmp_path / "metrics.jsonl").write_text('{"event": "begin"}\n' + line * 2)
    steps = grpo_steps._steps(tmp_path)
    assert grpo_steps._row(steps, 10.0) == ["2", "10.0", "3.00", "1.00", "20", "2.000 to 2.000"]


def test_metrics_read_by_parts_are_documented():
    documented = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("metrics*.md"))
    names = {name.partition("/")[2] for name in (*ppo_update.SHOWN, *grpo_steps.SHOWN, grpo_steps.GAP)}
    assert [name for name in sorted(names) if name not in documented] == []
