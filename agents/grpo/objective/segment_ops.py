"""Sums over parts of a flat tensor: samples differ in their tokens, tokens in their allowed ids, and none is padded.

`part` int64 [N] says which of `parts` each of N values belongs to; no order is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sum_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Sums of `values` [N] within the parts: [parts], 0 for one without values."""
    return values.new_zeros(parts).index_add(0, part, values)


def count_per_part(part: Tensor, parts: int) -> Tensor:
    """How many values each part has: int64 [parts]."""
    return torch.bincount(part, minlength=parts)


def mean_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Means of `values` [N] within the parts: [parts], 0 for one without values."""
    return sum_per_part(values, part, parts) / count_per_part(part, parts).clamp(min=1)
