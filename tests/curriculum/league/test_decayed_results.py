"""Recent results: how fast they fade, when they count as known, and the prior of the guesses."""

import pytest

from sparring.curriculum.league.league import CHALLENGER, decayed, known_win_rates, leave, new_league, record, win_rates
from sparring.curriculum.ratings import head_to_head


def league_after(**results):
    league = new_league(["ace", "brawler"])
    games = [game for name, result in results.items() for game in head_to_head(CHALLENGER, name, result)]
    return record(league, games)


def test_earlier_results_fade_by_the_number_of_new_games():
    """The first hundred count half: 20 + 100 wins in 150 games."""
    assert decayed((40, 0, 60), (100, 0, 0), memory=100).tolist() == [120.0, 0.0, 30.0]


def test_wins_draws_and_losses_each_fade_and_grow():
    """5 won, 3 drawn and 2 lost with a memory of 30: the earlier counts keep 30 / (30 + 10) = 3/4."""
    assert decayed((8, 4, 12), (5, 3, 2), memory=30).tolist() == [11.0, 6.0, 11.0]
    assert decayed((0, 0, 0), (5, 3, 2)).tolist() == [5.0, 3.0, 2.0]


def test_the_memory_settles():
    seen = (0.0, 0.0, 0.0)
    for _ in range(100):
        seen = decayed(seen, (0, 0, 50), memory=100)
    won, _, lost = decayed(seen, (50, 0, 0), memory=100)
    assert (won, lost) == (50.0, pytest.approx(100.0))


def test_a_draw_is_no_win_but_half_a_point():
    league = league_after(ace=(0, 98, 0))
    assert known_win_rates(league, CHALLENGER) == {"ace": 0.0}
    assert win_rates(league, CHALLENGER, ["ace"]) == pytest.approx([0.5])


def test_a_few_games_are_not_yet_known():
    league = league_after(ace=(19, 0, 0), brawler=(20, 0, 0))
    assert known_win_rates(league, CHALLENGER) == {"brawler": 1.0}
    assert win_rates(league, CHALLENGER, ["ace"]) == pytest.approx([20 / 21])


def test_the_other_sees_it_the_other_way_round():
    assert known_win_rates(league_after(ace=(5, 10, 25)), "ace") == {CHALLENGER: 0.625}


def test_who_leaves_is_forgotten():
    league = leave(league_after(ace=(30, 0, 0), brawler=(0, 0, 30)), ["ace", "never met"])
    assert known_win_rates(league, CHALLENGER) == {"brawler": 0.0}
    assert list(league.agents) == ["brawler", CHALLENGER]
    assert list(league.records) == [("brawler", CHALLENGER)]
