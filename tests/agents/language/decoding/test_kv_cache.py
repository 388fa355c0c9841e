"""KV cache: chunked reading, dropping and repeating texts keep hidden states; unsupported models are rejected."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM

from sparring.agents.language.backend import ModelError
from sparring.agents.language.decoding.forward import Context, check_context, check_finite, check_head
from tests.agents.language.toys import gpt2, llama, word_tokenizer

MODELS = {"llama": llama(word_tokenizer()), "gpt2": gpt2(word_tokenizer())}


def alone(model, text):
    return model.base_model(torch.tensor([text])).last_hidden_state[0, -1]


@given(st.data(), st.sampled_from(sorted(MODELS)))
@settings(max_examples=15)
@torch.no_grad()
def test_chunked_reading_matches_reading_each_text_alone(data, name):
    """Chunks have different lengths, some are empty, and texts are repeated and dropped in between."""
    model, context, texts = MODELS[name], Context(MODELS[name], room=4), [[]]
    for turn in range(4):
        kind = data.draw(st.sampled_from(["select", "drop"] if turn else ["select"]))
        if kind == "select":
            order = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=5))
            context.select(np.array(order))
        else:
            keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
            keep[data.draw(st.integers(0, len(texts) - 1))] = True
            order = context.drop(keep).tolist()
            assert sorted(order) == np.flatnonzero(keep).tolist()
        texts = [texts[place] for place in order]
        least = 0 if turn else 1
        pieces = [data.draw(st.lists(st.integers(3, 150), min_size=least, max_size=4)) for _ in texts]
        pieces[0] = pieces[0] or [5]
        hidden = context.read(
            np.concatenate([np.array(piece, dtype=np.int64) for piece in pieces]),
            np.array([len(piece) for piece in pieces]),
        )
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
        assert context.lengths.tolist() == [len(text) for text in texts]
        for state, text, piece in zip(hidden, texts, pieces, strict=True):
            assert not piece or torch.allclose(state[-1], alone(model, text), atol=1e-4)


def test_sliding_window_is_rejected():
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = MistralForCausalLM(MistralConfig(vocab_size=50, sliding_window=8, **sizes, **heads))
    with pytest.raises(ModelError, match="MistralForCausalLM does not attend to the whole text"):
        check_context(model)


def test_column_positions_are_rejected():
    """This is the common mistake of left padding without position ids: here the model ignores them."""
    model = gpt2(word_tokenizer())
    read = model.transformer.forward
    model.transformer.forward = lambda *args, position_ids=None, **options: read(*args, **options)
    with pytest.raises(ModelError, match="ignores position ids"):
        check_context(model)


def test_model_without_kv_cache_is_rejected():
    """Mamba has a state instead of keys and values."""
    model = MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(ModelError, match="MambaForCausalLM does not attend to the whole text"):
        check_context(model)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("check", [check_head, check_context, check_finite])
def test_non_finite_weights_are_named(check, value):
    model = llama(word_tokenizer())
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 4] = value
    with pytest.raises(ModelError, match=r"not finite, such as model\.layers\.1\.mlp\.up_proj\.weight; restore"):
        check(model)


def test_overflow_is_not_blamed_on_weights():
    model = llama(word_tokenizer())
    with torch.no_grad():
        model.model.norm.weight.fill_(3e38)
    check_finite(model)
    with pytest.raises(ModelError, match="LlamaForCausalLM: computes values that are not finite from finite weights"):
        check_head(model)
