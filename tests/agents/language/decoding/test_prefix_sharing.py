"""Prefix levels reproduce the texts and share what powers and forks have in common."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparring.agents.language.decoding.forward import levels


def spelled(found):
    """Return the texts that levels represent."""
    whole = [np.zeros(0, dtype=np.int64)]
    for level in found:
        pieces = np.split(level.tokens, np.cumsum(level.counts)[:-1])
        whole = [np.append(whole[parent], piece) for parent, piece in zip(level.parent, pieces, strict=True)]
    return whole


def read(found):
    """Return the number of tokens read, including padding."""
    return sum(len(level.counts) * int(level.counts.max()) for level in found)


def arrays(texts):
    return [np.array(text, dtype=np.int64) for text in texts]


TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=12)


@given(TEXTS, st.integers(0, 2**31 - 1))
def test_levels_spell_texts_and_keep_required_suffix(texts, seed):
    texts = arrays(texts)
    rng = np.random.default_rng(seed)
    most = np.array([rng.integers(0, len(text)) for text in texts])
    found = levels(texts, most)
    assert [whole.tolist() for whole in spelled(found)] == [text.tolist() for text in texts]
    own = found[-1].counts
    assert (own >= np.array([len(text) for text in texts]) - most).all()
    assert read(found) <= len(texts) * max(map(len, texts))


def test_seven_powers_of_two_games_read_each_board_once():
    """Two boards of 100 and 90 tokens after 20 shared ones, then 5 per power: 20 + 80 + 70 + 14 x 5."""
    static, rng = list(range(20)), np.random.default_rng(1)
    boards = [[*static, 900, *rng.integers(0, 50, 79).tolist()], [*static, 901, *rng.integers(0, 50, 69).tolist()]]
    texts = arrays([[*board, 1000 + power, 1, 2, 3, 4] for power in range(7) for board in boards])
    found = levels(texts, np.array([len(text) - 1 for text in texts]))
    assert [len(level.tokens) for level in found] == [20, 80 + 70, 14 * 5]


def test_forks_with_equal_prompts_keep_separate_answers():
    prompt = list(range(100))
    texts = arrays([[*prompt, answer, 7] for answer in (3, 4, 3, 5)])
    found = levels(texts, np.full(4, 99))
    assert [len(level.tokens) for level in found] == [99, 4 * 3]
