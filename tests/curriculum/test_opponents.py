import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparring.curriculum.opponents import counts, deal, shares
from sparring.envs.dogfight.rules import BOTS

bot_lists = st.lists(st.sampled_from(BOTS), unique=True)
rates = st.dictionaries(st.sampled_from(BOTS), st.floats(0, 1))


@st.composite
def share_lists(draw):
    raw = np.array(draw(st.lists(st.integers(0, 20), min_size=1, max_size=6)), dtype=float)
    raw[draw(st.integers(0, len(raw) - 1))] += 1.0
    return raw / raw.sum()


def test_equal_shares_without_loss_rates():
    assert shares(["ace", "brawler"]) == {"ace": 0.5, "brawler": 0.5}


def test_met_bots_keep_floor_and_rest_is_shared():
    mix = shares(["ace", "brawler"], met=["do_nothing", "chaser", "ace"], floor=0.05)
    assert mix == pytest.approx({"do_nothing": 0.05, "chaser": 0.05, "ace": 0.45, "brawler": 0.45})
    assert list(mix) == ["do_nothing", "chaser", "ace", "brawler"]


def test_without_floor_met_bots_are_dropped():
    assert shares(["ace"], met=["chaser"], floor=0.0) == {"chaser": 0.0, "ace": 1.0}


def test_adaptive_shares_follow_losses():
    # loss weights 1 - 0.95 + 0.05 = 0.1 and 1 - 0.75 + 0.05 = 0.3; half way between them and the equal weights
    mix = shares(["ace", "brawler"], adaptive=0.5, win_rates={"ace": 0.95, "brawler": 0.75})
    assert mix == pytest.approx({"ace": 0.375, "brawler": 0.625})


def test_unknown_win_rate_counts_as_even():
    mix = shares(["ace", "brawler"], adaptive=1.0, win_rates={"ace": 0.5})
    assert mix == pytest.approx({"ace": 0.5, "brawler": 0.5})


def test_floors_that_leave_nothing_are_rejected():
    with pytest.raises(ValueError, match=r"floor=0\.25 for 4 bots leaves nothing for brawler; lower it"):
        shares(["brawler"], met=BOTS[:4], floor=0.25)


@given(bot_lists.filter(len), bot_lists, st.floats(0, 0.2), st.floats(0, 1), rates)
def test_shares_sum_to_one_and_respect_floor(current, met, floor, adaptive, win_rates):
    mix = shares(current, met=met, floor=floor, adaptive=adaptive, win_rates=win_rates)
    assert set(mix) == {*current, *met}
    assert sum(mix.values()) == pytest.approx(1.0)
    assert all(share == floor for bot, share in mix.items() if bot not in current)
    assert all(mix[bot] > 0 for bot in current)


def test_counts_by_largest_remainder():
    assert counts([0.5, 0.3, 0.2], 7).tolist() == [4, 2, 1]  # exact 3.5, 2.1, 1.4: the one left goes to the first
    assert counts([0.05, 0.05, 0.45, 0.45], 16).tolist() == [1, 1, 7, 7]  # exact 0.8, 0.8, 7.2, 7.2
    assert counts([1 / 3, 1 / 3, 1 / 3], 4).tolist() == [2, 1, 1]
    assert counts([0.0, 1.0], 5).tolist() == [0, 5]


@example([1, 1, 7], 6)
@example([1, 3, 6], 14)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any), st.integers(1, 60))
def test_counts_match_exact_fractions(parts, n):
    """Decimal shares have no exact binary value; remainder ties still go to the lower index."""
    exact = [Fraction(part * n, sum(parts)) for part in parts]
    whole = [int(value) for value in exact]
    for place in sorted(range(len(parts)), key=lambda place: whole[place] - exact[place])[: n - sum(whole)]:
        whole[place] += 1
    assert counts([part / sum(parts) for part in parts], n).tolist() == whole


@pytest.mark.parametrize("wrong", [[0.5, 0.6], [1.5, -0.5], [np.nan, 1.0], [0.0]])
def test_opponent_share_outside_0_to_1_is_rejected(wrong):
    with pytest.raises(ValueError, match="give numbers of at least 0 that sum to 1"):
        counts(wrong, 8)


@given(share_lists(), st.integers(1, 300))
def test_counts_are_exact_and_within_one(share, n):
    dealt = counts(share, n)
    assert dealt.sum() == n
    assert np.all(np.abs(dealt - share * n) < 1.0 + 1e-6)


def test_fresh_deal_by_hand():
    # counts 3, 2, 1 of 6; the evens take 2, 1, 0, the odds 1, 1, 1
    assert deal([0.5, 1 / 3, 1 / 6], 6).tolist() == [0, 0, 0, 1, 1, 2]


def test_deal_changes_only_what_is_necessary():
    before = deal([1.0, 0.0], 8)
    after = deal([0.75, 0.25], 8, before)
    assert before.tolist() == [0] * 8
    assert after.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]


def test_removed_opponents_are_replaced():
    assert deal([0.5, 0.5], 4, np.array([0, 7, -1, 1])).tolist() == [0, 0, 1, 1]


def test_wrong_number_of_matches_is_rejected():
    with pytest.raises(ValueError, match="give the opponents of all 4 matches"):
        deal([1.0], 4, np.zeros(3, dtype=np.int32))


@given(st.data(), share_lists(), st.integers(1, 40))
def test_deals_are_exact_balanced_minimal_and_reproducible(data, share, n):
    current = np.array(data.draw(st.lists(st.integers(-1, 6), min_size=n, max_size=n)), dtype=np.int32)
    given_current = current.copy()
    dealt = deal(share, n, current)
    total = counts(share, n)
    assert dealt.dtype == np.int32
    assert np.bincount(dealt, minlength=len(share)).tolist() == total.tolist()
    evens = np.bincount(dealt[0::2], minlength=len(share))
    assert np.all(np.abs(2 * evens - total) <= 1)
    assert np.sum(dealt != current) == fewest_changes(total, current)
    assert np.array_equal(deal(share, n, current), dealt)
    assert np.array_equal(current, given_current)


@given(share_lists(), st.integers(1, 60))
def test_dealing_again_changes_nothing(share, n):
    dealt = deal(share, n)
    assert np.array_equal(deal(share, n, dealt), dealt)


def fewest_changes(total, current):
    """Return the smallest number of changes over all balanced splits of the counts between even and odd matches."""
    held = [[int(np.sum(current[seat::2] == opponent)) for opponent in range(len(total))] for seat in (0, 1)]
    ways = itertools.product(*[sorted({count // 2, count - count // 2}) for count in total])
    kept = [
        sum(min(held[0][k], even) + min(held[1][k], total[k] - even) for k, even in enumerate(way))
        for way in ways
        if sum(way) == (len(current) + 1) // 2
    ]
    return len(current) - max(kept)
