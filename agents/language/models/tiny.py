"""Our own small models, in the shape of Llama, which all tools for adapters, servers and formats support.

Their tokenizer is the game's: every word, name and number of its texts is one token, with the space before it. Text is
cut into words, numbers and single signs, each with at most one space before it; a line end is separate. A piece in the
vocabulary is one token; any other is its UTF-8 bytes, so no text is lost or unknown. No token crosses a cut, so lines
encoded separately give the tokens of the whole text, as exact constraints require. The vocabulary is the words of the
game's corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sparring.envs.game import game_named, load
from sparring.envs.text import TextGame

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
WORD = r" ?[A-Z]{3}/[A-Z]{2}| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]|\s"
LONGEST = 8192
"""Positions; the longest compact prompt has a few hundred tokens, one with all legal orders several thousand."""


INIT_STD = 0.02
"""Standard deviation of the first weights."""


def train_tokenizer(texts: Iterable[str], *, tags: Sequence[str], pieces: str = WORD) -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token per piece of `texts`, byte and tag; equal texts give equal bytes."""
    # Text is cut into pieces, and every byte mapped to one sign.
    parts = pre_tokenizers.Split(Regex(pieces), "isolated")
    cuts = pre_tokenizers.Sequence([parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    words = sorted({piece for text in texts for piece, _ in cuts.pre_tokenize_str(text)})
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = dict.fromkeys([PAD, BEGIN, END, *tags, *signs, *words])
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    # No merges: only whole words are found.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = cuts, decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (PAD, BEGIN, END)])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in tags])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )


@cache
def game_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of our own models of the game `name`, trained on the game's corpus."""
    game: TextGame = load(game_named(name).text_game)
    tags = (game.format.opening.strip(), game.format.closing) if game.format else ()
    return train_tokenizer(game.corpus(), tags=tags, pieces=game.pieces or WORD)


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
