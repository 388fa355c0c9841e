"""Prioritized fictitious self-play: weights by hand, and draws."""

import numpy as np
import pytest

from sparring.curriculum.league import matchmaking as pfsp
from sparring.curriculum.league.league import CHALLENGER, League, PairRecord, win_rates


def test_weights_are_one_minus_win_rate_plus_tenth():
    np.testing.assert_allclose(pfsp.weights([0.0, 0.25, 1.0]), [1.1, 0.85, 0.1])


def test_win_rate_counts_draws_half_and_starts_even():
    records = {(CHALLENGER, "met"): PairRecord(recent=(3, 1, 4)), ("a", CHALLENGER): PairRecord(recent=(1, 0, 0))}
    # (3 + 1/2 + 1) / (3 + 1 + 4 + 2); never met, 1 / 2; lost once, 1 / 3.
    rates = win_rates(League(records=records), CHALLENGER, ["met", "unknown", "a"])
    np.testing.assert_allclose(rates, [0.45, 0.5, 1 / 3])


@pytest.mark.parametrize("rates", [[-0.1], [1.2], [float("nan")]])
def test_win_rate_outside_0_to_1_is_rejected(rates):
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        pfsp.weights(rates)


def test_draws_are_distinct_while_names_suffice():
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert len(set(pfsp.draw("abcdef", np.arange(1, 7), 4, rng))) == 4


def test_every_name_is_drawn_once_before_repeats():
    drawn = pfsp.draw("abc", [1.0, 1.0, 100.0], 7, np.random.default_rng(0))
    assert set(drawn[:3]) == set(drawn[3:6]) == set("abc")
    assert len(drawn) == 7


def test_draw_frequencies_follow_weights():
    rng = np.random.default_rng(3)
    drawn = [pfsp.draw("ab", [3.0, 1.0], 1, rng)[0] for _ in range(4000)]
    assert drawn.count("a") / len(drawn) == pytest.approx(0.75, abs=0.03)


def test_same_generator_state_gives_same_draw():
    first, second = (pfsp.draw("abcdef", np.ones(6), 4, np.random.default_rng(9)) for _ in range(2))
    assert first == second


def test_empty_pool_is_named():
    with pytest.raises(ValueError, match="empty pool"):
        pfsp.draw([], [], 2, np.random.default_rng(0))
