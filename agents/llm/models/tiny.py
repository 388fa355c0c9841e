"""Our own small models, in the shape of Llama, which all tools for adapters, servers and formats support."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LONGEST = 8192
"""Positions; the longest compact prompt has a few hundred tokens, one with all legal orders several thousand."""


INIT_STD = 0.02
"""Standard deviation of the first weights."""


def tiny_config(
    tokenizer: PreTrainedTokenizerFast, *, hidden: int, layers: int, heads: int, init_std: float = INIT_STD
) -> LlamaConfig:
    """Return Llama's shape for a vocabulary: `hidden` wide, feed-forward 8/3 of it, embeddings tied to the output."""
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=-(-8 * hidden // 24) * 8,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        initializer_range=init_std,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def build_tiny(
    tokenizer: PreTrainedTokenizerFast, *, hidden: int, layers: int, heads: int, seed: int, init_std: float = INIT_STD
) -> Any:
    """Build a `LlamaForCausalLM` on the CPU in float32; its random weights depend only on `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = tiny_config(tokenizer, hidden=hidden, layers=layers, heads=heads, init_std=init_std)
        return LlamaForCausalLM(config)
