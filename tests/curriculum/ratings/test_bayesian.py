"""Bayesian ratings: published updates by hand and from another implementation, properties, batches."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.curriculum.ratings import BETA, SIGMA, Belief, GameResult, beliefs_after, head_to_head, win_chance

BELIEFS = st.builds(Belief, st.floats(0.0, 50.0), st.floats(0.5, SIGMA))
SEVEN = tuple("abcdefg")


def test_conservative_rating_is_three_deviations_below_mean():
    assert Belief().shown == pytest.approx(0.0)
    assert Belief(30.0, 2.0).shown == 24.0


def test_one_game_of_two_new_players_by_hand():
    """mu + s^2 / (2 c) and s^2 (1 - (s / c)^3 / 4), with s^2 = (25/3)^2 + (1/12)^2 and c^2 = 2 s^2 + 2 (25/6)^2."""
    variance = 625 / 9 + 1 / 144
    spread = math.sqrt(2 * variance + 2 * 625 / 36)
    after = beliefs_after({"a": Belief(), "b": Belief()}, [GameResult(("a", "b"), (1, 2))])
    assert after["a"].mu == pytest.approx(25.0 + variance / (2 * spread))
    assert after["b"].mu == pytest.approx(25.0 - variance / (2 * spread))
    left = variance * (1 - (math.sqrt(variance) / spread) ** 3 / 4)
    assert after["a"].sigma == after["b"].sigma == pytest.approx(math.sqrt(left))


PUBLISHED = {
    "seven new players, two tied": (
        [(25.0, SIGMA)] * 7,
        (1, 2, 2, 4, 5, 6, 7),
        [40.81233695884299, *2 * [32.906168479421495], 25.0, 19.729221013719005, 14.458442027438007, 9.187663041157013],
        [6.564727658752583] * 7,
    ),
    "four known ones, two tied": (
        [(31.0, 2.5), (25.0, SIGMA), (20.0, 5.0), (27.0, 1.2)],
        (3, 1, 1, 4),
        [30.344625640475176, 32.268306206875394, 24.95467191316243, 26.71344499792084],
        [2.4752665490699965, 6.765051961479258, 4.711905991248775, 1.201336597952083],
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_game_matches_published_update(name):
    """Figures of openskill 6.2.0, BradleyTerryFull with its defaults."""
    before, ranks, mus, sigmas = PUBLISHED[name]
    names = SEVEN[: len(before)]
    after = beliefs_after({n: Belief(*b) for n, b in zip(names, before, strict=True)}, [GameResult(names, ranks)])
    assert [after[n].mu for n in names] == pytest.approx(mus, rel=1e-12)
    assert [after[n].sigma for n in names] == pytest.approx(sigmas, rel=1e-12)


def test_variance_shrinks_at_most_ten_thousandfold_per_game():
    """Weng and Lin's kappa, 0.0001: six certain opponents would remove 6/4 of an uncertain player's variance."""
    before = dict(zip(SEVEN, [Belief(25.0, 1e6), *[Belief(25.0, 1e-3)] * 6], strict=True))
    after = beliefs_after(before, [GameResult(SEVEN, (1, 2, 3, 4, 5, 6, 7))])
    assert after["a"].sigma == pytest.approx(1e4, rel=1e-6)


@given(BELIEFS, BELIEFS)
def test_win_probabilities_sum_to_one_and_follow_means(mine, theirs):
    chance = win_chance(mine, theirs)
    assert 0.0 < chance < 1.0
    assert chance + win_chance(theirs, mine) == pytest.approx(1.0)
    assert (chance > 0.5) == (mine.mu > theirs.mu) or chance == pytest.approx(0.5)


def test_win_probability_is_closer_to_even_with_uncertainty():
    sure, unsure = (win_chance(Belief(30.0, sigma), Belief(25.0, sigma)) for sigma in (1.0, 8.0))
    assert 0.5 < unsure < sure
    # Nothing left to learn: c = beta sqrt 2, the scatter of two performances.
    assert win_chance(Belief(25.0 + BETA * math.sqrt(2), 1e-9), Belief(25.0, 1e-9)) == pytest.approx(
        1 / (1 + 1 / math.e)
    )


@pytest.mark.parametrize("elo", [1000.0, 1000])
def test_elo_ratings_are_rejected_as_bayesian(elo):
    with pytest.raises(AttributeError):
        win_chance(elo, Belief())
    with pytest.raises(AttributeError):
        beliefs_after({"a": elo, "b": Belief()}, [GameResult(("a", "b"), (1, 2))])


@st.composite
def batches(draw):
    games = []
    for _ in range(draw(st.integers(1, 8))):
        players = draw(st.lists(st.sampled_from(SEVEN), min_size=2, max_size=7))
        games.append(GameResult(tuple(players), tuple(draw(st.integers(1, len(players))) for _ in players)))
    return {name: draw(BELIEFS) for name in SEVEN}, games


@given(batches(), st.randoms(use_true_random=False))
def test_batch_update_is_bit_equal_for_any_game_order(batch, random):
    before, games = batch
    mixed = list(games)
    random.shuffle(mixed)
    assert beliefs_after(before, mixed) == beliefs_after(before, games)


@given(batches())
def test_variance_stays_positive_and_grows_at_most_by_tau(batch):
    before, games = batch
    for name, belief in beliefs_after(before, games).items():
        assert 0.0 < belief.sigma <= math.hypot(before[name].sigma, 1 / 12) + 1e-9
        assert math.isfinite(belief.mu)


def test_self_play_only_changes_nothing():
    assert beliefs_after({"a": Belief()}, [GameResult(("a", "a", "a"), (1, 2, 3))]) == {}


def test_hundred_games_equal_one_fractional_result():
    before = {"a": Belief(), "b": Belief()}
    once = beliefs_after(before, [GameResult(("a", "b"), (1, 2))])
    won = beliefs_after(before, 100 * [GameResult(("a", "b"), (1, 2))])
    even = beliefs_after(before, 50 * [GameResult(("a", "b"), (1, 2))] + 50 * [GameResult(("a", "b"), (2, 1))])
    assert 25.0 < won["a"].mu == pytest.approx(once["a"].mu, rel=0.02)
    assert even["a"].mu == pytest.approx(25.0)


def test_known_players_are_ranked_with_less_uncertainty():
    truth = dict(zip(SEVEN, range(10, 45, 5), strict=True))
    rng = np.random.default_rng(5)
    beliefs = dict.fromkeys(SEVEN, Belief())
    for _ in range(40):
        games = []
        for _ in range(16):
            performance = [truth[name] + rng.normal(0.0, BETA) for name in SEVEN]
            games.append(GameResult(SEVEN, tuple(1 + sum(p > mine for p in performance) for mine in performance)))
        beliefs |= beliefs_after(beliefs, games)
    assert sorted(SEVEN, key=lambda name: beliefs[name].mu) == list(SEVEN)
    assert all(belief.sigma < SIGMA / 2 for belief in beliefs.values())


def test_equal_results_equal_their_count():
    games = (
        5 * [GameResult(("a", "b"), (1, 2))] + 2 * [GameResult(("b", "a"), (1, 1))] + [GameResult(("b", "a"), (1, 2))]
    )
    before = {"a": Belief(27.0, 3.0), "b": Belief(20.0, 6.0)}
    one_by_one, counted = beliefs_after(before, games), beliefs_after(before, head_to_head("a", "b", (5, 2, 1)))
    for name in before:
        assert one_by_one[name].mu == pytest.approx(counted[name].mu)
        assert one_by_one[name].sigma == pytest.approx(counted[name].sigma)
