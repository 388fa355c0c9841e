"""Traps 14, 15 and 17: invariances of advantages, and groups dropped from a batch."""

import itertools

import pytest
import torch

from sparring.agents.language.grpo.objective.advantages import advantages, group_ids
from sparring.agents.language.grpo.objective.loss import policy_loss
from sparring.configs.language import AGGREGATIONS, LOSS_TYPES, GRPOConfig
from sparring.envs.text import GroupFacts
from tests.agents.language.grpo.objective.made_up import part_of, random_tokens, totals_of

REWARDS = torch.tensor([1.0, 3.0, 8.0, -2.0, 0.5, 0.25])
GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


def valued(reward, group=GROUPS, **options):
    return advantages(torch.as_tensor(reward), torch.as_tensor(group), GRPOConfig(**options))


@pytest.mark.parametrize(("factor", "shift"), [(10.0, 0.0), (0.01, 0.0), (1.0, 50.0), (7.0, -120.0)])
def test_trap_14_advantages_are_invariant_to_reward_unit(factor, shift):
    torch.testing.assert_close(valued(factor * REWARDS + shift).values, valued(REWARDS).values, rtol=0, atol=2e-4)


def test_trap_14_only_scaling_equalizes_group_spread():
    reward = torch.tensor([0.0, 1.0, 0.0, 100.0])
    scaled = valued(reward, [0, 0, 1, 1]).values.tolist()
    plain = valued(reward, [0, 0, 1, 1], scale_advantages=False, advantage_clip=0.0).values.tolist()
    assert scaled == [-1.0, 1.0, -1.0, 1.0]
    assert plain == [-0.5, 0.5, -50.0, 50.0]


def test_trap_14_tiny_spread_is_not_amplified():
    """A standard deviation of 1e-5 would become +-1; one of 0.02 is used."""
    result = valued([0.0, 2e-5, 0.0, 0.04], [0, 0, 1, 1], min_reward_variance=1e-4)
    assert result.used.tolist() == [False, False, True, True]
    assert result.values.tolist() == pytest.approx([0, 0, -1, 1])
    assert result.metrics["processing/skipped_zero_variance"] == 2.0


def test_single_sample_groups_are_dropped():
    result = valued([7.0, 0.0, 1.0, 5.0], [0, 1, 1, 2])
    assert result.used.tolist() == [False, True, True, False]
    assert result.metrics["processing/skipped_single_sample"] == 2.0
    assert result.metrics["processing/total_samples_skipped"] == 2.0


def test_trap_14_clip_is_last_operation():
    """One outlier of 20 has (r - mean) / std = sqrt(19): nothing may rescale it after clipping at 2."""
    reward = torch.zeros(20)
    reward[7] = 1.0
    result = valued(reward, torch.zeros(20, dtype=torch.int64), advantage_clip=2.0)
    assert result.values.abs().max().item() == 2.0
    assert result.values[7].item() == 2.0
    assert result.metrics["advantage/clipped_count"] == 1.0
    assert result.metrics["advantage/max"] == 2.0
    unclipped = valued(reward, torch.zeros(20, dtype=torch.int64))
    assert unclipped.values[7].item() == pytest.approx(19**0.5, rel=1e-5)
    assert unclipped.metrics["advantage/clipped_count"] == 0.0


