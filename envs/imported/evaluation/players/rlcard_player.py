"""rlcard rule models as players of OpenSpiel games. They decide from the cards and the legal actions alone.

    rlcard:leduc-holdem-rule-v1   rlcard:leduc-holdem-rule-v2   rlcard:limit-holdem-rule-v1

rlcard writes a card as suit and rank, and a call of 0 is a check. It lets a player fold when nothing is bet; OpenSpiel
does not, so this becomes a check. Blinds, antes and the first player of a round follow OpenSpiel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from sparring.configs.core.errors import InputError, choose
from sparring.envs.imported.match import raised
from sparring.envs.imported.states import text_of

FOLD, CALL, RAISE = 0, 1, 2
ACTIONS = {"fold": FOLD, "call": CALL, "check": CALL, "raise": RAISE}
PART = re.compile(r"\[(\w+): ?([^]]*)\]")
LIMIT = {"betting": "limit", "numSuits": 4, "numRanks": 13, "numHoleCards": 2, "numRounds": 4}
"""Options of universal_poker that make it limit hold'em."""
Cards = Callable[[Mapping[str, str]], dict[str, Any]]
"""Function from the parts of OpenSpiel's text to a rule's input."""


def leduc_cards(parts: Mapping[str, str]) -> dict[str, Any]:
    """Return the cards in Leduc poker; OpenSpiel's card 2 r + s has rank r and suit s."""
    numbers = [int(text) for text in (parts["Private"], parts.get("Public", "")) if text.isdecimal()]
    cards = [f"{'SH'[number % 2]}{'JQK'[number // 2]}" for number in numbers]
    return {"hand": cards[0], "public_card": cards[1] if cards[1:] else None}


def holdem_cards(parts: Mapping[str, str]) -> dict[str, Any]:
    """Return the cards in hold'em."""
    own, public = (
        [f"{suit.upper()}{rank}" for rank, suit in re.findall("(.)(.)", parts[key])] for key in ("Private", "Public")
    )
    return {"hand": own, "public_cards": public}


RULES: dict[str, tuple[str, str, Cards]] = {
    "leduc-holdem-rule-v1": ("leduc_poker", "leducholdem_rule_models:LeducHoldemRuleAgentV1", leduc_cards),
    "leduc-holdem-rule-v2": ("leduc_poker", "leducholdem_rule_models:LeducHoldemRuleAgentV2", leduc_cards),
    "limit-holdem-rule-v1": ("universal_poker", "limitholdem_rule_models:LimitholdemRuleAgentV1", holdem_cards),
}
"""For each model its game, its rule and its cards."""
REFUSED = {
    "leduc-holdem-cfr": "is a pickle, which could run code; openspiel:cfr:N plays the same algorithm",
    "uno-rule-v1": "plays UNO, which OpenSpiel does not have; write it as module:Name for a game of your own",
    "doudizhu-rule-v1": "reads rlcard's own combinations of cards; write it as module:Name for dou_dizhu",
    "gin-rummy-novice-rule": "reads rlcard's own state of gin rummy; write it as module:Name for gin_rummy",
}
"""The other models that rlcard registers, with the reason each is unsupported."""


def read_rule(text: str, game: Any) -> Callable[[Sequence[Any]], list[dict[int, float]]]:
    """Return an rlcard rule model in its game. Raises `InputError` for other models and games, or without rlcard."""
    name = choose("model of rlcard", text.partition(":")[2], (*RULES, *REFUSED))
    if name in REFUSED:
        raise InputError(f"{text}: {REFUSED[name]}")
    wanted, place, cards = RULES[name]
    if game.get_type().short_name != wanted or (wanted == "universal_poker" and not is_limit(game)):
        words = "limit hold'em in universal_poker" if wanted == "universal_poker" else wanted
        raise InputError(f"{text}: plays {words}, but the game is {game}; set --id to such a game")
    rule = rule_of(text, place)

    def action(state: Any) -> int:
        legal = state.legal_actions()
        names = ["raise"] * (RAISE in legal) + ["call" if FOLD in legal else "check", "fold"]
        chosen = ACTIONS[rule.step({"raw_legal_actions": names, "raw_obs": cards(dict(PART.findall(text_of(state))))})]
        return chosen if chosen in legal else CALL

    return lambda states: [{action(state): 1.0} for state in states]


def is_limit(game: Any) -> bool:
    """Return whether a game of universal_poker is limit hold'em with the usual cards."""
    options = game.get_parameters()
    return all(options.get(key) == value for key, value in LIMIT.items())


def rule_of(text: str, place: str) -> Any:
    """Return the rule at `module:Class` of rlcard's models. Raises `InputError` without the package."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(f"rlcard.models.{module}"), name)()
    except ImportError as error:
        raise InputError(f"{text}: needs the package rlcard ({raised(error)}): pip install rlcard") from error
