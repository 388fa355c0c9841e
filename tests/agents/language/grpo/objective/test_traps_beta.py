"""Trap 32: beta in every step as it should be, to the step; and the controller by hand."""

import json
import math
from pathlib import Path

import pytest

from sparring.agents.language.grpo.objective import kl as kl_module
from sparring.agents.language.grpo.objective.kl import Beta
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.language import GRPOConfig


def schedule(steps, *, kl=0.1, **options):
    """Beta of each step, every one of which ends with the same KL."""
    beta = Beta(GRPOConfig(**options))
    values = []
    for _ in range(steps):
        values.append(beta.value)
        beta.observe(kl)
    return values


def test_trap_32_the_warm_up_at_its_edges():
    """Golden: 20 steps to 0.04. Step 0 has none of it, step 20 is the first with all of it."""
    values = schedule(22, kl_beta=0.04, kl_beta_warmup_steps=20)
    golden = {0: 0.0, 1: 0.002, 10: 0.02, 19: 0.038, 20: 0.04, 21: 0.04}
    assert {step: values[step] for step in golden} == pytest.approx(golden)


def test_trap_32_without_a_warm_up_the_first_step_has_all_of_it():
    assert schedule(3, kl_beta=0.04) == [0.04] * 3
    assert Beta(GRPOConfig(kl_beta=0.04)).metrics() == {
        "kl/beta": 0.04,
        "kl/warmup_progress": 1.0,
        "kl/beta_adjusted": 0.0,
    }


def test_trap_32_a_skipped_step_is_a_step_of_the_warm_up():
    beta = Beta(GRPOConfig(kl_beta=0.04, kl_beta_warmup_steps=4))
    for _ in range(2):
        beta.observe(None)
    assert beta.value == pytest.approx(0.02)
    assert "kl/ema" not in beta.metrics()


def test_trap_32_the_controller_waits_for_the_end_of_the_warm_up():
    """KL 10 times the target throughout: step 2 is the first without a warm-up, and moved at once."""
    values = schedule(6, kl=0.2, kl_beta=0.04, kl_beta_warmup_steps=2, kl_target=0.02)
    assert values == pytest.approx([0.0, 0.02, 0.06, 0.09, 0.135, 0.2025])


@pytest.mark.parametrize("row", json.loads((Path(__file__).parent / "recorded_beta.json").read_text()))
def test_trap_32_the_controller_does_what_the_original_recorded(row):
    """Forty steps of six settings, from the original's own controller."""
    options = {"kl_beta": row["beta"], "kl_beta_warmup_steps": row["warmup"], "kl_target": row["target"]}
    beta = Beta(GRPOConfig(**options))
    for kl, used in zip(row["kl"], row["used"], strict=True):
        assert beta.value == pytest.approx(used, abs=1e-7)
        beta.observe(kl)


def test_between_its_limits_even_a_beta_out_of_bounds_stays():
    assert schedule(3, kl=0.02, kl_beta=0.9, kl_target=0.02) == [0.9] * 3


def test_beta_follows_the_kl_between_its_bounds():
    high = schedule(12, kl=1.0, kl_beta=0.04, kl_target=0.02)
    low = schedule(14, kl=0.001, kl_beta=0.04, kl_target=0.02)
    assert high[:3] == pytest.approx([0.04, 0.06, 0.09])
    assert low[:3] == pytest.approx([0.04, 0.04 / 1.5, 0.04 / 2.25])
    assert (high[-1], low[-1]) == (0.5, 0.001)


@pytest.mark.parametrize(("kl", "factor"), [(0.0301, 1.5), (0.0299, 1.0), (0.0101, 1.0), (0.0099, 1 / 1.5)])
def test_between_half_and_one_and_a_half_targets_nothing_moves(kl, factor):
    assert schedule(2, kl=kl, kl_beta=0.04, kl_target=0.02)[1] == pytest.approx(0.04 * factor)


def test_the_mean_of_the_kl_by_hand():
    """A weight of 2 / 11: 1, then 1 + (0 - 1) 2 / 11, then 9 / 11 + (2 - 9 / 11) 2 / 11."""
    beta = Beta(GRPOConfig())
    seen = []
    for kl in (1.0, 0.0, 2.0):
        beta.observe(kl)
        seen.append(beta.metrics()["kl/ema"])
    assert seen == pytest.approx([1.0, 9 / 11, 125 / 121])


def test_metrics_report_the_direction_of_each_adjustment_of_beta(monkeypatch):
    monkeypatch.setattr(kl_module, "HORIZON", 1)
    beta = Beta(GRPOConfig(kl_beta=0.4, kl_target=0.02))
    directions = []
    for kl in (1.0, 1.0, 0.02, 0.0, None):
        beta.observe(kl)
        directions.append(beta.metrics()["kl/beta_adjusted"])
    assert directions == [1.0, 0.0, 0.0, -1.0, 0.0]  # up to its bound, stays there, right, down, nothing trained


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_kl_that_is_not_finite_cannot_enter_the_mean(bad):
    beta = Beta(GRPOConfig())
    beta.observe(0.1)
    with pytest.raises(ValueError, match="step 1 is"):
        beta.observe(bad)
    assert beta.metrics()["kl/ema"] == 0.1


def test_a_continued_run_goes_on_bit_for_bit():
    config = GRPOConfig(kl_beta=0.03, kl_beta_warmup_steps=3, kl_target=0.05)
    whole, first = Beta(config), Beta(config)
    course = [0.3, 0.01, 0.2, 0.07, None, 0.001, 0.001, 0.4]
    for kl in course[:4]:
        whole.observe(kl)
        first.observe(kl)
    second = Beta(config)
    second.load_state_dict(unpack(pack(first.state_dict())))
    assert first.metrics()["kl/beta_adjusted"] == 1.0
    for kl in course[4:]:
        assert second.metrics() == whole.metrics()
        whole.observe(kl)
        second.observe(kl)
    assert second.state_dict() == whole.state_dict()


def test_a_state_from_before_the_first_kl_can_be_kept():
    beta = Beta(GRPOConfig())
    beta.load_state_dict(unpack(pack(Beta(GRPOConfig()).state_dict())))
    assert "kl/ema" not in beta.metrics()
