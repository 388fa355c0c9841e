"""A whole-word tokenizer, toy models, and choices from random games."""

from functools import cache

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders.choices import Choices as Asked
from sparring.envs.diplomacy.orders.choices import choices
from sparring.envs.diplomacy.prompts.requests import probes
from sparring.envs.text import Option

WORDS = Regex(r" ?[^ \n]+|\n")


@cache
def word_tokenizer():
    """Return a tokenizer with one token per word and preceding space or line end, and <pad> and <end>."""
    words = {word for line in probes() for word in pieces(line)} | {" " + word for word in ("A", "F", "WAIVE")}
    words |= {"A", "F", "\n", "<orders>", "</orders>", "Year", "You", "are"} | {f" {n}" for n in range(60)}
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<end>", "<unk>", *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(WORDS, "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", name_or_path="words"
    )


@cache
def bytes_tokenizer():
    """Return a tokenizer that encodes any text byte by byte, like large models do for unknown text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<end>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", name_or_path="bytes")


def pieces(line):
    return [" " + word if place else word for place, word in enumerate(line.split(" "))]


def llama(tokenizer, *, seed=0, layers=2, width=32, **options):
    torch.manual_seed(seed)
    sizes = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers}
    heads = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.3,
        "max_position_embeddings": 512,
    }
    config = LlamaConfig(vocab_size=len(tokenizer), **{**sizes, **heads, **options})
    return LlamaForCausalLM(config).eval()


def gpt2(tokenizer, *, seed=0):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=512, initializer_range=0.3
    )
    return GPT2LMHeadModel(config).eval()


@cache
def random_choices(games=6, last_year=1904, seed=1):
    """Return (prompt, choices) of every power in every phase of some random-bot games."""
    batch, found = DiplomacyBatch(games, last_year=last_year, threads=1), []
    step = 0
    while not bool(batch.done.all()):
        for game in range(games):
            row = {name: getattr(batch, name)[game].numpy().copy() for name in STATE}
            if not row["done"]:
                listed = batch.legal_orders(game)
                found += [(prompt(row, power), choices(row, listed, power)) for power in range(codes.NUM_POWERS)]
        batch.draw_orders(seed + step)
        batch.process()
        step += 1
    batch.close()
    return found


def prompt(row, power):
    """Return a stand-in: the year, a few numbers, and the line that starts an answer."""
    mine = [place for place in np.flatnonzero(codes.power_of(row["units"]) == power).tolist() if place < 60]
    words = " ".join(str(number) for number in [int(row["year"]) - 1900, power, *mine, *mine, *mine])
    return f"Year {words}\nYou are {power}\n<orders>\n"


def by_kind(winter, *, lines=1):
    """Return choices of random games: builds (1), disbands (-1) or neither (0), with a minimum number of lines."""
    return [asked for _, asked in random_choices() if asked.winter == winter and asked.lines >= lines]


def menu_of(kinds, lines, winter):
    """Return made-up choices from the texts of each slot's options."""
    options = tuple(tuple(Option(text, 1, slot) for text in texts) for slot, texts in enumerate(kinds))
    return Asked(0, tuple(range(len(kinds))), options, lines, winter)
