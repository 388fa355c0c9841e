"""Options for the RookWorld overfit runs against explicit formulas: std, start of beta, form of the KL."""

import math
from dataclasses import replace

import pytest
import torch

from sparring.agents.language.grpo.objective.advantages import advantages
from sparring.agents.language.grpo.objective.kl import Beta, log_ratio_kl
from sparring.agents.language.grpo.objective.loss import LogProbs, ProvenanceError, Source
from sparring.configs.language import GRPOConfig


def test_sample_std_uses_n_minus_one_and_floor():
    rewards = torch.tensor([1.0, 0.0, 0.5, 0.2, 0.61, 0.60, 0.60, 0.59], dtype=torch.float64)
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    config = GRPOConfig(advantage_std="sample", advantage_std_floor=0.05)
    found = advantages(rewards, groups, config)
    for part in (slice(0, 4), slice(4, 8)):
        std = max(float(rewards[part].std(correction=1)), 0.05)
        expected = (rewards[part] - rewards[part].mean()) / std
        assert torch.allclose(found.values[part], expected)
    ranges = [
        float(found.values[:4].max() - found.values[:4].min()),
        float(found.values[4:].max() - found.values[4:].min()),
    ]
    assert found.metrics["advantage/range_mean"] == pytest.approx(sum(ranges) / 2)
    population = advantages(rewards, groups, replace(config, advantage_std="population")).values
    assert torch.allclose(population[:4], found.values[:4] * math.sqrt(4 / 3))


def test_beta_is_zero_until_start_then_constant():
    beta = Beta(GRPOConfig(kl_beta=0.005, kl_beta_start_step=20))
    values = []
    for _ in range(30):
        values.append(beta.value)
        beta.observe(0.3)
    assert values == [0.0] * 20 + [0.005] * 10


def test_beta_start_is_followed_by_warmup():
    beta = Beta(GRPOConfig(kl_beta=0.1, kl_beta_start_step=2, kl_beta_warmup_steps=4))
    values = []
    for _ in range(8):
        values.append(beta.value)
        beta.observe(None)
    assert values == pytest.approx([0.0, 0.0, 0.0, 0.025, 0.05, 0.075, 0.1, 0.1])


@pytest.mark.parametrize(("form", "value", "gradient"), [("signed", -0.5, 1.0), ("squared", 0.25, -1.0)])
def test_biased_kl_estimators_by_hand(form, value, gradient):
    drawn = torch.tensor([-3.0, -1.5, -9.0], requires_grad=True)
    reference = LogProbs(torch.tensor([-2.0, -1.0, -8.0]), Source.REFERENCE, "base:x")
    policy = LogProbs(drawn, Source.POLICY, "policy@0")
    found = log_ratio_kl(policy, reference, torch.tensor([1]), form, weights="base:x")
    found.sum().backward()
    assert found.tolist() == [value]
    assert drawn.grad.tolist() == [0.0, gradient, 0.0]
    with pytest.raises(ProvenanceError):
        log_ratio_kl(policy, policy, torch.tensor([1]), form, weights="base:x")