@pytest.mark.parametrize("clip", [0.1, 0.7, 1.0, 5.0])
@pytest.mark.parametrize("scale", [True, False])
def test_trap_14_clip_holds_for_any_rewards(clip, scale):
    generator = torch.Generator().manual_seed(0)
    reward = 100 * torch.randn(64, generator=generator).exp()
    values = valued(reward, torch.arange(64) // 8, advantage_clip=clip, scale_advantages=scale).values
    assert values.abs().max() <= clip


def test_trap_15_uninformative_groups_are_dropped_and_counted():
    result = valued([1.0, 2.0, 5.0, 5.0, 9.0], [0, 0, 1, 1, 2])
    assert result.used.tolist() == [True, True, False, False, False]
    assert result.values[2:].tolist() == [0.0, 0.0, 0.0]
    assert result.metrics["processing/skipped_zero_variance"] == 2.0
    assert result.metrics["processing/skipped_single_sample"] == 1.0
    assert result.metrics["processing/skip_rate"] == 0.6
    assert result.metrics["processing/effective_batch_size"] == 2.0


@pytest.mark.parametrize("reward", [0.1, 1 / 3, 49.7, -123.456, 1e-20, 0.0])
@pytest.mark.parametrize("count", [3, 6, 7, 64])
def test_trap_15_equal_rewards_give_nothing_despite_rounding(reward, count):
    result = valued(torch.full((count,), reward), torch.zeros(count, dtype=torch.int64))
    assert not result.used.any()
    assert (result.values == 0).all()


def test_trap_15_rounding_error_exists():
    """The computed mean of equal floats differs from them: their advantages would be of order one."""
    reward = torch.full((7,), 0.1)
    mean = torch.zeros(1).index_add(0, torch.zeros(7, dtype=torch.int64), reward) / 7
    assert (reward - mean).abs().max() > 0


def test_trap_15_rewards_equal_up_to_summation_order_are_equal():
    terms = [50.0, 0.1, 0.2, -0.3, 7.7]
    sums = {sum(order) for order in itertools.permutations(terms)}
    reward = torch.tensor([sum(order) for order in itertools.permutations(torch.tensor(terms))])
    assert len(sums) > 1
    assert len(set(reward.tolist())) > 1
    assert not valued(reward, torch.zeros(len(reward), dtype=torch.int64)).used.any()


def test_trap_15_smallest_real_difference_is_used():
    """0.04: a fifth of one province's influence, beside a solo's 136."""
    assert valued([136.0, 136.04], [0, 0]).used.all()


@pytest.mark.parametrize(("loss_type", "aggregation"), itertools.product(LOSS_TYPES, AGGREGATIONS))
def test_trap_15_dropped_groups_do_not_affect_gradient(loss_type, aggregation):
    """The gradient after dropping uninformative groups equals that of a batch without them."""
    tokens = random_tokens([3, 5, 4, 2, 6], seed=8)
    result = valued([1.0, 2.0, 5.0, 5.0, 9.0], [0, 0, 1, 1, 2])
    config = GRPOConfig(loss_type=loss_type, aggregation=aggregation)
    tokens.advantage.copy_(result.values)
    kept = part_of(tokens, result.used.nonzero().flatten().tolist())
    policy_loss(kept, totals_of(kept), config, beta=0.1).loss.backward()
    gradient = tokens.logp.values.grad.clone()
    assert (gradient[8:] == 0).all()  # not even the KL or the entropy of what was left out
    alone = random_tokens([3, 5, 4, 2, 6], seed=8)
    never = part_of(alone, [0, 1])
    never.advantage.copy_(valued([1.0, 2.0], [0, 0]).values)
    policy_loss(never, totals_of(never), config, beta=0.1).loss.backward()
    assert torch.equal(alone.logp.values.grad, gradient)


def biased_games(count=400):
    """Return rewards and facts of a game where power p gets 10 p more regardless of its actions."""
    noise = torch.randn(count, 4, 7, generator=torch.Generator().manual_seed(1))
    reward = (noise + 10 * torch.arange(7)).flatten()
    facts = [
        GroupFacts(fork=fork, seat=power, step=0, stratum=(), position=0)
        for fork in range(count)
        for _ in range(4)
        for power in range(7)
    ]
    return reward, facts


@pytest.mark.parametrize("stratified", [False, True])
def test_trap_17_stronger_seat_gets_no_advantage(stratified):
    reward, facts = biased_games()
    result = valued(reward, group_ids(facts, stratified=stratified))
    means = result.values.view(-1, 7).mean(0)
    assert means.abs().max() < 1e-5


def test_trap_17_stronger_seat_gains_without_power_in_group():
    reward, facts = biased_games()
    means = valued(reward, torch.tensor([fact.fork for fact in facts])).values.view(-1, 7).mean(0)
    assert means[0] < -1.0
    assert means[6] > 1.0
