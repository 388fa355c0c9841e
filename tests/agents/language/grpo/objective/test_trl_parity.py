"""Loss and gradients equal TRL's on the same random completions.

TRL's trainer is never built: its loss is called with a stand-in for the trainer, and padded tensors with masks.
"""

import itertools
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

from sparring.agents.language.grpo.objective.kl import k3, k3_times_ratio
from sparring.agents.language.grpo.objective.loss import LogProbs, Source, Tokens, policy_loss
from sparring.configs.language import AGGREGATIONS, GRPOConfig
from tests.agents.language.grpo.objective.made_up import LENGTH, random_tokens, totals_of

LENGTHS = [7, 1, 12, 4, 9]
BETA = 0.1


@pytest.fixture(scope="module")
def trainer():
    """Return TRL's trainer class, whose import takes seconds."""
    pytest.importorskip("trl", minversion="1.16")
    from trl import GRPOTrainer

    return GRPOTrainer


def padded(values, lengths):
    rows = torch.zeros(len(lengths), max(lengths), dtype=values.dtype)
    return torch.stack(
        [torch.cat([part, row[len(part) :]]) for part, row in zip(values.split(lengths), rows, strict=True)]
    )


def stand_in(logp, aggregation, level, corrected, kl_ratio, delta):
    """Stand in for what `GRPOTrainer._compute_loss` reads from the trainer."""
    accelerator = SimpleNamespace(num_processes=1, reduce=lambda x, reduction: x, gather=lambda x: x)
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (logp, torch.zeros_like(logp), None),
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
        accelerator=accelerator,
        args=SimpleNamespace(delta=delta, use_bias_correction_kl=kl_ratio, steps_per_generation=1),
        aux_loss_enabled=False,
        beta=BETA,
        current_gradient_accumulation_steps=1,
        epsilon_low=0.2,
        epsilon_high=0.5,
        importance_sampling_level=level,
        loss_type=aggregation,
        max_completion_length=LENGTH,
        model=SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=corrected,
        vllm_importance_sampling_correction=corrected,
    )


def batch(dtype, *, weighted):
    """Return random tokens with reference log-probabilities `reference` [N]."""
    tokens = random_tokens(LENGTHS, seed=11, dtype=dtype, weighted=weighted)
    generator = torch.Generator().manual_seed(12)
    shift = torch.rand(len(tokens.sample), generator=generator, dtype=torch.float64) - 0.5
    return tokens, (tokens.logp.values.detach() + shift).to(dtype)


def trls(trainer, tokens, reference, aggregation, level="token", kl_ratio=False, delta=None):
    """Return TRL's loss and its gradient by the token log-probabilities."""
    leaf = tokens.logp.values.detach().clone().requires_grad_()
    mask = padded(torch.ones_like(leaf), LENGTHS)
    ids = torch.zeros(mask.shape, dtype=torch.int64)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": tokens.advantage,
        "old_per_token_logps": padded(tokens.old.values, LENGTHS),
        "ref_per_token_logps": padded(reference, LENGTHS),
        "num_items_in_batch": mask.sum(),
    }
    if tokens.weight is not None:
        inputs["importance_sampling_ratio"] = padded(tokens.weight, LENGTHS)
    stand = stand_in(padded(leaf, LENGTHS), aggregation, level, tokens.weight is not None, kl_ratio, delta)
    loss = trainer._compute_loss(stand, None, inputs)
    loss.backward()
    return loss.item(), leaf.grad, stand._metrics["train"]


def ours(tokens, reference, aggregation, kl=None, **options):
    """Return our loss and gradient, with TRL's KL estimator."""
    leaf = tokens.logp.values.detach().clone().requires_grad_()
    kl = kl(leaf, reference) if kl else k3(leaf, reference)
    logp = LogProbs(leaf, Source.POLICY, "policy@1")
    same = Tokens(logp, tokens.old, tokens.sample, tokens.advantage, tokens.entropy, kl, tokens.weight)
    terms = policy_loss(same, totals_of(same), GRPOConfig(aggregation=aggregation, **options), beta=BETA)
    terms.loss.backward()
    return terms.loss.item(), leaf.grad, terms


KINDS = list(itertools.product(AGGREGATIONS, [False, True], [torch.float32, torch.float64]))


@pytest.mark.parametrize(("aggregation", "weighted", "dtype"), KINDS)
def test_loss_and_gradient_match_trl(trainer, aggregation, weighted, dtype):
    tokens, reference = batch(dtype, weighted=weighted)
    their_loss, their_gradient, their_metrics = trls(trainer, tokens, reference, aggregation)
    loss, gradient, terms = ours(tokens, reference, aggregation)
    assert loss == pytest.approx(their_loss, rel=0, abs=1e-6)
    torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-6)
    assert terms.cut.double().mean().item() == pytest.approx(their_metrics["clip_ratio/region_mean"][0], abs=1e-6)
    assert 0.05 < terms.cut.double().mean() < 0.95  # both sides of the clip were met
    assert gradient.norm() > 1e-3


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_sequence_ratios_match_trl(trainer, aggregation):
    tokens, reference = batch(torch.float64, weighted=False)
    their_loss, their_gradient, _ = trls(trainer, tokens, reference, aggregation, level="sequence")
    loss, gradient, _ = ours(tokens, reference, aggregation, loss_type="gspo")
    assert loss == pytest.approx(their_loss, rel=0, abs=1e-6)
    torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-6)


def test_corrected_kl_estimate_matches_trl(trainer):
    tokens, reference = batch(torch.float64, weighted=False)
    their_loss, their_gradient, _ = trls(trainer, tokens, reference, "grpo", kl_ratio=True)
    loss, gradient, _ = ours(tokens, reference, "grpo", kl=lambda pi, ref: k3_times_ratio(pi, ref, tokens.old.values))
    assert loss == pytest.approx(their_loss, rel=0, abs=1e-6)
    torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-6)


def test_comparison_detects_other_clip(trainer):
    tokens, reference = batch(torch.float64, weighted=False)
    their_loss, their_gradient, _ = trls(trainer, tokens, reference, "grpo")
    loss, gradient, _ = ours(tokens, reference, "grpo", ppo_epsilon_high=0.4)
    assert abs(loss - their_loss) > 1e-4
    assert (gradient - their_gradient).abs().max() > 1e-3


@pytest.mark.parametrize(("level", "loss_type"), [("token", "grpo"), ("sequence", "gspo")])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_two_sided_clipping_matches_trl(trainer, aggregation, level, loss_type):
    """The bound is 1.6, which tokens with ratios up to 2.5 and negative advantages exceed."""
    tokens, reference = batch(torch.float64, weighted=False)
    tokens.advantage.copy_(-tokens.advantage.abs())
    their_loss, their_gradient, _ = trls(trainer, tokens, reference, aggregation, level, delta=1.6)
    loss, gradient, terms = ours(tokens, reference, aggregation, loss_type=loss_type, ppo_delta=1.6)
    assert loss == pytest.approx(their_loss, rel=0, abs=1e-12)
    torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-12)
    if level == "token":
        free = ours(tokens, reference, aggregation, loss_type=loss_type)
        assert abs(free[0] - loss) > 1e-4
        assert terms.cut.sum() > free[2].cut.sum()
