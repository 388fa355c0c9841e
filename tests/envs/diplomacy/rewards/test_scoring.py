"""Scores of hand-made final positions."""

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.rewards.scoring import (
    FINAL,
    alive,
    centre_share,
    count_centres,
    draw_size,
    solos,
    sum_of_squares,
)

WON = [0] * 18 + [3] * 16
DRAWN = [1] * 17 + [2] * 10 + [6] * 5 + [-1] * 2
UNOWNED = [-1] * 34


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_three_scores_by_hand(make):
    owner = make([WON, DRAWN, UNOWNED])
    assert count_centres(owner).tolist() == [[18, 0, 0, 16, 0, 0, 0], [0, 17, 10, 0, 0, 0, 5], [0] * 7]
    assert solos(owner).tolist() == [[1, 0, 0, 0, 0, 0, 0], [0] * 7, [0] * 7]
    third = pytest.approx(1 / 3)
    assert draw_size(owner).tolist() == [[1, 0, 0, 0, 0, 0, 0], [0, third, third, 0, 0, 0, third], [0] * 7]
    squares = sum_of_squares(owner)
    assert squares[0].tolist() == pytest.approx([324 / 580, 0, 0, 256 / 580, 0, 0, 0])
    assert squares[1].tolist() == pytest.approx([0, 289 / 414, 100 / 414, 0, 0, 0, 25 / 414])
    assert squares[2].tolist() == [0] * 7


def test_solo_takes_all_except_centre_share():
    owner = torch.tensor([WON, DRAWN])
    for name, score in FINAL.items():
        won, drawn = score(owner)
        if name != "centres":
            assert won.tolist() == [1, 0, 0, 0, 0, 0, 0]
        assert torch.equal(drawn, score(owner[1:])[0])
    assert torch.equal(FINAL["sum_of_squares"](owner)[1], sum_of_squares(owner)[1])
    assert FINAL["solo"](owner)[1].tolist() == [0] * 7
    assert centre_share(owner)[0].tolist() == pytest.approx([18 / 34, 0, 0, 16 / 34, 0, 0, 0])


def test_board_without_owners_does_not_divide_by_zero():
    assert not any(score(torch.tensor([UNOWNED])).any() for score in FINAL.values())


def test_retreating_unit_keeps_power_alive():
    state = opening()
    for name in ("units", "dislodged"):
        state[name][:] = 0
    state["owner"][:] = -1
    assert alive(state).tolist() == [[False] * 7]
    state["owner"][0, 5] = 2
    state["units"][0, 10] = codes.unit_code(4, codes.ARMY_FORM)
    state["dislodged"][0, 10] = codes.unit_code(6, codes.FLEET_FORM)
    assert alive(state).tolist() == [[False, False, True, False, True, False, True]]
