"""Prompts of decisions: short rules, the player's knowledge, and its legal actions.

`VIEWS` has games with custom descriptions. All others show OpenSpiel's information-state text, or the whole position in
games of perfect information. A prompt is a function of the information state alone. Players are counted from 0, as in
OpenSpiel. Suits of Leduc poker are left out, since they never matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sparring.envs.imported.states import has_text, is_open, whole
from sparring.envs.openspiel_text.config import MENU, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.decisions import action_menu
from sparring.envs.text import FreeText, Prompt
from sparring.envs.text_moves import OPENING, THINK, ActionMenu

RANKS = ("Jack", "Queen", "King")
View = Callable[[str, Any, Mapping[str, Any]], str]
"""Function from information state, position and parameters to the rules and the player's knowledge."""


def prompt_text(state: Any, menu: ActionMenu, form: str = MENU) -> str:
    """Return the prompt of the player who decides in `state`, which ends where its answer begins."""
    position, player = whole(state)
    game = position.get_game()
    kind = game.get_type()
    known = state.information_state_string(player) if has_text(game) else str(position)
    view = VIEWS.get(kind.short_name)
    parameters = {**game.get_parameters(), "players": game.num_players()}
    told = view(known, position, parameters) if view else _plain(kind.long_name, known, position, game)
    moves = ", ".join(option.text for option in menu.options)
    head = f"{told}\nYou are player {player} of {game.num_players()}.\nLegal moves: {moves}\n"
    return head + (OPENING if form == MENU else THINK)


def prompt_of(state: Any, answer: OpenSpielAnswerConfig, **fields: Any) -> Prompt:
    """Return the prompt of the player who decides; its `position` is the state. `fields` are others of `Prompt`."""
    menu = action_menu(state)
    choices = menu if answer.form == MENU else FreeText(answer.max_tokens, menu.name)
    seat = state.current_player()
    return Prompt(prompt_text(state, menu, answer.form), choices, position=state, seat=seat, **fields)


def _plain(title: str, known: str, position: Any, game: Any) -> str:
    seen = str(position) if is_open(game) else known
    return f"{title}.\nYou know:\n{seen.strip()}"


def _kuhn(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    match = re.fullmatch(r"(\d+?)([pb]*)", known)
    assert match is not None
    count = parameters["players"] + 1
    cards = RANKS if count == len(RANKS) else [str(card) for card in range(count)]
    moves = ", ".join({"p": "Pass", "b": "Bet"}[letter] for letter in match[2])
    return (
        f"Kuhn poker. The cards are {', '.join(cards)}, from low to high. Each player pays 1 chip and has one card. "
        "Bet puts in 1 chip more. After a bet, Bet calls it and Pass folds. The highest card wins the pot.\n"
        f"Your card: {cards[int(match[1])]}\nMoves so far: {moves or 'none'}"
    )


def _leduc(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    facts = dict(re.findall(r"\[(\w+):? ([^\]]*)\]", known))
    count = parameters["players"] + 1
    ranks = RANKS if count == len(RANKS) else [str(rank) for rank in range(count)]
    suits = 1 if parameters.get("suit_isomorphism") else 2
    cards = {name: ranks[int(facts[name]) // suits] for name in ("Private", "Public") if name in facts}
    names = ("Fold", "Call", "Raise")
    first, second = (
        ", ".join(names[int(action)] for action in facts.get(f"Round{number}", "").split()) for number in (1, 2)
    )
    return (
        f"Leduc poker. There are two cards each of {', '.join(ranks)}, from low to high. Each player pays 1 chip and "
        "has one card. A public card follows the first round of bets. A raise is 2 chips in the first round and 4 in "
        "the second, with two raises at most. A pair with the public card wins, else the highest card.\n"
        f"Your card: {cards['Private']}\nPublic card: {cards.get('Public', 'none yet')}\nPot: {facts['Pot']}\n"
        f"First round: {first or 'none'}\nSecond round: {second or 'none'}"
    )


def _liars_dice(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    dice, *bids = known.split()
    sides = parameters["dice_sides"]
    return (
        f"Liar's dice. Each player rolls {parameters['numdice']} dice of {sides} sides and sees only its own. A bid "
        f"2-3 says that at least 2 of all dice show 3; a {sides} counts as any number. Each bid is higher than the "
        "last. Liar doubts the last bid: who is wrong loses.\n"
        f"Your dice: {' '.join(dice)}\nBids so far: {', '.join(bids) or 'none'}"
    )


def _tic_tac_toe(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    return (
        "Tic-tac-toe. Player 0 is x, player 1 is o. Three in a line win. A move x(1,2) is in row 1, column 2, counted "
        f"from 0 at the top left.\n{str(position).strip()}"
    )


def _connect_four(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    return (
        f"Connect four. Player 0 is x, player 1 is o. {parameters['x_in_row']} in a line win. A move x2 drops a piece "
        f"into column 2, counted from 0 at the left.\n{str(position).strip()}"
    )


def _breakthrough(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    return (
        "Breakthrough. Player 0 has the pieces b and moves down, player 1 has w and moves up. A piece moves one step "
        "straight or diagonally forward, and captures diagonally. Who reaches the last row wins.\n"
        f"{str(position).strip()}"
    )


def _goofspiel(known: str, position: Any, parameters: Mapping[str, Any]) -> str:
    lines = [line.strip() for line in known.splitlines() if line.strip() and not line.startswith("Terminal")]
    return (
        f"Goofspiel with {parameters['num_cards']} cards. In each round all players bid one card of their hand for the "
        "last point card, at the same time. The highest bid wins its points; a tie wins nothing.\n" + "\n".join(lines)
    )


VIEWS: dict[str, View] = {
    "kuhn_poker": _kuhn,
    "leduc_poker": _leduc,
    "liars_dice": _liars_dice,
    "tic_tac_toe": _tic_tac_toe,
    "connect_four": _connect_four,
    "breakthrough": _breakthrough,
    "goofspiel": _goofspiel,
}
"""Games with custom descriptions, by short name."""
