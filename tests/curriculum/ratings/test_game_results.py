"""Games of any number of players: comparisons, ranks and counts by hand, and invalid games."""

import pytest

from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import GameResult, by_player, head_to_head, meetings, ranks, results


def test_every_pair_of_seats_is_compared_once():
    game = GameResult(("a", "b", "c"), (2, 2, 1))
    assert list(game.comparisons()) == [("a", "b", 0.5), ("a", "c", 0.0), ("b", "c", 0.0)]


def test_seats_of_same_player_are_not_compared():
    assert list(GameResult(("a", "b", "a"), (1, 2, 3)).comparisons()) == [("a", "b", 1.0), ("b", "a", 1.0)]


def test_equal_scores_share_better_rank():
    assert ranks([5, 7, 5, 0, 12]) == (3, 2, 3, 5, 1)
    assert ranks([3.0, 3.0]) == (1, 1)


def test_game_counts_as_one_meeting_for_any_seats():
    games = [GameResult(("a", "b", "b"), (1, 2, 3)), GameResult(("b", "a"), (1, 2)), GameResult(("a", "c"), (1, 2))]
    assert meetings(games) == {("a", "b"): 2, ("a", "c"): 1}


def test_results_are_for_first_name_in_any_seat_order():
    games = [
        GameResult(("b", "a"), (1, 2)),
        GameResult(("a", "b"), (1, 2)),
        GameResult(("b", "a"), (1, 1)),
        GameResult(("b", "a"), (2, 1)),
    ]
    assert results(games) == {("a", "b"): (2, 1, 1)}


def test_results_count_pairs_of_seats():
    assert results([GameResult(("hero", "bot", "bot", "bot"), (2, 1, 2, 4))]) == {("bot", "hero"): (1, 1, 1)}


def test_players_with_several_seats_are_ranked_by_mean():
    joined = by_player(("one", "six", "six", "six", "six", "six", "six"), (10, 4, 4, 4, 4, 4, 4), count=3)
    assert joined == GameResult(("one", "six"), (1, 2), 3)


@pytest.mark.parametrize("game", [(("a",), (1,)), (("a", "b"), (1,)), (("a", "b"), (0, 1)), (("a", "b"), (1, 3))])
def test_invalid_game_result_is_rejected(game):
    with pytest.raises(InputError, match="game"):
        GameResult(*game)


def test_two_player_totals_become_games():
    games = head_to_head("b", "a", (5, 0, 1))
    assert games == [GameResult(("b", "a"), (1, 2), 5), GameResult(("b", "a"), (2, 1), 1)]
    assert results(games) == {("a", "b"): (1, 0, 5)}
    assert meetings(games) == {("a", "b"): 6}
    assert head_to_head("b", "a", (0, 0, 0)) == []


def test_game_count_is_at_least_one():
    with pytest.raises(InputError, match="count 0: must be at least 1"):
        GameResult(("a", "b"), (1, 2), 0)
