"""Ratings: hand-computed numbers, an independent fit, and simulated tournaments."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.dogfight.evaluation.command import DOGFIGHT
from sparring.eval.stats.ratings import ELO, PAIR_POINTS, Anchor, RatingError, fit, rate, standard_errors
from sparring.eval.stats.tables import MatchRecord


def record(player, opponent, pairs):
    """Return a record of which ratings only use the pairs."""
    return MatchRecord(
        player, opponent, "none", ((0, 0, 0), (0, 0, 0)), length=1.0, own_hp=1.0, their_hp=1.0, pairs=pairs
    )


def elo_of(ratings):
    return {rating.player: rating.elo for rating in ratings}


def test_two_players_by_hand():
    # 75 % of 200 points: 400 log10(3). Pairs of 2 points in 75 of 100 scatter by 100 * (0.75 * 0.25 * 4) * 100/99 and
    # the information is 200 * 0.75 * 0.25.
    best, anchor = rate([record("a", "b", (25, 0, 0, 0, 75))], Anchor("b", 1000.0))
    assert best.elo == pytest.approx(1000.0 + 400.0 * math.log10(3.0))
    error = ELO * math.sqrt(75.0 * 100.0 / 99.0) / 37.5
    assert best.interval == pytest.approx((best.elo - 1.959964 * error, best.elo + 1.959964 * error))
    assert (anchor.elo, anchor.interval, best.games, best.virtual) == (1000.0, (1000.0, 1000.0), 200, False)


def test_draw_is_half_win_for_each():
    drawn = rate([record("a", "b", (0, 0, 10, 0, 0))], Anchor("b"))
    shared = rate([record("a", "b", (5, 0, 0, 0, 5))], Anchor("b"))
    assert elo_of(drawn) == elo_of(shared) == {"a": 0.0, "b": 0.0}


def test_records_from_both_sides_keep_ratings():
    once = [record("a", "b", (1, 2, 3, 4, 5)), record("b", "c", (2, 0, 1, 0, 6))]
    twice = [*once, *(seen.mirrored() for seen in once)]
    assert rate(once, Anchor("c")) == rate(twice, Anchor("c"))


def test_fit_matches_other_optimizer():
    rng = np.random.default_rng(3)
    points = rng.integers(1, 60, (6, 6)).astype(float)
    np.fill_diagonal(points, 0.0)

    def loss(free):
        ratings = np.insert(free, 2, 0.0)
        return (points * np.log1p(np.exp(ratings[None, :] - ratings[:, None]))).sum()

    other = np.insert(minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x, 2, 0.0)
    assert fit(points, 2) == pytest.approx(other, abs=1e-5)


def test_other_anchor_shifts_all_ratings():
    records = [record("a", "b", (1, 2, 3, 4, 5)), record("b", "c", (2, 0, 1, 0, 6)), record("a", "c", (1, 0, 0, 0, 9))]
    first, second = elo_of(rate(records, Anchor("b"))), elo_of(rate(records, Anchor("c", 500.0)))
    assert [second[name] - first[name] for name in "abc"] == pytest.approx([500.0 - first["c"]] * 3)


def test_undefeated_player_gets_virtual_draw_and_mark():
    records = [
        record("a", "b", (0, 0, 0, 0, 50)),
        record("a", "c", (0, 0, 0, 0, 50)),
        record("b", "c", (20, 0, 0, 0, 30)),
    ]
    best, *others = rate(records, Anchor("b"))
    assert (best.player, best.virtual) == ("a", True)
    assert not any(rating.virtual for rating in others)
    assert 1000.0 < best.elo < 2000.0
    # 97.5 % of the time, 50 independent pairs would not all be won by a player below about 400 log10(38) = 450 Elo.
    assert 400.0 < best.interval[0] < best.elo < best.interval[1] < math.inf
    # The others hardly notice.
    alone = rate(records[2:], Anchor("b"))
    assert elo_of(others)["c"] == pytest.approx(elo_of(alone)["c"], abs=1.0)


def test_winless_players_and_undefeated_pairs_are_marked():
    records = [
        record("top", "second", (5, 0, 0, 0, 5)),
        *(record(strong, "anchor", (0, 0, 0, 0, 9)) for strong in ("top", "second")),
        record("anchor", "loser", (0, 0, 0, 0, 9)),
    ]
    marked = {rating.player: rating.virtual for rating in rate(records, Anchor("anchor"))}
    assert marked == {"top": True, "second": True, "anchor": False, "loser": True}


def test_likelihood_without_maximum_is_rejected():
    with pytest.raises(RatingError, match="no finite maximum"):
        fit(np.array([[0.0, 40.0], [0.0, 0.0]]), 1)


def test_disconnected_groups_are_named():
    records = [record("a", "b", (1, 0, 0, 0, 1)), record("c", "d", (1, 0, 0, 0, 1))]
    with pytest.raises(RatingError, match=r"never met: a, b; c, d; play games between them"):
        rate(records, Anchor("a"))


def test_unknown_anchor_is_named_with_players():
    with pytest.raises(UnknownNameError, match=r"unknown --anchor 'aec': choose from ace, b; did you mean 'ace'\?"):
        rate([record("ace", "b", (1, 0, 0, 0, 1))], Anchor("aec"))


def test_anchor_is_parsed_with_rating():
    assert Anchor.parse("ace") == Anchor("ace", 0.0)
    assert Anchor.parse("ace=1000") == Anchor("ace", 1000.0)
    assert Anchor.among(["mine", "chaser", "ace"], DOGFIGHT.anchors) == Anchor("ace")
    assert Anchor.among(["mine", "yours"], DOGFIGHT.anchors) == Anchor("mine")
    with pytest.raises(InputError, match=r"--anchor ace=x: 'x' is not a number; write ace=0"):
        Anchor.parse("ace=x")
    with pytest.raises(InputError, match=r"must be in \[-10000, 10000\]"):
        Anchor.parse("ace=nan")


TRUTH = np.array([0.0, 60.0, 150.0, -80.0, 320.0]) / ELO


def tournament(rng, *, together, draws, pairs=60):
    """Return pairs [K, K, 5] of players with ratings TRUTH; a share `together` has equal results."""
    counts = np.zeros((len(TRUTH), len(TRUTH), len(PAIR_POINTS)))
    for i in range(len(TRUTH)):
        for j in range(i):
            p = 1.0 / (1.0 + math.exp(TRUTH[j] - TRUTH[i]))
            drawn = 2.0 * draws * min(p, 1.0 - p)
            games = rng.choice([0, 1, 2], size=(pairs, 2), p=[1.0 - p - drawn / 2, drawn, p - drawn / 2])
            same = rng.random(pairs) < together
            games[same, 1] = games[same, 0]
            counts[i, j] = np.bincount(games.sum(axis=1), minlength=5)
            counts[j, i] = counts[i, j][::-1]
    return counts


def coverage(*, together, draws, runs=300):
    """Return the coverage of our intervals, and of those that treat games as independent and decided."""
    rng, held = np.random.default_rng(11), np.zeros(2)
    for _ in range(runs):
        pairs = tournament(rng, together=together, draws=draws)
        points = pairs @ PAIR_POINTS
        ratings = fit(points, 0)
        p = 1.0 / (1.0 + np.exp(ratings[None, :] - ratings[:, None]))
        weights = (points + points.T) * p * p.T
        information = (np.diag(weights.sum(axis=1)) - weights)[1:, 1:]
        naive = np.sqrt(np.diag(np.linalg.inv(information)))
        ours = standard_errors(pairs, np.zeros_like(points), ratings, 0)[1:]
        off = np.abs(ratings - TRUTH)[1:]
        held += [(off < 1.959964 * ours).mean(), (off < 1.959964 * naive).mean()]
    return held / runs


@pytest.mark.parametrize(("together", "draws"), [(0.0, 0.0), (1.0, 0.0), (0.3, 0.4)])
def test_intervals_have_stated_coverage(together, draws):
    assert 0.92 < coverage(together=together, draws=draws)[0] < 0.975


def test_game_based_intervals_have_wrong_coverage():
    assert coverage(together=1.0, draws=0.0)[1] < 0.88
    assert coverage(together=0.0, draws=0.8)[1] > 0.985


def test_many_lopsided_players_converge():
    rungs = [record(str(i), str(i + 1), (1, 0, 0, 0, 499)) for i in range(20)]
    elo = elo_of(rate(rungs, Anchor("20")))
    assert elo["0"] == pytest.approx(20 * 400.0 * math.log10(499.0))
