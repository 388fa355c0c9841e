"""The sequential probability ratio test: by hand, simulated error rates, and real games."""

import math

import numpy as np
import pytest

from sparring.configs.core.errors import InputError
from sparring.curriculum.score import SCORES, count_pairs
from sparring.curriculum.sprt import Hypotheses, judge, llr
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.eval.options import pair_of
from sparring.eval.stats.requirements import parse_hypotheses


def test_llr_by_hand():
    # Half a pair is added to each count: 10 x 0, 20 x 0.25, 40 x 0.5, 20 x 0.75, 10 x 1, but for 0.5 fewer of each, is
    # 100 pairs of mean 0.5 and variance (20 * 0.25 + 40 * 0.0625) / 100 = 0.075.
    s1 = 1.0 / (1.0 + 10.0 ** (-20.0 / 400.0))
    expected = 100 * (s1 - 0.5) * (2 * 0.5 - 0.5 - s1) / (2 * 0.075)
    assert llr([9.5, 19.5, 39.5, 19.5, 9.5], Hypotheses(0.0, 20.0)) == pytest.approx(expected)


def test_bounds_are_walds():
    assert Hypotheses(alpha=0.05, beta=0.1).bounds == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))


def test_verdicts():
    hypotheses = Hypotheses(0.0, 50.0)
    assert judge([0, 0, 20, 80, 100], hypotheses).accepted == "H1"
    assert judge([100, 80, 20, 0, 0], hypotheses).accepted == "H0"
    assert judge([1, 1, 2, 1, 1], hypotheses).accepted is None
    assert judge([0, 0, 0, 0, 0], hypotheses).accepted is None
    assert judge([0, 0, 0, 0, 9], hypotheses).elo == math.inf
    assert judge([0, 0, 8, 0, 0], hypotheses).elo == 0.0


def error_rate(score, wrong, hypotheses, runs=400):
    """Return the share of tests that accept `wrong` with this mean pair score, in batches of 20 pairs."""
    rng, mistakes = np.random.default_rng(7), 0
    spread = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    tilt = (score - 0.5) / ((SCORES - 0.5) ** 2 @ spread)
    shares = spread * (1.0 + tilt * (SCORES - 0.5))
    for _ in range(runs):
        pairs = np.zeros(5, dtype=np.int64)
        while (verdict := judge(pairs, hypotheses)).accepted is None:
            pairs += rng.multinomial(20, shares)
        mistakes += verdict.accepted == wrong
    return mistakes / runs


@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.05), (0.02, 0.2)])
def test_simulated_error_rates_are_within_bounds(alpha, beta):
    hypotheses = Hypotheses(0.0, 60.0, alpha, beta)
    even, stronger = 0.5, 1.0 / (1.0 + 10.0 ** (-60.0 / 400.0))
    for rate, promised in ((error_rate(even, "H1", hypotheses), alpha), (error_rate(stronger, "H0", hypotheses), beta)):
        assert rate <= promised + 3.0 * math.sqrt(promised * (1.0 - promised) / 400)
        assert rate > 0.1 * promised  # nor is it a test that never decides wrongly because it hardly decides


def test_pairs_are_games_from_same_start():
    assert count_pairs(np.array([1, 1, 0, 1, -1, -1])).tolist() == [0, 1, 1, 0, 1]


def test_sprt_separates_bot_from_weaker_one():
    results = play("ace", "do_nothing", games=40, seed=1, setting=MatchSettings(threads=1))
    assert judge(count_pairs(results.outcome), Hypotheses(0.0, 50.0)).accepted == "H1"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["elo2=3"], r"unknown --sprt option 'elo2': choose from elo0, elo1, alpha, beta"),
        (["elo1=x"], r"--sprt elo1=x: 'x' is not a number; write elo1=20"),
        (["elo0=30"], r"elo0=30 elo1=20: elo0 must be below elo1"),
        (["alpha=0.7"], r"sprt alpha=0\.7: must be in \(0, 0\.5\)"),
    ],
)
def test_bad_options_are_named(words, complaint):
    with pytest.raises(InputError, match=complaint):
        parse_hypotheses(map(pair_of, words))


def test_options_are_parsed():
    assert parse_hypotheses([("elo0", "-5"), ("elo1", "5")]) == Hypotheses(-5.0, 5.0)
