"""Traps 3 and 24, and importance weights for a sampler that differs from the trainer."""

import math

import pytest
import torch

from sparring.agents.language.grpo.objective.loss import (
    DisagreementError,
    LogProbs,
    ProvenanceError,
    Source,
    check_agreement,
    correction,
)
from sparring.configs.language import GRPOConfig

SAMPLE = torch.tensor([0, 0, 0, 1, 1])
RATIO = [1.0, 2.0, 8.0, 0.1, 0.5]


def pair(ratio):
    """Return log-probabilities of trainer and sampler for tokens with these weights."""
    sampler = torch.linspace(-2.0, -0.5, len(ratio), dtype=torch.float64)
    trainer = sampler + torch.tensor(ratio, dtype=torch.float64).log()
    return LogProbs(trainer, Source.TRAINER, "policy@3"), LogProbs(sampler, Source.SAMPLER, "policy@1")


def corrected(ratio=RATIO, sample=SAMPLE, **options):
    return correction(*pair(ratio), sample, 2, GRPOConfig(**options))


def test_importance_weights_are_truncated_at_cap():
    result = corrected(importance_cap=4.0)
    assert result.weight.tolist() == pytest.approx([1.0, 2.0, 4.0, 0.25, 0.5])
    assert result.kept.all()
    assert result.metrics == pytest.approx(
        {
            "ppo/is_masked_fraction": 0.0,
            "ppo/is_ratio_mean": 11.6 / 5,
            "ppo/is_ratio_max": 8.0,
            "ppo/is_logp_gap_mean": (2 * math.log(2) + math.log(8) + math.log(10)) / 5,
            "ppo/is_logp_gap_max": math.log(10),
        }
    )


def test_tokens_beyond_cap_are_masked():
    result = corrected(importance_cap=4.0, importance_mask=True)
    assert result.kept.tolist() == [True, True, False, False, True]
    assert result.weight[result.kept].tolist() == pytest.approx([1.0, 2.0, 0.5])
    assert result.metrics["ppo/is_masked_fraction"] == 0.4


def test_gspo_sample_has_one_weight_and_is_masked_whole():
    # (1 * 2 * 8)^(1/3) and (0.1 * 0.5)^(1/2)
    result = corrected(loss_type="gspo", importance_cap=4.0)
    assert result.weight.tolist() == pytest.approx([16 ** (1 / 3)] * 3 + [0.25] * 2)
    masked = corrected(loss_type="gspo", importance_cap=4.0, importance_mask=True)
    assert masked.kept.tolist() == [True] * 3 + [False] * 2


@pytest.mark.parametrize("mask", [False, True])
def test_on_policy_sampler_changes_nothing(mask):
    result = corrected([1.0] * 5, importance_mask=mask, importance_cap=1.0)
    assert result.weight.tolist() == [1.0] * 5
    assert result.kept.all()


def test_nan_token_is_not_hidden_by_mask():
    """It must reach the loss, where the guard rejects the step."""
    trainer, sampler = pair(RATIO)
    trainer.values[2] = math.nan
    result = correction(trainer, sampler, SAMPLE, 2, GRPOConfig(importance_mask=True))
    assert result.kept[2]
    assert result.weight[2].isnan()


def test_importance_weights_carry_no_gradient():
    trainer, sampler = pair(RATIO)
    leaf = trainer.map(lambda values: values.requires_grad_())
    assert not correction(leaf, sampler, SAMPLE, 2, GRPOConfig()).weight.requires_grad


def test_importance_weights_require_trainer_and_sampler_log_probs():
    trainer, sampler = pair(RATIO)
    with pytest.raises(ProvenanceError, match="needs the trainer's"):
        correction(sampler, sampler, SAMPLE, 2, GRPOConfig())
    with pytest.raises(ProvenanceError, match="needs the sampler's"):
        correction(trainer, trainer, SAMPLE, 2, GRPOConfig())


def test_trap_24_arithmetic_mismatch_is_reported_or_rejected():
    trainer, sampler = pair([1.0, 1.00005, 0.9999])
    check_agreement(trainer, sampler, at_most=1e-3)
    with pytest.raises(DisagreementError, match=r"token 2 .* at most 1e-05 apart"):
        check_agreement(trainer, sampler, at_most=1e-5)


def test_trap_24_half_precision_exceeds_float32_threshold():
    logits = torch.randn(200, 12, generator=torch.Generator().manual_seed(0))
    exact = logits.double().log_softmax(1)[:, 0]
    trainer = LogProbs(exact, Source.TRAINER, "policy@3")
    sampler = {dtype: logits.to(dtype).log_softmax(1)[:, 0].double() for dtype in (torch.float32, torch.bfloat16)}
    check_agreement(trainer, LogProbs(sampler[torch.float32], Source.SAMPLER, "policy@3"), at_most=1e-4)
    with pytest.raises(DisagreementError):
        check_agreement(trainer, LogProbs(sampler[torch.bfloat16], Source.SAMPLER, "policy@3"), at_most=1e-4)


@pytest.mark.parametrize("mistake", [{"allowed": slice(None)}, {"temperature": 1.0}, {"both": True}])
def test_trap_3_one_sided_mask_or_temperature_is_rejected(mistake):
    """Sampled over the six allowed ids at 0.8; scored over all ids, or at temperature 1."""
    logits = torch.randn(50, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    both = "both" in mistake

    def scored(allowed=slice(6), temperature=0.8):
        return (logits[:, allowed] / temperature).log_softmax(1)[:, 0]

    sampler = LogProbs(scored(), Source.SAMPLER, "policy@3")
    check_agreement(LogProbs(scored(), Source.TRAINER, "policy@3"), sampler, at_most=1e-9)
    wrong = scored(slice(None), 1.0) if both else scored(**mistake)
    with pytest.raises(DisagreementError):
        check_agreement(LogProbs(wrong, Source.TRAINER, "policy@3"), sampler, at_most=0.05)


def test_trap_24_nan_token_disagrees():
    trainer, sampler = pair([1.0, 1.0])
    trainer.values[1] = math.nan
    with pytest.raises(DisagreementError, match="token 1"):
        check_agreement(trainer, sampler, at_most=1.0)
