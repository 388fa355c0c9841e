"""OpenSpiel games by action names: rejected games, menus, and chance draws."""

import pytest

pytest.importorskip("pyspiel")

from sparring.configs.core.errors import ConfigError
from sparring.envs.imported.states import first_state
from sparring.envs.openspiel_text import decisions
from sparring.envs.openspiel_text.decisions import action_menu, open_text_game, past_chance


class NamedBy:
    """A state whose action names come from a function."""

    def __init__(self, name):
        self.action_to_string = lambda player, action: name(action)

    def current_player(self):
        return 1

    def legal_actions(self):
        return [3, 5]


def unnamed(action):
    raise NotImplementedError("no names here")


def test_options_are_names_of_legal_actions_with_numbers():
    menu = action_menu(NamedBy({3: " Call  it ", 5: "Fold"}.get))
    assert [(option.text, option.value) for option in menu.options] == [("Call it", 3), ("Fold", 5)]
    assert (menu.lines, menu.longest, menu.name) == (1, 7, "player 1")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (unnamed, "action 3 has no name (NotImplementedError: no names here)"),
        (lambda action: " \n", "action 3 has no name"),
        (lambda action: "Go", "two legal actions are called 'Go'"),
    ],
)
def test_duplicate_action_names_are_rejected(name, problem):
    with pytest.raises(ValueError, match="^" + problem.replace("(", r"\(").replace(")", r"\)") + "$"):
        action_menu(NamedBy(name))


def test_game_without_action_names_is_rejected_in_one_line(monkeypatch):
    def no_menu(state):
        raise ValueError("action 3 has no name")

    monkeypatch.setattr(decisions, "action_menu", no_menu)
    with pytest.raises(ConfigError) as refused:
        open_text_game("kuhn_poker")
    assert str(refused.value) == ("env.id=kuhn_poker: action 3 has no name; choose a game whose actions have names")


@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("kuhn_pokr", "is not a game of OpenSpiel; did you mean 'kuhn_poker'?"),
        ("mfg_garnet", "is a mean field game, without matches; choose a game of players"),
        ("crazy_eights", "has no text of what a player knows; choose a game with information states"),
        (
            "tarok",
            "draws chance in the middle of a turn, which no seed repeats; choose a game whose chance has "
            "turns of its own",
        ),
        ("json:kuhn_poker", "runs the code of the module json; choose a game of OpenSpiel's own"),
        ("negotiation", "draws chance in the middle of a turn"),
    ],
)
def test_games_unsuited_to_text_are_rejected_in_one_line(game, message):
    with pytest.raises(ConfigError) as refused:
        open_text_game(game)
    assert str(refused.value).startswith(f"env.id={game}: {message}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("game", ["kuhn_poker", "kuhn_poker(players=3)", "goofspiel(num_cards=3)", "matrix_rps", "pig"])
def test_games_with_any_seats_and_simultaneous_moves_are_played(game):
    opened = open_text_game(game)
    state = past_chance(first_state(opened), 0)
    seats = []
    for _ in range(opened.num_players()):
        seats.append(state.current_player())
        state = past_chance(state.child(action_menu(state).options[-1].value), 0)
    assert len(seats) == opened.num_players()


def test_chance_repeats_by_seed():
    start = first_state(open_text_game("leduc_poker"))
    deals = {seed: str(past_chance(start, seed)) for seed in range(30)}
    assert all(str(past_chance(start, seed)) == deal for seed, deal in deals.items())
    assert len(set(deals.values())) > 10
