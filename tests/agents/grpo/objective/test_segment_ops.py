"""Sums, counts and means over parts, in any order, with a part that has nothing."""

import torch

from sparring.agents.grpo.objective.tokens import count_per_part, mean_per_part, sum_per_part

VALUES = torch.tensor([1.0, 10.0, 2.0, 3.0])
PART = torch.tensor([0, 3, 0, 1])


def test_by_hand():
    assert sum_per_part(VALUES, PART, 4).tolist() == [3.0, 3.0, 0.0, 10.0]
    assert count_per_part(PART, 4).tolist() == [2, 1, 0, 1]
    assert mean_per_part(VALUES, PART, 4).tolist() == [1.5, 3.0, 0.0, 10.0]


def test_nothing_at_all():
    assert mean_per_part(VALUES[:0], PART[:0], 0).shape == (0,)
    assert mean_per_part(VALUES[:0], PART[:0], 2).tolist() == [0.0, 0.0]


def test_a_gradient_reaches_every_value_once():
    values = VALUES.clone().requires_grad_()
    (mean_per_part(values, PART, 4) * torch.tensor([2.0, 5.0, 7.0, 1.0])).sum().backward()
    assert values.grad.tolist() == [1.0, 1.0, 1.0, 5.0]
