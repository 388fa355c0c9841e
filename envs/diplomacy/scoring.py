"""What a game was worth to its seven powers, [G, 7], from the owners of its centres, [G, 34], torch or numpy.

Three usual scores:

solo            1 with 18 centres or more, else 0
draw size       1 for a solo; without one, 1 / n to each of the n powers that have a centre left
sum of squares  centres^2 / sum of everybody's centres^2, a solo or not
"""

from __future__ import annotations

from typing import Any

import torch

from envs.diplomacy.codes import NUM_POWERS, SOLO


def count_centres(owner: Any) -> torch.Tensor:
    """Centres of each power, int64 [G, 7], of owners [G, 34], -1 where nobody's."""
    owners = torch.as_tensor(owner)
    return torch.stack([(owners == power).sum(dim=1) for power in range(NUM_POWERS)], dim=1)


def solos(owner: Any) -> torch.Tensor:
    """Whether a power has won alone, float32 [G, 7]."""
    return (count_centres(owner) >= SOLO).float()


def draw_size(owner: Any) -> torch.Tensor:
    """Each power's share of the draw or the solo, float32 [G, 7]; shares of a game sum to 1 unless nobody is left."""
    won, alive = solos(owner), (count_centres(owner) > 0).float()
    shares = alive / alive.sum(dim=1, keepdim=True).clamp(min=1.0)
    return torch.where(won.any(dim=1, keepdim=True), won, shares)


def sum_of_squares(owner: Any) -> torch.Tensor:
    """Each power's share of the squared centres, float32 [G, 7]; shares of a game sum to 1 unless nobody has any."""
    squares = count_centres(owner).float().square()
    return squares / squares.sum(dim=1, keepdim=True).clamp(min=1.0)
