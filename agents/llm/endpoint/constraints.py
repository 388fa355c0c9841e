"""What keeps a server's answers legal: `structured_outputs`, as vLLM calls it, for the lines of a decision.

A choice and a regex are about text: their mask lets through every spelling of a line in tokens, also those that no
tokenizer writes. A grammar of token ids is about tokens: each state of our automaton is a rule and each of its edges an
alternative, so the server's mask is the very one that training uses. It is written as llguidance reads it, where
`<[7]>` is token 7. None of them has the closing tokens, since these are no decision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparring.agents.llm.decoding.automaton import Automaton
from sparring.envs.text import Menu, Option

FOR_GUIDANCE = "%llguidance {}"
"""Only llguidance takes this line, so vLLM, if it may choose, gives the grammar to it: xgrammar 0.2.8 reads token ids,
too, but then lets through wrong ones at 1 in 70 tokens."""


def line_choice(menu: Sequence[Option]) -> dict[str, list[str]]:
    """One line: any of these with its line end, so that no option is another's beginning."""
    return {"choice": [f"{option.text}\n" for option in menu]}


def decision_regex(choices: Menu) -> dict[str, str]:
    """All lines of a menu of independent ones. Where a line depends on those before, no short regex says so."""
    lines = ("|".join(_literal(option.text) for option in choices.menu(line)) for line in range(choices.lines))
    return {"regex": "".join(f"({line})\\n" for line in lines)}


def decision_grammar(automaton: Automaton, closing: int) -> dict[str, str]:
    """Every path of an automaton of one decision but for its last `closing` tokens."""
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
    """One alternative: an edge, those after it that are the only ones, and the state they lead to, if not the end."""
    tokens = []
    while True:
        tokens.append(f"<[{automaton.token[edge]}]>")
        state, count = int(automaton.start[edge]), int(automaton.count[edge])
        if state >= end or count != 1:
            return " ".join([*tokens, *([f"s{state}"] if state < end else [])]), (state, count)
        edge = state


def _literal(text: str) -> str:
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)
