"""The constraint compared with llguidance: the same tokens are allowed at every step."""

import re

import numpy as np
import pytest

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.models.tiny import game_tokenizer
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.decoding.test_constraint import sequences, walk
from tests.agents.language.toys import by_kind, random_choices, word_tokenizer

llguidance = pytest.importorskip("llguidance", reason="pip install llguidance")


class Words:
    """Adapt the word tokenizer to llguidance: the bytes of every token, and one token per byte."""

    def __init__(self, tokenizer):
        self.eos_token_id, self.bos_token_id, self.special_token_ids = tokenizer.eos_token_id, None, [0, 1, 2]
        names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self.tokens = [b"\xff" + name.encode() if n < 3 else name.encode() for n, name in enumerate(names)]
        self.numbers = {token: number for number, token in enumerate(self.tokens)}
        self.tokens += [bytes([byte]) for byte in range(256)]

    def __call__(self, text):
        found = []
        for word in re.findall(rb" ?[^ \n]+|\n| ", text):
            known = self.numbers.get(word)
            found += [len(self.numbers) + byte for byte in word] if known is None else [known]
        return found


def engine(tokenizer, asked):
    """Return a matcher for the lines of all legal answers: a list in winter, else line after line."""
    if asked.winter:
        pattern = f"({'|'.join(re.escape(text) for text in sequences(asked))})"
    else:
        lines = ["|".join(re.escape(option.text) for option in options) for options in asked.options]
        pattern = "".join(f"({line})\n" for line in lines)
    grammar = llguidance.LLMatcher.grammar_from_regex(pattern)
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def allowed_by(matcher):
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def some_choices():
    """Return movements and retreats, builds, and disbands of real positions."""
    small = [asked for asked in by_kind(1) + by_kind(-1) if len(sequences(asked)) <= 500]
    return [asked for _, asked in random_choices() if asked.lines and not asked.winter][::25] + small[:10]


def words():
    return word_tokenizer(), llguidance.LLTokenizer(llguidance.TokenizerWrapper(Words(word_tokenizer())))


def ours():
    from llguidance.hf import from_tokenizer

    return game_tokenizer("diplomacy"), from_tokenizer(game_tokenizer("diplomacy"))


@pytest.mark.parametrize("make", [words, ours])
def test_allowed_tokens_match_llguidance_except_short_spellings(make):
    """The engine also allows shorter spellings: what only it allows is a prefix of one of our tokens."""
    (tokenizer, theirs), rng = make(), np.random.default_rng(1)
    constraint, compared = Constraint(tokenizer, DIPLOMACY_TEXT), 0
    for asked in some_choices():
        steps, matcher = walk(constraint.compile([asked]), [0], rng).steps()[0], engine(theirs, asked)
        cuts = np.split(steps.allowed_ids, np.cumsum(steps.allowed_counts)[:-1])
        closing = len(constraint.lines.closing)
        for token, allowed in zip(steps.token_ids.tolist()[:-closing], cuts[:-closing], strict=True):
            mine, found = set(allowed.tolist()), allowed_by(matcher)
            assert mine <= found
            texts = [theirs.decode_bytes([other]) for other in mine]
            for other in found - mine:
                begin = theirs.decode_bytes([other])
                assert any(text.startswith(begin) for text in texts), (begin, texts)
            assert matcher.consume_token(token)
            compared += len(mine) > 1
        assert matcher.is_accepting()
        assert allowed_by(matcher) == {tokenizer.eos_token_id}
    assert compared > 100
