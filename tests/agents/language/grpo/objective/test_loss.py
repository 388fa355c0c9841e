"""The loss by hand and against the plain implementation, for every ratio, weighting and clipping."""

import itertools
import math

import pytest
import torch

from sparring.agents.language.grpo.objective.loss import (
    ProvenanceError,
    Source,
    loss_metrics,
    policy_loss,
)
from sparring.configs.language import AGGREGATIONS, LOSS_TYPES, GRPOConfig
from tests.agents.language.grpo.objective.made_up import LENGTH, part_of, random_tokens, tokens_of, totals_of
from tests.agents.language.grpo.objective.plain_grpo import PlainSample, plain_gradient, plain_loss

LOG2, LOG3 = math.log(2.0), math.log(3.0)
OLD = [-1.0, -2.0, -1.5]
LOGP = [-1.0 + LOG2, -2.0, -1.5 - LOG2]
"""Ratios 2 and 1 in sample 0, 1/2 in sample 1."""


def loss_of(tokens, *, beta=0.0, totals=None, **options):
    return policy_loss(tokens, totals or totals_of(tokens), GRPOConfig(**options), beta=beta)


def by_hand(advantage, **options):
    return loss_of(tokens_of(torch.tensor(LOGP, dtype=torch.float64), OLD, [0, 0, 1], advantage), **options)


def test_asymmetric_clip_by_hand():
    # A = 1, 1: min(2, 1.5) = 1.5 and 1; min(0.5, 0.8) = 0.5. Mean of each sample, then of both.
    assert by_hand([1.0, 1.0]).loss.item() == pytest.approx(-((1.5 + 1) / 2 + 0.5) / 2)
    # A = -1: min(-2, -1.5) = -2 and -1; min(-0.5, -0.8) = -0.8
    assert by_hand([-1.0, -1.0]).loss.item() == pytest.approx(((2 + 1) / 2 + 0.8) / 2)
    assert by_hand([1.0, -1.0]).cut.tolist() == [True, False, True]
    assert by_hand([-1.0, 1.0]).cut.tolist() == [False, False, False]


def test_dual_clip_by_hand():
    # A = -1: min(-min(2, 1.6), -1.5) = -1.6, cut, and -1; A = 1 is as without the bound.
    terms = by_hand([-1.0, 1.0], ppo_delta=1.6)
    assert terms.loss.item() == pytest.approx(((1.6 + 1) / 2 - 0.5) / 2)
    assert terms.cut.tolist() == [True, False, False]
    assert by_hand([1.0, 1.0], ppo_delta=1.6).loss.item() == by_hand([1.0, 1.0]).loss.item()


def test_unclipped_ratio_is_used_as_is():
    terms = by_hand([1.0, -1.0], use_ppo_clipping=False)
    assert terms.loss.item() == pytest.approx(-((2 + 1) / 2 - 0.5) / 2)
    assert not terms.cut.any()


def test_loss_aggregations_by_hand():
    options = {"use_ppo_clipping": False}
    assert by_hand([1.0, 2.0], aggregation="grpo", **options).loss.item() == pytest.approx(-(3 / 2 + 1) / 2)
    assert by_hand([1.0, 2.0], aggregation="dapo", **options).loss.item() == pytest.approx(-(3 + 1) / 3)
    assert by_hand([1.0, 2.0], aggregation="dr_grpo", **options).loss.item() == pytest.approx(-(3 + 1) / (2 * LENGTH))


def test_gspo_uses_geometric_mean_of_ratios():
    # Sample 0: sqrt(2 * 1), sample 1: 1/2.
    terms = by_hand([1.0, -1.0], loss_type="gspo", use_ppo_clipping=False)
    assert terms.ratio.tolist() == pytest.approx([math.sqrt(2), math.sqrt(2), 0.5])
    assert terms.loss.item() == pytest.approx(-(math.sqrt(2) - 0.5) / 2)
    # clipped at 1.5 and 0.8: sqrt(2) is not cut, 0.5 is, for the bad sample
    assert by_hand([1.0, -1.0], loss_type="gspo").loss.item() == pytest.approx(-(math.sqrt(2) - 0.8) / 2)


def test_kl_penalty_and_entropy_bonus_are_per_token():
    tokens = tokens_of([-1.0], [-1.0], [0], [0.0], kl=[0.3], entropy=[0.7])
    assert loss_of(tokens, beta=0.1).loss.item() == pytest.approx(0.03)
    assert loss_of(tokens, entropy_coef=0.01).loss.item() == pytest.approx(-0.007)


def test_zero_weight_penalty_ignores_infinite_kl():
    tokens = tokens_of([-1.0], [-1.0], [0], [1.0], kl=[math.inf])
    assert loss_of(tokens, beta=0.0).loss.item() == -1.0


