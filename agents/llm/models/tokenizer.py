"""A tokenizer for a game: every word, name and number of its texts is one token, with the space before it.

Text is cut into words, numbers and single signs, each with at most one space before it; a line end is separate. A piece
in the vocabulary is one token; any other is its UTF-8 bytes, so no text is lost or unknown. No token crosses a cut, so
lines encoded separately give the tokens of the whole text, as exact constraints require. The vocabulary is the words of
the game's corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sparring.envs.game import game_named, load
from sparring.envs.text import TextGame

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
WORD = r" ?[A-Z]{3}/[A-Z]{2}| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]|\s"


def train_tokenizer(texts: Iterable[str], *, tags: Sequence[str], pieces: str = WORD) -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token per piece of `texts`, byte and tag; equal texts give equal bytes."""
    cuts = _cuts(pieces)
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


def _cuts(pieces: str) -> pre_tokenizers.PreTokenizer:
    """Return the pre-tokenizer, which cuts text into pieces and maps every byte to one sign."""
    words = pre_tokenizers.Split(Regex(pieces), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
