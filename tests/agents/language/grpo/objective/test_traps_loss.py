"""Traps 1, 4, 5, 10, 13, 23, 29 and 31 in the loss."""

import itertools

import pytest
import torch

from sparring.agents.language.grpo.objective.kl import exact_kl
from sparring.agents.language.grpo.objective.loss import Totals, loss_metrics, policy_loss
from sparring.configs.language import AGGREGATIONS, LOSS_TYPES, GRPOConfig
from tests.agents.language.grpo.objective.made_up import LENGTH, part_of, random_tokens, tokens_of, totals_of

KINDS = list(itertools.product(LOSS_TYPES, AGGREGATIONS))
EVERY_KIND = pytest.mark.parametrize(("loss_type", "aggregation"), KINDS)


def gradient_of(tokens, parts, totals, *, beta=0.1, **options):
    """Return loss and gradient of a batch processed in `parts`, lists of its samples."""
    tokens.logp.values.grad = None
    total = 0.0
    for samples in parts:
        loss = policy_loss(part_of(tokens, samples), totals, GRPOConfig(**options), beta=beta).loss
        loss.backward()
        total += loss.item()
    return total, tokens.logp.values.grad


def test_trap_1_first_pass_has_ratio_one_and_zero_kl():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    logp = logits.log_softmax(1)
    row = torch.repeat_interleave(torch.arange(3), 5)
    kl = exact_kl(logp.flatten(), logp.detach().flatten(), row, 3)
    tokens = tokens_of(logp[:, 2], logp[:, 2].detach(), [0, 0, 1], [1.0, -2.0], kl=kl)
    terms = policy_loss(tokens, totals_of(tokens), GRPOConfig(), beta=1.0)
    assert terms.ratio.tolist() == [1.0, 1.0, 1.0]
    assert terms.kl.tolist() == [0.0, 0.0, 0.0]
    assert not terms.cut.any()


def expected_ratio(drawn_from, policy):
    """Return E[ratio] over draws with these log-probabilities, each draw a sample of one token."""
    tokens = tokens_of(policy, drawn_from, list(range(len(policy))), torch.ones(len(policy)).tolist())
    ratio = policy_loss(tokens, totals_of(tokens), GRPOConfig(), beta=0.0).ratio
    return (drawn_from.exp() * ratio).sum().item()


def test_trap_4_ratio_mean_is_one_over_mask_and_less_if_truncated():
    logits = torch.tensor([2.0, 1.0, 0.5, -1.0], dtype=torch.float64)
    updated = logits + torch.tensor([0.1, -0.3, 0.2, 0.0])
    assert expected_ratio(logits.log_softmax(0), updated.log_softmax(0)) == pytest.approx(1.0, abs=1e-12)
    kept = [0, 1]  # the two likeliest were drawn from: scored over these alone, or over all four
    assert expected_ratio(logits[kept].log_softmax(0), updated[kept].log_softmax(0)) == pytest.approx(1.0, abs=1e-12)
    assert expected_ratio(logits[kept].log_softmax(0), updated.log_softmax(0)[kept]) < 0.85


def test_trap_5_one_sided_temperature_shows_in_ratio():
    logits = torch.tensor([2.0, 1.0, 0.5, -1.0], dtype=torch.float64)
    sampled = (logits / 0.8).log_softmax(0)
    for temperature, alike in ((0.8, True), (1.0, False)):
        scored = (logits / temperature).log_softmax(0)
        tokens = tokens_of(scored, sampled, [0, 0, 0, 0], [1.0])
        ratio = policy_loss(tokens, totals_of(tokens), GRPOConfig(), beta=0.0).ratio
        assert (ratio - 1).abs().max().item() < 1e-12 if alike else (ratio - 1).abs().max().item() > 0.1


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_trap_10_ratio_does_not_grow_with_completion_length(loss_type):
    """Every token is 0.3 nats likelier: a sequence ratio would be e^(0.3 T), e^30 for 100 tokens."""
    for length in (1, 10, 100):
        tokens = tokens_of([-1.0] * length, [-1.3] * length, [0] * length, [1.0], kl=[0.2] * length)
        totals = totals_of(tokens)
        terms = policy_loss(tokens, totals, GRPOConfig(loss_type=loss_type, use_ppo_clipping=False), beta=0.5)
        metrics = loss_metrics([terms], totals)
        assert metrics["ppo/ratio_mean"] == pytest.approx(1.349859, rel=1e-5)
        assert metrics["kl/max"] == pytest.approx(0.2)
        assert terms.loss.item() == pytest.approx(-1.349859 + 0.1, rel=1e-5)


@EVERY_KIND
def test_trap_13_micro_batches_sum_to_batch(loss_type, aggregation):
    """One sample at a time, uneven parts, and all at once give the same loss and gradient."""
    tokens = random_tokens([5, 1, 9, 3, 12, 2], seed=1, weighted=True)
    options = {"loss_type": loss_type, "aggregation": aggregation, "entropy_coef": 0.01}
    totals = totals_of(tokens)
    loss, gradient = gradient_of(tokens, [list(range(6))], totals, **options)
    for parts in ([[i] for i in range(6)], [[0, 1, 2, 3], [4, 5]], [[5, 0], [3], [1, 4, 2]]):
        again, same = gradient_of(tokens, parts, totals, **options)
        assert again == pytest.approx(loss, abs=1e-14)
        torch.testing.assert_close(same, gradient, rtol=0, atol=1e-15)


