"""Trap 32: beta is exact in every step, and the controller matches hand calculation."""

import json
import math
from pathlib import Path

import pytest

from sparring.agents.language.grpo.objective import kl as kl_module
from sparring.agents.language.grpo.objective.kl import Beta
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.language import GRPOConfig


def schedule(steps, *, kl=0.1, **options):
    """Return beta of each step, all of which end with the same KL."""
    beta = Beta(GRPOConfig(**options))
    values = []
    for _ in range(steps):
        values.append(beta.value)
        beta.observe(kl)
    return values


def test_trap_32_warmup_boundaries():
    """20 steps to 0.04: step 0 uses none of it, step 20 is the first with the full value."""
    values = schedule(22, kl_beta=0.04, kl_beta_warmup_steps=20)
    golden = {0: 0.0, 1: 0.002, 10: 0.02, 19: 0.038, 20: 0.04, 21: 0.04}
    assert {step: values[step] for step in golden} == pytest.approx(golden)


def test_trap_32_first_step_uses_full_beta_without_warmup():
    assert schedule(3, kl_beta=0.04) == [0.04] * 3
    assert Beta(GRPOConfig(kl_beta=0.04)).metrics() == {
        "kl/beta": 0.04,
        "kl/warmup_progress": 1.0,
        "kl/beta_adjusted": 0.0,
    }


def test_trap_32_skipped_step_counts_for_warmup():
    beta = Beta(GRPOConfig(kl_beta=0.04, kl_beta_warmup_steps=4))
    for _ in range(2):
        beta.observe(None)
    assert beta.value == pytest.approx(0.02)
    assert "kl/ema" not in beta.metrics()


def test_trap_32_controller_waits_for_end_of_warmup():
    """The KL is 10 times the target throughout: step 2 is the first after warmup, and is adjusted at once."""
    values = schedule(6, kl=0.2, kl_beta=0.04, kl_beta_warmup_steps=2, kl_target=0.02)
    assert values == pytest.approx([0.0, 0.02, 0.06, 0.09, 0.135, 0.2025])


@pytest.mark.parametrize("row", json.loads((Path(__file__).parent / "recorded_beta.json").read_text()))
def test_trap_32_controller_matches_original_records(row):
    """Forty steps of six settings, from the original's own controller."""
    options = {"kl_beta": row["beta"], "kl_beta_warmup_steps": row["warmup"], "kl_target": row["target"]}
    beta = Beta(GRPOConfig(**options))
    for kl, used in zip(row["kl"], row["used"], strict=True):
        assert beta.value == pytest.approx(used, abs=1e-7)
        beta.observe(kl)


def test_out_of_bounds_beta_is_unchanged_within_target_band():
    assert schedule(3, kl=0.02, kl_beta=0.9, kl_target=0.02) == [0.9] * 3


def test_beta_follows_kl_within_bounds():
    high = schedule(12, kl=1.0, kl_beta=0.04, kl_target=0.02)
    low = schedule(14, kl=0.001, kl_beta=0.04, kl_target=0.02)
    assert high[:3] == pytest.approx([0.04, 0.06, 0.09])
    assert low[:3] == pytest.approx([0.04, 0.04 / 1.5, 0.04 / 2.25])
    assert (high[-1], low[-1]) == (0.5, 0.001)


@pytest.mark.parametrize(("kl", "factor"), [(0.0301, 1.5), (0.0299, 1.0), (0.0101, 1.0), (0.0099, 1 / 1.5)])
def test_beta_is_constant_within_kl_target_band(kl, factor):
    assert schedule(2, kl=kl, kl_beta=0.04, kl_target=0.02)[1] == pytest.approx(0.04 * factor)


def test_kl_mean_by_hand():
    """A weight of 2 / 11: 1, then 1 + (0 - 1) 2 / 11, then 9 / 11 + (2 - 9 / 11) 2 / 11."""
    beta = Beta(GRPOConfig())
    seen = []
    for kl in (1.0, 0.0, 2.0):
        beta.observe(kl)
        seen.append(beta.metrics()["kl/ema"])
    assert seen == pytest.approx([1.0, 9 / 11, 125 / 121])


def test_metrics_report_direction_of_beta_adjustment(monkeypatch):
    monkeypatch.setattr(kl_module, "HORIZON", 1)
    beta = Beta(GRPOConfig(kl_beta=0.4, kl_target=0.02))
    directions = []
    for kl in (1.0, 1.0, 0.02, 0.0, None):
        beta.observe(kl)
        directions.append(beta.metrics()["kl/beta_adjusted"])
    assert directions == [1.0, 0.0, 0.0, -1.0, 0.0]  # up to its bound, stays there, right, down, nothing trained


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_kl_is_excluded_from_mean(bad):
    beta = Beta(GRPOConfig())
    beta.observe(0.1)
    with pytest.raises(ValueError, match="step 1 is"):
        beta.observe(bad)
    assert beta.metrics()["kl/ema"] == 0.1


def test_resumed_run_continues_bit_for_bit():
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


def test_state_before_first_kl_can_be_saved():
    beta = Beta(GRPOConfig())
    beta.load_state_dict(unpack(pack(Beta(GRPOConfig()).state_dict())))
    assert "kl/ema" not in beta.metrics()
