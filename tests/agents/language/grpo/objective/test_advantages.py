"""Advantages by hand, and rejected input."""

import math

import pytest
import torch

from sparring.agents.language.grpo.objective.advantages import advantages
from sparring.configs.language import GRPOConfig


def valued(reward, group, **options):
    return advantages(torch.tensor(reward), torch.tensor(group, dtype=torch.int64), GRPOConfig(**options))


def test_two_groups_by_hand_in_any_order():
    # Group 0: 1, 5 with mean 3 and std 2. Group 1: 0, 0, 3 with mean 1 and std sqrt(2).
    result = valued([0.0, 1.0, 0.0, 5.0, 3.0], [1, 0, 1, 0, 1])
    expected = [-1 / math.sqrt(2), -1.0, -1 / math.sqrt(2), 1.0, 2 / math.sqrt(2)]
    assert result.values.tolist() == pytest.approx(expected)
    assert result.used.all()


def test_unscaled_advantages_keep_reward_unit():
    values = valued([1.0, 5.0, 0.0, 0.0, 3.0], [0, 0, 1, 1, 1], scale_advantages=False).values
    assert values.tolist() == [-2.0, 2.0, -1.0, -1.0, 2.0]


def test_advantage_metrics_by_hand():
    # Values -2, 2, -1, -1, 2, cut to 1.5 in three places; the last sample is alone.
    result = valued([1.0, 5.0, 0.0, 0.0, 3.0, 7.0], [0, 0, 1, 1, 1, 2], scale_advantages=False, advantage_clip=1.5)
    assert result.values.tolist() == [-1.5, 1.5, -1.0, -1.0, 1.5, 0.0]
    assert result.metrics == pytest.approx(
        {
            "advantage/mean": -0.1,
            "advantage/range_mean": (3.0 + 2.5) / 2,
            "advantage/std": math.sqrt((3 * 2.25 + 2) / 5 - 0.01),
            "advantage/min": -1.5,
            "advantage/max": 1.5,
            "advantage/clipped_count": 3.0,
            "processing/skip_rate": 1 / 6,
            "processing/total_samples_skipped": 1.0,
            "processing/skipped_zero_variance": 0.0,
            "processing/skipped_single_sample": 1.0,
            "processing/effective_batch_size": 5.0,
        }
    )


def test_empty_and_dropped_batches_have_counts_but_no_means():
    for reward, group, skipped in (([], [], 0.0), ([1.0, 1.0], [0, 0], 1.0)):
        result = valued(reward, group)
        assert result.metrics["processing/skip_rate"] == skipped
        assert result.metrics["processing/effective_batch_size"] == 0.0
        assert "advantage/mean" not in result.metrics
        assert not result.used.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_reward_is_named(bad):
    with pytest.raises(ValueError, match=r"reward of sample 1 is .*must be finite"):
        valued([1.0, bad, 2.0], [0, 0, 0])


def test_mismatched_shapes_are_rejected():
    with pytest.raises(ValueError, match=r"\(3,\) and groups \(2,\)"):
        valued([1.0, 2.0, 3.0], [0, 0])
