"""Decisions in OpenSpiel games by action name: supported games, menus, and chance.

One player decides at a time; players of a simultaneous move choose one after the other, without seeing the others'
choices (`envs.imported.states`). States are never modified: `child` returns a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparring.configs.core.errors import ConfigError
from sparring.envs.imported.config import module_of_game
from sparring.envs.imported.match import raised
from sparring.envs.imported.openspiel import open_game
from sparring.envs.imported.states import first_state, has_text, is_open
from sparring.envs.text import Option
from sparring.envs.text_moves import ActionMenu

LOOKS, DEPTH = 20, 100
"""Random games, and decisions of each, in which the names of actions are looked at before any is played."""


def open_text_game(game_id: str, kwargs: Mapping[str, Any] | None = None) -> Any:
    """Return a `pyspiel.Game` that can be played in text. Raises `ConfigError`, in one line, for another."""
    refused = f"env.id={game_id}"
    if module := module_of_game("openspiel", game_id):
        raise ConfigError(f"{refused}: runs the code of the module {module}; choose one of OpenSpiel's own games")
    game = open_game(game_id, kwargs or {})
    kind = game.get_type()
    if kind.chance_mode == type(kind.chance_mode).SAMPLED_STOCHASTIC:
        raise ConfigError(
            f"{refused}: draws chance in the middle of a turn, which no seed repeats; choose a game whose chance has "
            "turns of its own"
        )
    if not (has_text(game) or is_open(game)):
        raise ConfigError(f"{refused}: has no information-state text; choose a game with information states")
    try:
        _look_at_names(game)
    except ValueError as error:
        raise ConfigError(f"{refused}: {error}; choose a game whose actions have names") from error
    return game


def action_menu(state: Any, name: str = "") -> ActionMenu:
    """Return the legal actions of the player who decides; raises `ValueError` for actions without names of their own.

    Values of the options are OpenSpiel's numbers of the actions.
    """
    player = state.current_player()
    options = []
    for action in state.legal_actions():
        try:
            text = " ".join(str(state.action_to_string(player, action)).split())
        except Exception as error:  # any exception of a Python game
            raise ValueError(f"action {action} has no name ({raised(error)})") from error
        if not text:
            raise ValueError(f"action {action} has no name")
        options.append(Option(text, action, 0))
    if len(texts := {option.text for option in options}) < len(options):
        twice = next(text for text in sorted(texts) if [option.text for option in options].count(text) > 1)
        raise ValueError(f"two legal actions are called {twice!r}")
    return ActionMenu(tuple(options), name or f"player {player}")


def past_chance(state: Any, seed: int) -> Any:
    """Return the next state in which a player decides, or the end; chance is drawn from `seed`."""
    if not state.is_chance_node():
        return state
    random = np.random.default_rng(seed)
    while state.is_chance_node():
        actions, probabilities = zip(*state.chance_outcomes(), strict=True)
        number = int(np.searchsorted(np.cumsum(probabilities), random.random(), side="right"))
        state = state.child(actions[min(number, len(actions) - 1)])
    return state


def random_option(state: Any, seed: int) -> Option:
    """Return a legal action, each equally likely."""
    options = action_menu(state).options
    return options[int(np.random.default_rng(seed).integers(len(options)))]


def drawn_option(state: Any, choices: Sequence[tuple[int, float]], seed: int) -> Option:
    """Sample a legal action from `choices`, pairs of actions and probabilities."""
    random = np.random.default_rng(seed)
    number = int(np.searchsorted(np.cumsum([share for _, share in choices]), random.random(), side="right"))
    action = choices[min(number, len(choices) - 1)][0]
    return next(option for option in action_menu(state).options if option.value == action)


def _look_at_names(game: Any) -> None:
    """Raise `ValueError` for an action without a name, in some random games."""
    random = np.random.default_rng(0)
    for number in range(LOOKS):
        state = past_chance(first_state(game), number)
        for _ in range(DEPTH):
            if state.is_terminal():
                break
            options = action_menu(state).options
            state = past_chance(state.child(options[int(random.integers(len(options)))].value), number)
