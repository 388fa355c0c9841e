"""Elo ratings: the formula by hand, zero sum, order-independent batches, convergence."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.curriculum.ratings import Belief, GameResult, elo_after, expected_score, head_to_head

ELOS = st.floats(-3000.0, 5000.0)
SEVEN = tuple("abcdefg")


def test_expected_score_by_hand():
    assert expected_score(1000.0, 1000.0) == 0.5
    assert expected_score(1400.0, 1000.0) == pytest.approx(10 / 11)
    assert expected_score(1000.0, 1400.0) == pytest.approx(1 / 11)


def after(ratings, results, *, k=32.0):
    """Return ratings after the learner's (wins, draws, losses) against `results`; new players start at 1000."""
    before = dict.fromkeys(("learner", *results), 1000.0) | ratings
    games = [game for name, result in results.items() for game in head_to_head("learner", name, result)]
    return before | elo_after(before, games, k=k)


@pytest.mark.parametrize(
    ("result", "learner"), [((3, 0, 1), 1008.0), ((0, 10, 0), 1000.0), ((0, 0, 0), 1000.0), ((5000, 0, 0), 1016.0)]
)
def test_results_move_both_ratings_by_k_times_surprise(result, learner):
    """By hand, with K = 32 and expected score 1/2: 3/4, draws only, no game, and thousands of wins."""
    assert after({}, {"ace": result}) == {
        "learner": pytest.approx(learner),
        "ace": pytest.approx(2000.0 - learner),
    }


def test_every_opponent_moves_and_sum_is_constant():
    ratings = after({}, {"ace": (10, 0, 0), "brawler": (0, 0, 9), "snapshot_000050": (7, 1, 2)})
    assert all(rating != 1000.0 for name, rating in ratings.items() if name != "learner")
    assert sum(ratings.values()) == pytest.approx(4000.0)


@pytest.mark.parametrize("opponents", [1, 40])
def test_winning_against_many_opponents_does_not_oscillate(opponents):
    ratings, learner = {}, []
    for _ in range(300):
        ratings = after(ratings, {f"snapshot_{i:06d}": (20, 0, 0) for i in range(opponents)})
        learner.append(ratings["learner"])
    assert all(later > earlier for earlier, later in itertools.pairwise(learner))
    assert ratings["learner"] - ratings["snapshot_000000"] < 2000.0


@pytest.mark.parametrize("opponents", [3, 30])
def test_ratings_converge_to_true_difference(opponents):
    truth = {f"{strength:+}_{n}": strength for n in range(opponents // 3) for strength in (-300.0, 0.0, 200.0)}
    rng, ratings = np.random.default_rng(0), {}
    for _ in range(400):
        wins = {name: int(rng.binomial(200, expected_score(0.0, strength))) for name, strength in truth.items()}
        ratings = after(ratings, {name: (won, 0, 200 - won) for name, won in wins.items()})
    for name, strength in truth.items():
        assert ratings[name] - ratings["learner"] == pytest.approx(strength, abs=40.0)


@given(ELOS, ELOS, st.floats(-500.0, 500.0))
def test_expected_scores_sum_to_one_and_depend_on_difference(mine, theirs, shift):
    score = expected_score(mine, theirs)
    assert 0.0 <= score <= 1.0  # at 6,000 points apart it is 1 to the last bit
    assert score + expected_score(theirs, mine) == pytest.approx(1.0)
    assert expected_score(mine + 1.0, theirs) >= score
    assert expected_score(mine + shift, theirs + shift) == pytest.approx(score, abs=1e-9)


def test_bayesian_ratings_are_rejected_as_elo():
    with pytest.raises(TypeError):
        expected_score(Belief(), 1000.0)


def test_player_in_six_seats_loses_what_opponent_wins():
    game = GameResult(("hero",) + 6 * ("bot",), (1, 2, 3, 4, 5, 6, 7))
    after = elo_after({"hero": 1000.0, "bot": 1000.0}, [game])
    assert after == {"hero": pytest.approx(1024.0), "bot": pytest.approx(976.0)}
    assert elo_after({"bot": 1000.0}, [GameResult(("bot", "bot"), (1, 2))]) == {}


@st.composite
def batches(draw):
    """Return ratings of nine players, and games of two to seven of them, possibly in several seats."""
    names = st.sampled_from("abcdefghi")
    games = []
    for _ in range(draw(st.integers(1, 8))):
        players = draw(st.lists(names, min_size=2, max_size=7))
        games.append(GameResult(tuple(players), tuple(draw(st.integers(1, len(players))) for _ in players)))
    return {name: draw(st.floats(500.0, 1500.0)) for name in "abcdefghi"}, games


@given(batches(), st.randoms(use_true_random=False))
def test_batch_update_is_bit_equal_for_any_game_order(batch, random):
    before, games = batch
    mixed = list(games)
    random.shuffle(mixed)
    assert elo_after(before, mixed) == elo_after(before, games)


@given(batches())
def test_update_is_zero_sum(batch):
    before, games = batch
    after = before | elo_after(before, games)
    assert sum(after.values()) == pytest.approx(sum(before.values()))


@given(batches())
def test_opponent_moves_rating_by_at_most_one_game(batch):
    before, games = batch
    for name, rating in elo_after(before, games).items():
        met = {other for game in games if name in game.players for other in game.players if other != name}
        most = sum(max(one_game(name, other, game.players) for game in games) for other in met)
        assert abs(rating - before[name]) <= most * (1.0 + 1e-12)


def one_game(name, other, players):
    """Return the largest change one game can cause: 48, or more for players in several seats."""
    return 48.0 * players.count(name) * players.count(other) / (len(players) - 1)


def test_equal_results_equal_their_count():
    """5 wins, 2 draws and 1 loss, one by one and counted."""
    games = (
        5 * [GameResult(("me", "ace"), (1, 2))]
        + 2 * [GameResult(("ace", "me"), (1, 1))]
        + [GameResult(("ace", "me"), (1, 2))]
    )
    before = {"me": 1100.0, "ace": 1000.0}
    counted = elo_after(before, head_to_head("me", "ace", (5, 2, 1)), k=32.0)
    assert elo_after(before, games, k=32.0) == {name: pytest.approx(rating) for name, rating in counted.items()}


def test_known_players_are_ranked_in_order():
    """Seven players whose performances vary as modelled, 60 batches of 32 games."""
    truth = dict(zip(SEVEN, (-300.0, -200.0, -100.0, 0.0, 100.0, 200.0, 300.0), strict=True))
    rng = np.random.default_rng(5)
    elos = dict.fromkeys(SEVEN, 1000.0)
    for _ in range(60):
        games = []
        for _ in range(32):
            performance = [truth[name] + 400.0 / np.log(10.0) * rng.gumbel() for name in SEVEN]
            games.append(GameResult(SEVEN, tuple(1 + sum(p > mine for p in performance) for mine in performance)))
        elos |= elo_after(elos, games)
    for name, strength in truth.items():
        assert elos[name] - 1000.0 == pytest.approx(strength, abs=40.0)
