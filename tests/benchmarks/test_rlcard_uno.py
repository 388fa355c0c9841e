"""UNO as an OpenSpiel game, compared with rlcard card by card, and rlcard's rule model."""

import random
from collections import Counter

import pytest

pyspiel = pytest.importorskip("pyspiel")
pytest.importorskip("rlcard")

import numpy as np  # noqa: E402
from rlcard.games.uno import Game  # noqa: E402
from rlcard.games.uno.utils import init_deck  # noqa: E402

from benchmarks.exploited_agents import rlcard_uno as uno  # noqa: E402


def state_with(own, target, other="r-9"):
    """Return a state in which player 0 decides."""
    state = pyspiel.load_game("rlcard_uno").new_initial_state()
    state.hands = tuple(bytes(map(uno.CARDS.index, hand.split())) for hand in (own, other))
    state.target, state.played, state.chance = uno.CARDS.index(target), bytes([uno.CARDS.index(target)]), ()
    return state


def follow(state, popped, round_):
    """Apply to `state` the chance outcomes of rlcard's game."""
    while state.is_chance_node():
        event = state.chance[0]
        if event == uno.COLOR:
            outcome = uno.COLORS.index(round_.target.color)
        else:
            outcome = uno.CARDS.index(popped.pop(0))
            while event == uno.TOP and outcome % uno.KINDS == uno.WILD_DRAW_4:  # rlcard puts it back
                outcome = uno.CARDS.index(popped.pop(0))
        assert dict(state.chance_outcomes())[outcome] > 0.0
        state.apply_action(outcome)


def test_every_position_matches_rlcard(monkeypatch):
    """150 random games: hands in order, the card on the table, next player, legal actions, winner."""

    class Deck(list):
        def pop(self):
            card = super().pop()
            popped.append(card.get_str())
            return card

    popped, draws, ends, shuffled = [], random.Random(0), Counter(), 0
    monkeypatch.setattr("rlcard.games.uno.dealer.init_deck", lambda: Deck(init_deck()))
    for seed in range(150):
        game, state = Game(), pyspiel.load_game("rlcard_uno").new_initial_state()
        game.np_random = np.random.RandomState(seed)
        popped.clear()
        game.init_game()
        follow(state, popped, game.round)
        while not game.is_over():
            hands = [[card.get_str() for card in player.hand] for player in game.players]
            assert [[uno.CARDS[card] for card in hand] for hand in state.hands] == hands
            assert uno.CARDS[state.target] == game.round.target.get_str()
            assert state.current_player() == game.round.current_player
            assert sum(state.pile) == len(game.dealer.deck)
            legal = game.get_legal_actions()
            assert [uno.NAMES[k] for k in uno.offered(state.hands[state.seat], state.target)] == legal
            assert [uno.NAMES[k] for k in state.legal_actions()] == sorted(set(legal), key=uno.NAMES.index)
            chosen = draws.choice(legal)
            game.step(chosen)
            state.apply_action(uno.NAMES.index(chosen))
            follow(state, popped, game.round)
            assert game.is_over() or not popped  # rlcard deals after the last card, too
        assert state.is_terminal()
        assert state.returns() == game.get_payoffs()
        ends[game.round.winner[0]] += 1
        shuffled += "shuffled" in state.information_state_string(0)
    assert min(ends[0], ends[1], shuffled) > 5


@pytest.mark.parametrize(
    ("hand", "target", "expected"),
    [
        ("r-5 r-5 b-1", "r-1", {"r-5": 2 / 3, "b-1": 1 / 3}),  # rlcard lists a card that is held twice twice
        ("r-5 g-7 g-wild", "r-1", {"r-5": 1.0}),  # it keeps wild cards
        ("g-7 g-wild", "r-1", dict.fromkeys(("r-wild", "g-wild", "b-wild", "y-wild"), 1 / 4)),
        ("b-3 b-4 g-7 r-wild_draw_4", "y-1", {"b-wild_draw_4": 1.0}),  # most of the hand is blue
        ("b-3", "r-1", {"draw": 1.0}),
    ],
)
def test_rule_model_has_rlcard_draw_probabilities(hand, target, expected):
    state = state_with(hand, target)
    named = {uno.NAMES[k]: p for k, p in uno.UnoRuleV1().action_probabilities(state, 0).items()}
    assert named == pytest.approx(expected)
    assert {*named} <= {uno.NAMES[k] for k in state.legal_actions()}


def test_player_remembers_own_cards_and_public_events():
    """After equal public events, another opponent hand looks the same, and another own card does not."""

    def seen(own, other, player):
        state = pyspiel.load_game("rlcard_uno").new_initial_state()
        for card in (*own, *other, "r-0"):
            state.apply_action(uno.CARDS.index(card))
        return state.information_state_string(player)

    own, other, third = (["r-1", *["g-2", "g-3", "g-4", "g-5", "g-6"], last] for last in ("b-1", "b-2", "b-3"))
    assert seen(own, other, 0) == seen(own, third, 0) != seen(third, other, 0)
    assert seen(own, other, 1) == seen(third, other, 1) != seen(own, third, 1)


def test_tensor_shows_own_cards_and_opponent_hand_size():
    state, observer = state_with("r-5 r-5 b-wild", "y-skip", other="r-1 r-2"), uno.UnoObserver()
    observer.set_from(state, 0)
    own = observer.tensor[:60]
    assert {uno.CARDS[k]: value for k, value in enumerate(own.tolist()) if value} == {"r-5": 1.0, "r-wild": 0.5}
    assert observer.tensor[-3:].tolist() == pytest.approx([0.3, 0.2, sum(state.pile) / 100])
    assert observer.tensor[120:124].tolist() == [0, 0, 0, 1]


def test_game_without_cards_to_draw_or_end_is_draw():
    state = state_with("b-3", "r-1")
    state.pile, state.played = bytes(60), b""
    state.apply_action(uno.DRAW)
    assert state.is_terminal()
    assert state.returns() == [0.0, 0.0]
    state = state_with("b-3", "r-1")
    state.moves = uno.LONGEST - 1
    state.apply_action(uno.DRAW)
    assert state.is_terminal()
