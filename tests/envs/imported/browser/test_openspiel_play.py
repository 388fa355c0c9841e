"""OpenSpiel games for people: information on the page, and the page in a browser."""

import pyspiel
import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.game import load
from sparring.envs.imported.browser.spiel_table import SpielTable
from sparring.eval import play
from sparring.eval.options import parse_known
from tests.configs import messages
from tests.envs.imported.browser.pages import act, hosted, last_game, talk
from tests.eval.browser.browser import browser, needs_chromium


def table_of(game, opponent="openspiel:uniform", seat=0):
    return SpielTable(pyspiel.load_game(game), opponent, seat, seed=3)


def test_hidden_cards_are_revealed_only_at_end():
    """Kuhn poker: until the end the page shows OpenSpiel's text for this seat only."""
    table = table_of("kuhn_poker")
    told = talk(table, act("Bet"))
    first, last = told[0], last_game(told)
    state = pyspiel.load_game("kuhn_poker").new_initial_state()
    for one in table.played[:2]:
        state.apply_action(next(a for a in state.legal_actions() if state.action_to_string(-1, a) == one.action))
    assert (first["shown"], first["remembered"]) == (state.observation_string(0), state.information_state_string(0))
    assert (first["played"], first["told"], last["told"]) == ([], False, True)
    assert [name for _, name in first["legal"]] == ["Pass", "Bet"]
    assert [who for who, _ in last["played"]] == ["chance", "chance", "you", "seat 1"]
    assert sum(last["returns"]) == 0
    assert last["legal"] == []


def test_perfect_information_game_shows_all_and_player_answers():
    """Tic-tac-toe against a search: it takes the free corner row, or blocks one, by its own choice."""
    told = talk(table_of("tic_tac_toe", "openspiel:mcts:50"), act("x(0,0)"))
    game = last_game(told)
    assert [who for who, _ in game["played"]] == ["you", "seat 1"]
    assert game["shown"].startswith("x")
    assert game["shown"].count("o") == 1


def test_other_seat_is_played_after_new_game():
    told = talk(table_of("tic_tac_toe"), act("x(1,1)"), {"kind": "begin", "seat": 1})
    game = last_game(told)
    assert (game["seat"], [who for who, _ in game["played"]]) == (1, ["seat 0"])


def test_simultaneous_moves_are_hidden_until_both_are_chosen():
    told = talk(table_of("matrix_rps", seat=1), act("Rock"))
    assert told[-1]["returns"]
    assert all(one["played"] == [] for one in told[:-1] if not one["returns"])


class Failing:
    """Fails once, then passes."""

    def __init__(self, _game):
        self.failed = False

    def action_probabilities(self, state, _player):
        if not self.failed:
            self.failed = True
            raise RuntimeError("no engine")
        return {state.legal_actions()[0]: 1.0}


def test_failing_player_is_asked_again():
    table = table_of("kuhn_poker", f"{__name__}:Failing")
    told = talk(table, act("Bet"))
    assert "no engine" in told[-1]["problem"]
    told = talk(table, {"kind": "retry"})
    assert (told[-1]["problem"], len(told[-1]["returns"])) == ("", 2)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "not understood"),
        ({"kind": "act"}, "message.action is missing"),
        ({"kind": "act", "action": 7}, "action 7 is not legal now"),
        ({"kind": "act", "action": -1}, "message.action"),
        ({"kind": "act", "action": 0, "count": 9}, "the game has changed"),
        ({"kind": "begin", "seat": 2}, "message.seat 2: must be below 2"),
    ],
)
def test_wrong_message_is_answered_with_note(message, words):
    told = talk(table_of("kuhn_poker"), message)
    assert words in next(one["text"] for one in reversed(told) if one["kind"] == "note")


def test_replay_shows_nothing_before_end():
    table = table_of("kuhn_poker")
    talk(table)
    assert "Deal" not in table.replay()
    talk(table, act("Pass"), lambda game: act("Pass")(game) if game["legal"] else {"kind": "retry"})
    assert "Deal" in table.replay()


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_play"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    check_row(play.main, row)


def test_openspiel_player_selects_openspiel():
    assert parse_known(play.PlayChoice, ["--opponent", "openspiel:mcts:9"]).game is load(play.COMMANDS["openspiel"])


def test_unknown_player_ends_command():
    with pytest.raises(InputError, match="name one of them"):
        table_of("kuhn_poker", "nobody")


@needs_chromium
def test_game_is_played_with_keys_and_buttons(tmp_path):
    with hosted(table_of("tic_tac_toe", "openspiel:mcts:20")) as address, browser(tmp_path / "profile") as page:
        page.open(address, width=400, height=800)
        page.until("window.play && play.state()?.legal.length === 9")
        page.key("1")
        page.until("play.state().legal.length === 7")
        assert page.value("document.querySelector('#played .you').textContent") == "you: x(0,0)"
        page.mouse("#actions button")
        page.until("play.state().count === 4 || play.state().returns.length")
        assert page.value("document.documentElement.scrollWidth") <= 400
        page.mouse("#begin")
        page.until("play.state().count === 0")
        assert page.console == []
