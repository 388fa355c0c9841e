"""Score, decided share and score interval: hand calculations and measured coverage."""

import numpy as np
import pytest
from scipy.stats import multinomial

from sparring.curriculum.score import GameCounts, score_interval, wilson


def test_draw_is_half_win_and_undecided():
    games = GameCounts((3, 4, 1))
    assert (games.games, games.score, games.decided, games.win_rate) == (8, 5 / 8, 1 / 2, 3 / 8)
    assert games.figures()["interval"] == wilson(3, 8)


def test_interval_by_hand():
    """10 won, 80 drawn, 10 lost: S = 20 / 4 = 5, f = 6 / 26, n' = 433.33.

    1/2 -+ z / (1 + z^2/n') sqrt(1/4n' + z^2/4n'^2) = 1/2 -+ 0.04687. Student's t has 0.5 -+ 0.0446, and Wilson's
    interval of 50 wins in 100 games is 0.5 -+ 0.0962.
    """
    assert score_interval((10, 80, 10)) == pytest.approx((0.45313, 0.54687), abs=1e-5)


@pytest.mark.parametrize("counts", [(3, 0, 7), (0, 0, 10), (10, 0, 0), (1, 0, 1)])
def test_interval_without_draws_is_wilson(counts):
    wins, _, losses = counts
    assert score_interval((losses, 0, wins)) == pytest.approx(wilson(wins, wins + losses), abs=1e-12)


def test_interval_of_draws_has_width_and_of_no_games_is_full():
    low, high = score_interval((0, 100, 0))
    assert low < 0.49 < 0.51 < high
    assert score_interval((0, 0, 0)) == (0.0, 1.0)
    with pytest.raises(ValueError, match="no game"):
        _ = GameCounts((0, 0, 0)).score


def test_opponent_interval_is_mirror_image():
    low, high = score_interval((1, 1, 1, 0, 2))
    assert score_interval((2, 0, 1, 1, 1)) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(("n", "mean", "lowest"), [(10, 0.973, 0.914), (20, 0.967, 0.925), (50, 0.959, 0.935)])
def test_coverage_matches_docstring(n, mean, lowest):
    """Exact: probabilities of every outcome of n games, for 231 distributions over win, draw and loss."""
    outcomes = np.array([(lost, drawn, n - lost - drawn) for lost in range(n + 1) for drawn in range(n + 1 - lost)])
    low, high = np.array([score_interval(one) for one in outcomes.tolist()]).T
    covered = []
    for won in range(21):
        for drawn in range(21 - won):
            score = (won + drawn / 2) / 20
            inside = (low <= score + 1e-12) & (score - 1e-12 <= high)
            covered.append(multinomial.pmf(outcomes, n, np.array([20 - won - drawn, drawn, won]) / 20)[inside].sum())
    assert len(covered) == 231
    assert np.mean(covered) == pytest.approx(mean, abs=6e-4)
    assert min(covered) == pytest.approx(lowest, abs=6e-4)
