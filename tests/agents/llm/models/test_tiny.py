"""Our small models are Llama's shape, and their first weights depend on the seed alone."""

import pytest
import torch

pytest.importorskip("transformers")

from sparring.agents.llm.models.tiny import build_tiny, game_tokenizer, tiny_config

SMALL = {"hidden": 32, "layers": 2, "heads": 2}


def test_the_seed_decides_the_weights_and_nothing_else_is_drawn():
    before = torch.get_rng_state()
    one, same, other = (build_tiny(game_tokenizer("diplomacy"), **SMALL, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [model.model.layers[0].mlp.up_proj.weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_shape_has_every_part_that_adapters_name():
    model = build_tiny(game_tokenizer("diplomacy"), **SMALL, seed=0)
    names = {name.rsplit(".", 2)[-2] for name, _ in model.named_parameters()}
    assert {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"} <= names
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize(("hidden", "layers", "heads", "millions"), [(128, 4, 4, 0.9), (256, 4, 4, 3.4)])
def test_sizes(hidden, layers, heads, millions):
    config = tiny_config(game_tokenizer("diplomacy"), hidden=hidden, layers=layers, heads=heads)
    per_layer = 4 * hidden**2 + 3 * hidden * config.intermediate_size
    total = layers * per_layer + config.vocab_size * hidden
    assert config.intermediate_size % 8 == 0
    assert total / 1e6 == pytest.approx(millions, rel=0.05)
