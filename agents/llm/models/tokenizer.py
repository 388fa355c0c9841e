"""A tokenizer for Diplomacy: every location, power, verb and number is one token, with the space before it.

Text is cut into words, numbers and single signs, each with at most one space before it; a line end stands alone. What
is in the vocabulary is one token, any other text its UTF-8 bytes, so that nothing is lost and nothing unknown. No token
crosses a cut, so lines encoded one by one are the lines of the whole, as exact constraints need. The vocabulary is the
words of the domain, and those of prompts and answers in games between bots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sparring.agents.llm.cloning.bot_games import BotGames
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.choices import WAIVE
from sparring.envs.diplomacy.orders.completion import CLOSING, OPENING, write
from sparring.envs.diplomacy.orders.notation import LETTERS
from sparring.envs.diplomacy.text.prompts import PromptRules, render

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
TAGS = (OPENING.strip(), CLOSING)
WORD = r" ?[A-Z]{3}/[A-Z]{2}| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]|\s"
VERBS = ("H", "-", "VIA", "S", "C", "R", "D", "B")
NUMBERS = (*range(100), *range(1901, 1941))
CORPUS_PHASES, CORPUS_SEED = 40, 1901


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that has every word of `texts` as one token, beside bytes and tags; equal texts give equal bytes."""
    cuts = _cuts()
    words = sorted({piece for text in texts for piece, _ in cuts.pre_tokenize_str(text)})
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = dict.fromkeys([PAD, BEGIN, END, *TAGS, *signs, *words])
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    # No merges: a word is found whole or not at all.
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = cuts, decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (PAD, BEGIN, END)])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )


@cache
def diplomacy_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of our own models, trained on `corpus`."""
    return train_tokenizer(corpus())


def corpus() -> Iterator[str]:
    """The domain's words, with and without a space before them, then prompts of all kinds and answers of games."""
    words = [*standard_board().locations, *POWERS, *LETTERS, *VERBS, WAIVE, *map(str, NUMBERS)]
    yield from (f"{space}{word}" for word in words for space in ("", " "))
    games = BotGames(1, bot="dumbbot", last_year=1910, seed=CORPUS_SEED)
    kinds = list(kinds_of_prompts())
    for _ in range(CORPUS_PHASES):
        for decision in (decision for decisions in games.next() for decision in decisions):
            power, asked = decision.choices.power, decision.choices
            yield from (render(decision.row, power, asked, rules, last_year=1910) for rules in kinds)
            yield write(decision.chosen)
    games.close()


def kinds_of_prompts() -> Iterator[PromptRules]:
    """Compact and full prompts with switches on and off; not that of legal orders, whose words answers have."""
    for compact in (True, False):
        plain = PromptRules(compact=compact)
        crowded = replace(plain, show_map_windows=True, show_action_counts=True)
        yield from (plain, crowded, replace(crowded, show_board_context=False))


def _cuts() -> pre_tokenizers.PreTokenizer:
    """Cuts text into words, and writes each in an alphabet that has a sign for every byte."""
    words = pre_tokenizers.Split(Regex(WORD), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
