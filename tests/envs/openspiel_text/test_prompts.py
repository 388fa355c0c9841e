"""Decision prompts: by hand, determined by the information state, and available for every listed game."""

import pytest

pytest.importorskip("pyspiel")

from sparring.envs.imported.states import first_state, text_of
from sparring.envs.imported.tree import game_tree
from sparring.envs.openspiel_text.config import OpenSpielAnswerConfig
from sparring.envs.openspiel_text.decisions import open_text_game, past_chance, random_option
from sparring.envs.openspiel_text.prompts import VIEWS, prompt_of

ANSWER = OpenSpielAnswerConfig()


def after(game, *actions):
    """Return the state after actions of players and chance."""
    state = first_state(open_text_game(game))
    for action in actions:
        state = state.child(action)
    return state


def known(state):
    """Return a prompt's lines without rules, menu and tag."""
    return prompt_of(state, ANSWER).text.splitlines()[1:-2]


def test_kuhn_poker_by_hand():
    """Deal king and jack; the first player passes, the second bets."""
    assert known(after("kuhn_poker", 2, 0)) == ["Your card: King", "Moves so far: none", "You are player 0 of 2."]
    assert known(after("kuhn_poker", 2, 0, 0)) == ["Your card: Jack", "Moves so far: Pass", "You are player 1 of 2."]
    assert known(after("kuhn_poker", 2, 0, 0, 1))[1] == "Moves so far: Pass, Bet"
    assert known(after("kuhn_poker(players=3)", 3, 0, 1))[0] == "Your card: 3"


def test_leduc_poker_by_hand():
    """Cards 3 and 4 are a queen and a king; raise, call, then a queen in public."""
    state = after("leduc_poker", 3, 4, 2, 1, 2)
    assert known(state) == [
        "Your card: Queen", "Public card: Queen", "Pot: 6", "First round: Raise, Call", "Second round: none",
        "You are player 0 of 2.",
    ]  # fmt: skip


def test_liars_dice_by_hand():
    """Chance outcomes 1 and 4 are dice 2 and 5; bids 8 and 9 are 2-3 and 2-4."""
    state = after("liars_dice", 1, 4, 8, 9)
    assert known(state) == ["Your dice: 2", "Bids so far: 2-3, 2-4", "You are player 0 of 2."]


def test_boards_are_shown_and_menu_has_legal_moves():
    prompt = prompt_of(after("tic_tac_toe", 4, 0), ANSWER)
    assert "o..\n.x.\n...\nYou are player 0 of 2.\n" in prompt.text
    assert prompt.text.endswith("Legal moves: x(0,1), x(0,2), x(1,0), x(1,2), x(2,0), x(2,1), x(2,2)\n<move>\n")
    assert "5bbbb\n" in prompt_of(after("breakthrough(rows=5,columns=4)"), ANSWER).text


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "goofspiel(num_cards=3,imp_info=True)"])
def test_histories_of_information_state_share_prompt(game):
    texts = {}
    waiting = [first_state(open_text_game(game))]
    while waiting:
        state = waiting.pop()
        if state.is_terminal():
            continue
        if not state.is_chance_node():
            texts.setdefault((state.current_player(), text_of(state)), set()).add(prompt_of(state, ANSWER).text)
        moves = [action for action, _ in state.chance_outcomes()] if state.is_chance_node() else state.legal_actions()
        waiting += [state.child(action) for action in moves]
    assert {len(found) for found in texts.values()} == {1}
    tree = game_tree(game, {})
    assert len(texts) == len(tree.names)


@pytest.mark.parametrize("game", [*VIEWS, "dark_hex(board_size=2)", "pig", "matrix_rps", "oh_hell"])
def test_every_decision_of_random_game_has_prompt(game):
    state = past_chance(first_state(open_text_game(game)), 1)
    for move in range(60):
        if state.is_terminal():
            break
        prompt = prompt_of(state, ANSWER)
        assert prompt.text.endswith("\n<move>\n")
        assert f"You are player {state.current_player()} of " in prompt.text
        assert prompt.seat == state.current_player()
        state = past_chance(state.child(random_option(state, move).value), move)
