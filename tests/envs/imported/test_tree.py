"""Values, best responses and exploitability against OpenSpiel's algorithms and published numbers."""

import numpy as np
import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.imported.tree import game_tree

pyspiel = pytest.importorskip("pyspiel")


def referee(game_id, kwargs):
    """Return OpenSpiel's turn-based game and a table of its policy."""
    from open_spiel.python.policy import TabularPolicy

    game = pyspiel.load_game(game_id, kwargs)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    return game, TabularPolicy(game)


def to_our_order(tree, policy, table):
    """Return OpenSpiel's table [I, K] in the tree's order; its states have an extra line."""
    names = {name.split("\n", 1)[1] if name.startswith("Current player: ") else name: row
             for name, row in policy.state_lookup.items()}  # fmt: skip
    return table[[names[name] for name in tree.names]]


@pytest.mark.parametrize(("game_id", "published"), [("kuhn_poker", 0.458333), ("leduc_poker", 2.373611)])
def test_uniform_play_has_published_exploitability(game_id, published):
    tree = game_tree(game_id, {})
    assert tree.exploitability(tree.uniform()) == pytest.approx(published, abs=1e-6)


GAMES = [
    ("kuhn_poker", {}),
    ("kuhn_poker", {"players": 3}),
    ("leduc_poker", {}),
    ("liars_dice", {"dice_sides": 3}),
    ("goofspiel", {"num_cards": 3, "imp_info": True}),
    ("matrix_rps", {}),
    ("matrix_pd", {}),
]


@pytest.mark.parametrize(("game_id", "kwargs"), GAMES)
def test_random_tables_match_openspiel(game_id, kwargs):
    from open_spiel.python.algorithms import expected_game_score, exploitability

    tree, (game, policy) = game_tree(game_id, kwargs), referee(game_id, kwargs)
    random = np.random.default_rng(5)
    drawn = random.random(policy.action_probability_array.shape) ** 3 * policy.legal_actions_mask
    policy.action_probability_array[:] = drawn / drawn.sum(1, keepdims=True)
    table = to_our_order(tree, policy, policy.action_probability_array)
    assert tree.nash_conv(table) == pytest.approx(exploitability.nash_conv(game, policy), abs=1e-9)
    values = expected_game_score.policy_value(game.new_initial_state(), [policy] * game.num_players())
    np.testing.assert_allclose(tree.values(table), values, atol=1e-9)


def test_kuhn_poker_equilibrium_is_not_exploitable():
    """Alpha = 1/4: bet a jack with probability alpha, a king with 3 alpha; call a queen with alpha + 1/3."""
    tree = game_tree("kuhn_poker", {})
    bets = {"0": 0.25, "1": 0.0, "2": 0.75, "0pb": 0.0, "1pb": 0.25 + 1 / 3, "2pb": 1.0}
    bets |= {"0p": 1 / 3, "1p": 0.0, "2p": 1.0, "0b": 0.0, "1b": 1 / 3, "2b": 1.0}
    table = np.array([[1 - bets[name], bets[name]] for name in tree.names])
    assert tree.exploitability(table) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(tree.values(table), [-1 / 18, 1 / 18], atol=1e-12)


def test_large_and_single_state_games_have_no_tree():
    for game_id in ("connect_four", "tic_tac_toe", "dark_hex"):
        assert game_tree(f"openspiel:{game_id}", {}) is None


def test_imperfect_recall_is_rejected(monkeypatch):
    """In this game the information state does not record a player's own actions."""
    from sparring.envs.imported import tree as module

    monkeypatch.setattr(module._Builder, "_key", lambda self, state, player: (player, str(player)))
    module._tree.cache_clear()
    with pytest.raises(InputError, match=r"env.id=kuhn_poker: player 0 forgets what it did before '0'"):
        game_tree("kuhn_poker", {})
