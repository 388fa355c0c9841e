"""Recent results: how fast they fade, when they count as known, and the prior of the guesses."""

import pytest

from curriculum.scores import Scores


def test_earlier_results_fade_by_the_number_of_new_games():
    scores = Scores(memory=100)
    scores.add({"ace": (40, 0, 60)})
    scores.add({"ace": (100, 0, 0)})  # the first hundred count half: 20 + 100 wins in 150 games
    assert scores.win_rates() == {"ace": pytest.approx(120 / 150)}


def test_the_memory_settles():
    scores = Scores(memory=100)
    for _ in range(100):
        scores.add({"ace": (0, 0, 50)})
    scores.add({"ace": (50, 0, 0)})
    assert scores.win_rates()["ace"] == pytest.approx(50 / 150)


def test_a_draw_is_no_win_but_half_a_point():
    scores = Scores()
    scores.add({"do_nothing": (0, 98, 0)})
    assert scores.win_rates() == {"do_nothing": 0.0}
    assert scores.guesses(["do_nothing"]) == pytest.approx([0.5])


def test_a_few_games_are_not_yet_known():
    scores = Scores()
    scores.add({"ace": (19, 0, 0), "brawler": (20, 0, 0)})
    assert scores.win_rates() == {"brawler": 1.0}
    assert scores.guesses(["ace", "chaser"]) == pytest.approx([20 / 21, 0.5])


def test_forgetting():
    scores = Scores()
    scores.add({"a": (30, 0, 0)})
    scores.forget("a")
    scores.forget("never met")
    assert scores.win_rates() == {}
