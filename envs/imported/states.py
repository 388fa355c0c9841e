"""OpenSpiel states with one deciding player at a time, for searches that copy them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.imported.rows import SeatRows


class TurnState:
    """A state in which the players of a simultaneous move choose one after the other, each without seeing the others.

    `whole` is the state before the move, `chosen` the actions of the move so far.
    """

    def __init__(self, whole: Any, chosen: tuple[int, ...] = ()) -> None:
        self.whole, self.chosen = whole, chosen
        self.is_terminal, self.returns = whole.is_terminal, whole.returns
        self.is_chance_node, self.chance_outcomes = whole.is_chance_node, whole.chance_outcomes
        self.action_to_string = whole.action_to_string

    def information_state_string(self, player: int) -> str:
        """Return the information state of `player`: OpenSpiel's text, or all moves in a game of perfect information."""
        described = has_text(self.whole.get_game())
        return str(self.whole.information_state_string(player) if described else self.whole.history_str())

    def __str__(self) -> str:
        """Return OpenSpiel's text of the state before the move."""
        return str(self.whole)

    def current_player(self) -> int:
        """Return who decides."""
        return len(self.chosen) if self.whole.is_simultaneous_node() else int(self.whole.current_player())

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the deciding player."""
        return self.whole.legal_actions(self.current_player()) or [0]

    def child(self, action: int) -> TurnState:
        """Return a copy of the state after an action."""
        if not self.whole.is_simultaneous_node():
            return TurnState(self.whole.child(action))
        chosen = (*self.chosen, action)
        if len(chosen) < self.whole.num_players():
            return TurnState(self.whole, chosen)
        after = self.whole.clone()
        after.apply_actions(list(chosen))
        return TurnState(after)


def check_copies(game: Any, label: str = "") -> None:
    """Raise `InputError`, with `label` first, for a game that attacks on copied states do not support.

    It has one player, or hidden information without texts of information states.
    """
    begin = f"{label}: {game}" if label else str(game)
    if game.num_players() < 2:
        raise InputError(f"{begin}: the game has one player; exploiting needs a game with two or more")
    if not has_text(game) and not is_open(game):
        raise InputError(
            f"{begin}: attacks on copied states need the text of information states, which the game does not provide"
        )


def has_text(game: Any) -> bool:
    """Return whether a game of OpenSpiel writes information states as text."""
    return bool(game.get_type().provides_information_state_string)


def is_open(game: Any) -> bool:
    """Return whether an OpenSpiel game has perfect information and one deciding player at a time."""
    kind = game.get_type()
    return bool(kind.information.name == "PERFECT_INFORMATION" and kind.dynamics.name == "SEQUENTIAL")


def passive_actions(game: Any) -> Callable[[Any], tuple[int, int]] | None:
    """Return the actions for fold and for check or call in a poker state, -1 without a fold; None in other games."""
    return POKERS.get(game.get_type().short_name)


def _kuhn_actions(state: Any) -> tuple[int, int]:
    """Return them in Kuhn poker: a pass is a check before a bet and a fold after it."""
    passed, bet = 0, 1
    return (passed, bet) if bet in state.history()[state.num_players() :] else (-1, passed)


def _numbered_actions(state: Any) -> tuple[int, int]:
    """Return them in pokers that number them 0 and 1."""
    return (0 if 0 in state.legal_actions() else -1), 1


POKERS = {"kuhn_poker": _kuhn_actions, "leduc_poker": _numbered_actions, "universal_poker": _numbered_actions}


def first_state(game: Any) -> Any:
    """Return the first state of a game of OpenSpiel; one player decides at a time."""
    state = game.new_initial_state()
    simultaneous = game.get_type().dynamics.name == "SIMULTANEOUS"
    return TurnState(state) if simultaneous or not has_text(game) else state


def text_of(state: Any) -> str:
    """Return the information state of the player who decides."""
    return str(state.information_state_string(state.current_player()))


def whole(state: Any) -> tuple[Any, int]:
    """Return OpenSpiel's state, and the player who decides there."""
    return getattr(state, "whole", state), state.current_player()


def own_path(state: Any) -> list[tuple[tuple[int, str], Any, int]]:
    """Return the decisions of the player who decides, on the way and now: its information state, state and action.

    The last action is -1.
    """
    played, seat = whole(state)
    walked, path = first_state(played.get_game()), []
    actions = [step.action for step in played.full_history()] + [*getattr(state, "chosen", ())]
    for action in actions:
        if not walked.is_chance_node() and walked.current_player() == seat:
            path.append(((seat, text_of(walked)), walked, action))
        walked = walked.child(action)
    return [*path, ((seat, text_of(state)), state, -1)]


def rows_of(match: Any, encoder: SeatRows, states: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return observations float32 [B, D] and legal actions bool [B, K] of the deciding players in `states` [B]."""
    rows, legal = [], np.zeros((len(states), match.game.num_distinct_actions()), dtype=bool)
    for number, state in enumerate(states):
        player = state.current_player()
        match.state = getattr(state, "whole", state)
        row = encoder.blank[player]
        encoder.write(player, match.observe(player), row)
        encoder.write_mask(player, match.mask(player), row)
        rows.append(row)
        legal[number, state.legal_actions()] = True
    return np.stack(rows), legal
