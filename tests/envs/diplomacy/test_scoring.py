"""Scores of hand-made final positions."""

import numpy as np
import pytest
import torch

from envs.diplomacy.scoring import count_centres, draw_size, solos, sum_of_squares

WON = [0] * 18 + [3] * 16
DRAWN = [1] * 17 + [2] * 10 + [6] * 5 + [-1] * 2
NOBODY = [-1] * 34


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_three_scores_by_hand(make):
    owner = make([WON, DRAWN, NOBODY])
    assert count_centres(owner).tolist() == [[18, 0, 0, 16, 0, 0, 0], [0, 17, 10, 0, 0, 0, 5], [0] * 7]
    assert solos(owner).tolist() == [[1, 0, 0, 0, 0, 0, 0], [0] * 7, [0] * 7]
    third = pytest.approx(1 / 3)
    assert draw_size(owner).tolist() == [[1, 0, 0, 0, 0, 0, 0], [0, third, third, 0, 0, 0, third], [0] * 7]
    squares = sum_of_squares(owner)
    assert squares[0].tolist() == pytest.approx([324 / 580, 0, 0, 256 / 580, 0, 0, 0])
    assert squares[1].tolist() == pytest.approx([0, 289 / 414, 100 / 414, 0, 0, 0, 25 / 414])
    assert squares[2].tolist() == [0] * 7


def test_shares_sum_to_one():
    owner = np.random.default_rng(0).integers(-1, 7, size=(50, 34))
    for score in (draw_size, sum_of_squares):
        torch.testing.assert_close(score(owner).sum(dim=1), torch.ones(50))
