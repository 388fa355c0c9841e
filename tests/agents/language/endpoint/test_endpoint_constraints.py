"""Constraints sent to servers match exactly the legal answers, as text and as token ids."""

import itertools
import re

import llguidance
import numpy as np
import pytest

from sparring.agents.language.decoding.constraint import Constraint, Walks
from sparring.agents.language.endpoint.request import decision_grammar, decision_regex, line_choice
from sparring.envs.diplomacy.orders.choices import WAIVE
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.endpoint.loopback_model import byte_tokenizer, engine
from tests.agents.language.toys import by_kind, menu_of

SMALL = menu_of([["A PAR H", "A PAR - BUR", "A PAR - BUR VIA"], ["F BRE H", "F STP/SC - BOT"]], 2, 0)


def test_choice_is_menu_with_line_ends():
    builds = menu_of([["A BUD B"], ["A TRI B", "F TRI B"]], 2, 1)
    assert line_choice(builds.menu(0)) == {"choice": ["A BUD B\n", "A TRI B\n", "F TRI B\n", f"{WAIVE}\n"]}


def test_no_choice_is_prefix_of_another():
    """'A PAR - BUR' is a prefix of 'A PAR - BUR VIA'; with line ends it is not."""
    for asked in by_kind(0)[:100]:
        for line in range(asked.lines):
            (texts,) = line_choice(asked.menu(line)).values()
            assert not [pair for pair in itertools.permutations(texts, 2) if pair[1].startswith(pair[0])]


def test_regex_matches_exactly_legal_answers():
    """Python's regex engine tries all pairs of lines from a menu and some that are not on it."""
    pattern = re.compile(decision_regex(SMALL)["regex"])
    first = ["A PAR H", "A PAR - BUR", "A PAR - BUR VIA", "A PAR", "A PAR - BURX", ""]
    second = ["F BRE H", "F STP/SC - BOT", "F STPxSC - BOT", "A PAR H"]
    taken = {(a, b) for a in first for b in second if pattern.fullmatch(f"{a}\n{b}\n")}
    assert taken == set(itertools.product(first[:3], second[:2]))
    assert not pattern.fullmatch("A PAR H\n")
    assert not pattern.fullmatch("A PAR H\nF BRE H")
    assert not pattern.fullmatch("A PAR H\nF BRE H\n</orders>")


def test_regex_metacharacters_are_escaped():
    odd = menu_of([["F SPA(SC) - MAO", "A B.C+D*E?[F]{2}^$|\\"]], 1, 0)
    pattern = re.compile(decision_regex(odd)["regex"])
    assert all(pattern.fullmatch(f"{option.text}\n") for option in odd.menu(0))
    assert not pattern.fullmatch("F SPASC - MAO\n")


MANY_DISBANDS = menu_of([[f"A {name} D"] for name in ("BER", "BUD", "MUN", "PAR", "ROM", "TRI", "VIE", "WAR")], 5, -1)


def masks(asked, grammar, constraint, rng):
    """Walk a random legal answer: return (ids allowed by llguidance, ids allowed by the constraint) per token."""
    automaton = constraint.compile([asked])
    matcher = llguidance.LLMatcher(engine(byte_tokenizer()), llguidance.grammar_from("grammar", grammar))
    walks, row, found = Walks(automaton, [0]), np.zeros(1, dtype=np.int64), []
    for _ in range(10_000):
        edges, _ = walks.allowed(row)
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        found.append((np.flatnonzero(bits).tolist(), automaton.token[edges].tolist()))
        if matcher.is_accepting():
            return found
        edge = edges[rng.integers(len(edges))][None]
        walks.take(row, edge)
        assert matcher.consume_token(int(automaton.token[edge[0]]))
    raise AssertionError("the grammar never ends")


@pytest.mark.parametrize("winter", [0, 1, -1])
def test_grammar_masks_like_constraint(winter):
    """llguidance, which vLLM runs, against our automaton, at every token of random answers to real positions."""
    constraint, rng = Constraint(byte_tokenizer(), DIPLOMACY_TEXT), np.random.default_rng(winter + 1)
    closing, end = len(constraint.lines.closing), byte_tokenizer().eos_token_id
    asked = by_kind(winter)[:40] if winter >= 0 else [*by_kind(winter), MANY_DISBANDS] * 6
    decisions = 0
    for choices in asked:
        grammar = decision_grammar(constraint.compile([choices]), closing)["grammar"]
        *steps, (after, _) = masks(choices, grammar, constraint, rng)
        assert [shown for shown, _ in steps] == [allowed for _, allowed in steps]
        assert after == [end]
        decisions += sum(len(allowed) > 1 for _, allowed in steps)
    assert decisions >= 30


def test_grammar_has_rule_for_each_reachable_state():
    """'A BUD B', 'A TRI B', 'WAIVE' and a second line: by hand, the slot's rule follows the first line."""
    constraint = Constraint(byte_tokenizer(0), DIPLOMACY_TEXT)
    asked = menu_of([["A BUD B"], ["A TRI B"]], 2, 1)
    closing = len(constraint.lines.closing)
    lines = decision_grammar(constraint.compile([asked]), closing)["grammar"].splitlines()
    rules = dict(line.split(": ", 1) for line in lines[1:])
    assert lines[0] == "%llguidance {}"
    starts = rules[rules["start"]]
    assert starts.count("|") == 1  # 'A ...' or 'WAIVE'
    assert all(name in rules for rule in rules.values() for name in re.findall(r"\bs\d+\b", rule))
