"""Constraints on a server's answers: vLLM's `structured_outputs` for the lines of a decision.

A choice and a regex constrain text: their mask allows every tokenization of a line, also those that no tokenizer
produces. A grammar of token ids constrains tokens: each state of our automaton is a rule and each of its edges an
alternative, so the server's mask equals that of training. It is in the syntax of llguidance, where `<[7]>` is token 7.
None of them includes the closing tokens, since these are not part of the decision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparring.agents.llm.decoding.automaton import Automaton
from sparring.envs.text import Menu, Option

FOR_GUIDANCE = "%llguidance {}"
"""Only llguidance accepts this line, so vLLM selects it if the backend is automatic. xgrammar 0.2.8 reads token ids
too, but allows wrong ones at 1 in 70 tokens."""


def line_choice(menu: Sequence[Option]) -> dict[str, list[str]]:
    """Return the choice of one line; line ends are included, so that no option is a prefix of another."""
    return {"choice": [f"{option.text}\n" for option in menu]}


def decision_regex(choices: Menu) -> dict[str, str]:
    """Return the regex of a menu of independent lines; dependent lines have no short regex."""
    lines = ("|".join(_literal(option.text) for option in choices.menu(line)) for line in range(choices.lines))
    return {"regex": "".join(f"({line})\\n" for line in lines)}


def decision_grammar(automaton: Automaton, closing: int) -> dict[str, str]:
    """Return the grammar of an automaton of one decision, without its last `closing` tokens."""
    end = len(automaton.token) - closing
    begin = int(automaton.begin[0, 0])
    rules, waiting = {}, [(begin, int(automaton.begin[0, 1]))]
    while waiting:
        state, count = waiting.pop()
        if state not in rules:
            paths = [_path(automaton, edge, end) for edge in range(state, state + count)]
            rules[state] = f"s{state}: " + " | ".join(text for text, _ in paths)
            waiting += [goal for _, goal in paths if goal[0] < end]
    return {"grammar": "\n".join([FOR_GUIDANCE, f"start: s{begin}", *rules.values()])}


def _path(automaton: Automaton, edge: int, end: int) -> tuple[str, tuple[int, int]]:
    """Return one alternative: an edge with the forced edges after it, and the state they lead to, if not the end."""
    tokens = []
    while True:
        tokens.append(f"<[{automaton.token[edge]}]>")
        state, count = int(automaton.start[edge]), int(automaton.count[edge])
        if state >= end or count != 1:
            return " ".join([*tokens, *([f"s{state}"] if state < end else [])]), (state, count)
        edge = state


def _literal(text: str) -> str:
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)