def test_importance_weights_scale_surrogate_without_gradient():
    weight = torch.tensor([3.0, 0.5], requires_grad=True)
    logp = torch.tensor([-1.0, -1.0], requires_grad=True)
    tokens = tokens_of(logp, [-1.0, -1.0], [0, 0], [2.0], kl=[0.1, 0.1], weight=weight)
    loss = loss_of(tokens, beta=1.0).loss
    loss.backward()
    assert loss.item() == pytest.approx(-(3.0 + 0.5) * 2 / 2 + 0.1)
    torch.testing.assert_close(logp.grad, torch.tensor([-3.0, -0.5]))  # -w r A / T
    assert weight.grad is None


def test_old_log_probs_carry_no_gradient():
    logp, old = (torch.tensor([-1.0], requires_grad=True) for _ in range(2))
    loss_of(tokens_of(logp, old, [0], [2.0])).loss.backward()
    assert logp.grad.item() == -2.0
    assert old.grad is None


def test_importance_weights_with_sampler_ratio_are_rejected():
    tokens = tokens_of([-1.0], [-1.0], [0], [1.0], weight=[1.0], old_source=Source.SAMPLER)
    with pytest.raises(ProvenanceError, match="correct twice"):
        loss_of(tokens)
    assert loss_of(tokens_of([-1.0], [-1.0], [0], [1.0], old_source=Source.SAMPLER)).loss.item() == -1.0


def plain_samples(tokens):
    """The same batch as lists."""
    samples = []
    for i, advantage in enumerate(tokens.advantage.tolist()):
        here = tokens.sample == i
        lists = [values[here].tolist() for values in (tokens.logp.values.detach(), tokens.old.values)]
        weight = [] if tokens.weight is None else tokens.weight[here].tolist()
        samples.append(PlainSample(*lists, advantage, tokens.entropy[here].tolist(), tokens.kl[here].tolist(), weight))
    return samples


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize(("loss_type", "aggregation"), itertools.product(LOSS_TYPES, AGGREGATIONS))
def test_loss_and_gradient_match_plain_implementation(loss_type, aggregation, clipped, weighted):
    tokens = random_tokens([5, 1, 9, 3], seed=3, weighted=weighted)
    options = {"loss_type": loss_type, "aggregation": aggregation, "use_ppo_clipping": clipped, "entropy_coef": 0.02}
    loss = loss_of(tokens, beta=0.3, **options).loss
    loss.backward()
    plain = {"gspo": loss_type == "gspo", "low": 0.2 if clipped else None, "high": 0.5, "beta": 0.3}
    plain |= {"entropy_coef": 0.02, "length": LENGTH}
    assert loss.item() == pytest.approx(plain_loss(plain_samples(tokens), aggregation, **plain), abs=1e-12)
    expected = plain_gradient(plain_samples(tokens), aggregation, **plain)
    assert tokens.logp.values.grad.tolist() == pytest.approx(expected, abs=1e-8)


POLICY = -((LOGP[0] + LOGP[1]) / 2 + LOGP[2]) / 2
"""-A log pi, a mean within each sample, then over both."""


def test_loss_metrics_by_hand():
    tokens = tokens_of(torch.tensor(LOGP), OLD, [0, 0, 1], [1.0, 1.0], entropy=[1.0, 2.0, 3.0], kl=[0.0, 0.5, 1.0])
    totals = totals_of(tokens, forced=3)
    metrics = loss_metrics([loss_of(tokens, totals=totals, beta=0.1)], totals)
    expected = {
        "processing/empty_batches": 0.0,
        "loss/policy": POLICY,
        "loss/kl": 0.1 * (0.25 + 1.0) / 2,
        "loss/kl_share": 0.0625 / (POLICY + 0.0625),
        "ppo/ratio_mean": 3.5 / 3,
        "ppo/ratio_std": math.sqrt((4 + 1 + 0.25) / 3 - (3.5 / 3) ** 2),
        "ppo/clip_fraction": 1 / 3,
        "policy/entropy_mean": 2.0,
        "policy/entropy_mean_all_tokens": 6.0 / 9,
        "kl/mean": 0.5,
        "kl/mean_all_tokens": 1.5 / 9,
        "kl/max": 1.0,
        "kl/min": 0.0,
        "kl/std": math.sqrt(1.25 / 3 - 0.25),
    }
    assert metrics == pytest.approx(expected, rel=1e-5)


def test_metrics_do_not_depend_on_micro_batches():
    tokens = random_tokens([4, 2, 7], dtype=torch.float32)
    totals = totals_of(tokens)
    whole = loss_metrics([loss_of(tokens, totals=totals)], totals)
    parts = [loss_of(part_of(tokens, [i]), totals=totals) for i in range(3)]
    assert loss_metrics(parts, totals) == pytest.approx(whole, rel=1e-6)


def test_half_precision_log_probs_are_rejected():
    """bfloat16 has eight bits: a ratio of 1.003 is indistinguishable from 1."""
    tokens = tokens_of(torch.tensor([-1.0], dtype=torch.bfloat16), [-1.0], [0], [1.0])
    with pytest.raises(ValueError, match=r"bfloat16.*float32"):
        loss_of(tokens)
