"""Free-text answers are read by their last line: legal actions in any form, and three kinds of others."""

import pytest

from sparring.envs.openspiel_text.answers import MOVES
from sparring.envs.text import Option
from sparring.envs.text_moves import CUT, ILLEGAL, LEGAL, MISSING, ActionMenu, read_free_text, read_move

MENU = ActionMenu(tuple(Option(name, number, 0) for number, name in enumerate(("Pass", "Bet", "x(0,1)", "[P0]Bid: 3"))))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Bet", "Bet"), ("bet.", "Bet"), ("**Bet**", "Bet"), ("I may Pass or not.\n\nBet\n\n", "Bet"),
        ("`x(0,1)`", "x(0,1)"),
        ("Move: Bet", "Bet"), ("My final answer is: **Pass**", "Pass"), ("Action: [P0]Bid: 3", "[P0]Bid: 3"),
        ("<think>Bet wins.\nBet</think>\nPass", "Pass"), ("Bet</move>", "Bet"), ("Pass\r\nBet\r\n", "Bet"),
    ],
)  # fmt: skip
def test_last_line_names_action(text, name):
    read = read_free_text(text, MENU)
    assert (read.kind, read.option and read.option.text) == (LEGAL, name)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Fold", ILLEGAL), ("Bet\nor not", ILLEGAL), ("Pass Bet", ILLEGAL), ("I bet", ILLEGAL), ("Be", ILLEGAL),
        ("", MISSING),
        (" \n\n", MISSING), ("**", MISSING), ("<think>Bet", CUT), ("<think>Bet</think>", MISSING),
    ],
)  # fmt: skip
def test_other_answers_are_illegal_missing_or_truncated(text, kind):
    read = read_free_text(text, MENU)
    assert (read.kind, read.option) == (kind, None)


def test_text_at_limit_is_truncated_whatever_its_last_line():
    assert read_free_text("Bet", MENU, cut=True).kind == CUT


def test_case_distinguishes_actions_only_if_needed():
    menu = ActionMenu((Option("a", 0, 0), Option("A", 1, 0)))
    assert [read_free_text(text, menu).option.value for text in ("a", "A")] == [0, 1]


def test_menu_answers_are_read_up_to_tag():
    assert read_move("Bet\n</move> and more", MENU).chosen == (MENU.options[1],)
    missing = read_move("Fold\n</move>", MENU)
    assert (missing.complete, missing.chosen, missing.orders_extracted) == (False, MENU.options[:1], 0)
    assert MOVES.write(MENU.options[:1]) == "Pass\n</move>"
