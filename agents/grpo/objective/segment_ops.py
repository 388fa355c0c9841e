"""Sums over parts of a flat tensor: tokens per sample and allowed ids per token vary in number, without padding.

`part` int64 [N] is the part, of `parts`, that each of N values belongs to, in any order.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sum_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Sum `values` [N] within the parts: [parts], 0 for one without values."""
    return values.new_zeros(parts).index_add(0, part, values)


def count_per_part(part: Tensor, parts: int) -> Tensor:
    """Count the values in each part: int64 [parts]."""
    return torch.bincount(part, minlength=parts)


def mean_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Average `values` [N] within the parts: [parts], 0 for one without values."""
    return sum_per_part(values, part, parts) / count_per_part(part, parts).clamp(min=1)
