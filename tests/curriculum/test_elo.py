"""Ratings: the formula by hand, zero sum, and convergence to a known difference in strength."""

import itertools

import numpy as np
import pytest

from curriculum.elo import Ratings, expected


def test_expected_score_by_hand():
    assert expected(1000.0, 1000.0) == 0.5
    assert expected(1400.0, 1000.0) == pytest.approx(10 / 11)
    assert expected(1000.0, 1400.0) == pytest.approx(1 / 11)


def test_one_result_moves_both_sides_by_k_times_surprise():
    ratings = Ratings(k=32.0)
    ratings.update({"ace": (3, 0, 1)})  # score 3/4, expected 1/2
    assert ratings.learner == pytest.approx(1008.0)
    assert ratings.opponents["ace"] == pytest.approx(992.0)


def test_a_draw_counts_half():
    ratings = Ratings()
    ratings.update({"ace": (0, 10, 0)})
    assert ratings.learner == ratings.opponents["ace"] == 1000.0


def test_every_opponent_moves_and_the_sum_stays():
    ratings = Ratings()
    for name in ("ace", "brawler", "snapshot_000050"):
        ratings.enter(name)
    ratings.update({"ace": (10, 0, 0), "brawler": (0, 0, 10), "snapshot_000050": (7, 1, 2)})
    assert all(rating != 1000.0 for rating in ratings.opponents.values())
    assert ratings.learner + sum(ratings.opponents.values()) == pytest.approx(4000.0)


def test_no_games_no_change():
    ratings = Ratings()
    ratings.enter("ace", 1200.0)
    ratings.update({"ace": (0, 0, 0)})
    assert ratings.learner == 1000.0
    assert ratings.opponents == {"ace": 1200.0}


def test_order_of_the_results_does_not_matter():
    first, second = Ratings(), Ratings()
    first.update({"ace": (5, 0, 1), "brawler": (0, 1, 5)})
    second.update({"brawler": (0, 1, 5), "ace": (5, 0, 1)})
    assert first.learner == second.learner
    assert first.opponents == second.opponents


def test_thousands_of_games_move_nobody_by_more_than_k():
    ratings = Ratings(k=32.0)
    ratings.update({"ace": (5000, 0, 0)})
    assert ratings.learner == pytest.approx(1016.0)


@pytest.mark.parametrize("opponents", [1, 40])
def test_always_winning_against_any_number_of_opponents_does_not_oscillate(opponents):
    ratings = Ratings()
    learner = []
    for _ in range(300):
        ratings.update({f"snapshot_{i:06d}": (20, 0, 0) for i in range(opponents)})
        learner.append(ratings.learner)
    assert all(later > earlier for earlier, later in itertools.pairwise(learner))
    assert ratings.learner - ratings.opponents["snapshot_000000"] < 2000.0


def test_ratings_converge_to_the_true_difference():
    truth = {"weak": -300.0, "even": 0.0, "strong": 200.0}
    rng = np.random.default_rng(0)
    ratings = Ratings(k=32.0)
    for _ in range(400):
        wins = {name: int(rng.binomial(200, expected(0.0, strength))) for name, strength in truth.items()}
        ratings.update({name: (won, 0, 200 - won) for name, won in wins.items()})
    for name, strength in truth.items():
        assert ratings.opponents[name] - ratings.learner == pytest.approx(strength, abs=40.0)


def test_a_snapshot_enters_with_the_learners_rating_and_may_leave():
    ratings = Ratings()
    ratings.update({"ace": (10, 0, 0)})
    ratings.enter("snapshot_000010", ratings.learner)
    assert ratings.opponents["snapshot_000010"] == ratings.learner
    ratings.leave("snapshot_000010")
    assert set(ratings.opponents) == {"ace"}