def test_trap_13_per_micro_batch_normalization_differs():
    """The mistake: a mean over tokens per part, averaged over parts, overweights tokens of short parts."""
    tokens = random_tokens([9, 1], seed=1)
    _, right = gradient_of(tokens, [[0], [1]], totals_of(tokens), aggregation="dapo")
    right, wrong = right.clone(), torch.zeros(10, dtype=torch.float64)
    for i in range(2):
        _, part = gradient_of(tokens, [[i]], totals_of(part_of(tokens, [i])), aggregation="dapo")
        wrong += part / 2
    assert (wrong - right).abs().max() > 0.1 * right.abs().max()


@EVERY_KIND
def test_trap_13_masked_tokens_leave_sums_and_counts(loss_type, aggregation):
    """A batch with masked tokens equals the batch without them."""
    tokens = random_tokens([4, 3, 2], seed=2, weighted=True)
    kept = torch.tensor([1, 0, 1, 1, 1, 1, 0, 1, 1], dtype=torch.bool)
    config = GRPOConfig(loss_type=loss_type, aggregation=aggregation)
    masked = tokens.select(kept)
    lists = [values[kept].tolist() for values in (tokens.logp.values.detach(), tokens.old.values)]
    rest = {name: getattr(tokens, name)[kept].tolist() for name in ("kl", "entropy", "weight")}
    never = tokens_of(torch.tensor(lists[0], dtype=torch.float64), lists[1], [0, 0, 0, 1, 1, 2, 2], [0] * 3, **rest)
    never = part_of(never, [0, 1, 2])
    never.advantage.copy_(tokens.advantage)
    assert (totals_of(masked).tokens, totals_of(masked).samples) == (7, 3)
    left, right = (policy_loss(batch, totals_of(batch), config, beta=0.1).loss.item() for batch in (masked, never))
    assert left == pytest.approx(right, abs=1e-15)


def test_trap_13_only_dr_grpo_weights_tokens_equally():
    tokens = random_tokens([1, 10], dtype=torch.float64)
    logp = torch.full((11,), -1.0, dtype=torch.float64, requires_grad=True)
    tokens = tokens_of(logp, [-1.0] * 11, tokens.sample.tolist(), [1.0, 1.0])
    gradients = {}
    for aggregation in AGGREGATIONS:
        _, gradient = gradient_of(tokens, [[0, 1]], totals_of(tokens), beta=0.0, aggregation=aggregation)
        gradients[aggregation] = gradient.tolist()
    assert gradients["grpo"] == pytest.approx([-1 / 2] + [-1 / 20] * 10)
    assert gradients["dapo"] == pytest.approx([-1 / 11] * 11)
    assert gradients["dr_grpo"] == pytest.approx([-1 / (2 * LENGTH)] * 11)


def test_trap_23_last_token_has_gradient():
    tokens = random_tokens([3, 4], seed=5)
    _, gradient = gradient_of(tokens, [[0, 1]], totals_of(tokens), use_ppo_clipping=False)
    assert (gradient[[2, 6]] != 0).all()


@EVERY_KIND
def test_trap_29_forced_tokens_do_not_dilute_means(loss_type, aggregation):
    """For any number of forced tokens, loss, gradient and decision means stay equal; means over all tokens shrink."""
    options = {"loss_type": loss_type, "aggregation": aggregation, "entropy_coef": 0.01}
    seen = []
    for forced in (0, 50):
        tokens = random_tokens([5, 2], seed=4)
        totals = totals_of(tokens, forced=forced)
        terms = policy_loss(tokens, totals, GRPOConfig(**options), beta=0.1)
        seen.append((terms.loss.item(), loss_metrics([terms], totals)))
    (loss, metrics), (diluted, with_forced) = seen
    assert loss == diluted
    differing = {key for key in metrics if metrics[key] != with_forced[key]}
    assert differing == {"policy/entropy_mean_all_tokens", "kl/mean_all_tokens"}
    assert with_forced["kl/mean_all_tokens"] == pytest.approx(metrics["kl/mean"] * 7 / 107)


def test_trap_29_sample_without_decision_is_not_counted():
    counts, everything = torch.tensor([3, 0, 2]), torch.tensor([10, 8, 9])
    assert Totals.of(counts, everything, length=LENGTH) == Totals(samples=2, tokens=5, all_tokens=19, length=LENGTH)


@EVERY_KIND
def test_trap_31_empty_batch_is_counted_without_loss(loss_type, aggregation):
    logp = torch.zeros(0, requires_grad=True)
    tokens = tokens_of(logp, [], [], [])
    totals = totals_of(tokens)
    terms = policy_loss(tokens, totals, GRPOConfig(loss_type=loss_type, aggregation=aggregation), beta=0.1)
    terms.loss.backward()
    assert totals.empty
    assert terms.loss.item() == 0.0
    assert loss_metrics([terms], totals) == loss_metrics([], totals) == {"processing/empty_batches": 1.0}


def test_trap_31_batch_without_decisions_is_empty():
    logp = torch.zeros(0, requires_grad=True)
    tokens = tokens_of(logp, [], [], [1.0, -1.0])
    totals = totals_of(tokens, forced=4)
    terms = policy_loss(tokens, totals, GRPOConfig(loss_type="gspo"), beta=0.1)
    assert totals.empty
    assert terms.loss.item() == 0.0


def test_trap_31_full_batch_is_not_counted_as_empty():
    tokens = random_tokens([1])
    terms = policy_loss(tokens, totals_of(tokens), GRPOConfig(), beta=0.0)
    assert loss_metrics([terms], totals_of(tokens))["processing/empty_batches"] == 0.0
