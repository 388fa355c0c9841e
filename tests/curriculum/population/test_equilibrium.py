"""Equilibria of games solved by hand and of random games, and the game of styles."""

import numpy as np
import pytest

from sparring.curriculum.population.equilibrium import equilibrium
from sparring.curriculum.population.style_game import EXPLORED, StyleGame

ROCK_PAPER_SCISSORS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]


@pytest.mark.parametrize(
    ("payoff", "strategy"),
    [
        ([[0.3]], [1.0]),
        (ROCK_PAPER_SCISSORS, [1 / 3, 1 / 3, 1 / 3]),
        ([[3, -1], [-2, 1]], [3 / 7, 4 / 7]),  # 3 p - 2 (1 - p) = -p + (1 - p), so 7 p = 3
        ([[1, -1], [-1, 1]], [0.5, 0.5]),
        ([[0, -2], [-1, 0]], [1 / 3, 2 / 3]),
        ([[2, 3], [1, 2]], [1.0, 0.0]),  # the second row is dominated
        ([[0, 1, -2], [-1, 0, 1], [2, -1, 0]], [0.25, 0.5, 0.25]),
        ([[0.5, 0.1, 0.9]], [1.0]),
        ([[0.0], [0.4], [0.2]], [0.0, 1.0, 0.0]),
    ],
)
def test_games_solved_by_hand(payoff, strategy):
    assert equilibrium(payoff) == pytest.approx(strategy, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_no_player_gains_by_deviating(seed):
    rng = np.random.default_rng(seed)
    payoff = rng.normal(size=rng.integers(1, 9, size=2)).round(seed % 3)  # rounded ones have many ties
    row, column = equilibrium(payoff), equilibrium(-payoff.T)
    value = row @ payoff @ column
    assert (row @ payoff).min() == pytest.approx(value, abs=1e-9)
    assert (payoff @ column).max() == pytest.approx(value, abs=1e-9)
    assert (row >= 0).all()
    assert row.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("payoff", [[], [[]], [1.0, 2.0], [[np.nan]], [[np.inf, 0.0]]])
def test_invalid_payoff_matrix_is_rejected(payoff):
    with pytest.raises(ValueError, match="give a matrix"):
        equilibrium(payoff)


def solved(results, rounds=400):
    game = StyleGame(3)
    for (style, other), result in results.items():
        game.record(style, other, np.array(result))
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        game.solve(rng)
    return game


def test_cyclic_styles_are_mixed_equally():
    game = solved({(1, 0): (9000, 0, 0), (2, 1): (9000, 0, 0), (2, 0): (0, 0, 9000)})
    assert game.payoff == pytest.approx(np.array(ROCK_PAPER_SCISSORS), abs=0.01)
    assert game.mixture == pytest.approx([1 / 3] * 3, abs=0.03)
    assert game.opponents(2) == pytest.approx([EXPLORED / 2, 1 - EXPLORED / 2], abs=1e-6)  # of the first two, 1 wins


def test_dominant_style_is_played_alone_and_lower_are_still_met():
    game = solved({(1, 0): (500, 0, 400), (2, 0): (900, 50, 10), (2, 1): (900, 50, 10)})
    assert game.mixture == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)
    assert min(game.opponents(2)) >= EXPLORED / 2
    assert sum(game.opponents(2)) == pytest.approx(1.0)
    assert game.metrics()["styles/effective"] == pytest.approx(1.0, abs=1e-3)


def test_styles_without_results_are_used_equally():
    assert solved({}).mixture.min() > 0.2


def test_newer_results_replace_older_ones():
    game = StyleGame(2)
    for result in ((1000, 0, 0), (0, 0, 1000), (0, 0, 1000), (0, 0, 1000)):
        game.record(1, 0, np.array(result))
    # 1000 wins halve with each thousand: 125 wins, 1750 losses.
    assert game.results[1, 0] == pytest.approx([125, 0, 1750])
    assert game.payoff[0, 1] == pytest.approx(1625 / 1877)


def test_only_lower_styles_have_results_and_state_size_is_fixed():
    game = StyleGame(3)
    with pytest.raises(ValueError, match="the styles below it only"):
        game.record(1, 1, np.array((1, 0, 0)))
    other = StyleGame(3)
    game.record(2, 0, np.array((3, 1, 2)))
    game.solve(np.random.default_rng(0))
    other.load_state_dict(game.state_dict())
    assert other.state_dict() == game.state_dict()
    with pytest.raises(ValueError, match="stores 3, this run has 2"):
        StyleGame(2).load_state_dict(game.state_dict())
