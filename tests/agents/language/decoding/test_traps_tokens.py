"""Traps 6, 8 and 21: token ids shared by sampler and trainer, room for the longest answer, prefix cache hits."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.endpoint.answer import ServerAnswer
from sparring.agents.language.endpoint.request import Spelling, Writer
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.toys import bytes_tokenizer, llama, menu_of, random_choices, word_tokenizer


@contextmanager
def reading(model):
    """Record the token ids that the model embeds in the block, in order."""
    seen = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: seen.extend(given[0].flatten().tolist())
    )
    try:
        yield seen
    finally:
        hook.remove()


def deciding(count):
    asked = [pair for pair in random_choices() if any(len(menu) > 1 for menu in pair[1].options)]
    return [Prompt(*asked[place], seed=place) for place in np.linspace(0, len(asked) - 1, count).astype(int).tolist()]


def test_trap_6_model_learns_from_sampled_token_ids():
    """The model gets the same ids, prompt and answer up to the last choice, when sampling and when learning."""
    model = llama(bytes_tokenizer(), max_position_embeddings=2048)
    player = TransformersBackend(model, bytes_tokenizer(), constraint=Constraint(bytes_tokenizer(), DIPLOMACY_TEXT))
    for request in deciding(24):
        with reading(model) as sampled:
            (decision,) = player.decide([request])
        with reading(model) as trained, torch.no_grad():
            score(model, collate([decision]))
        last = int(np.flatnonzero(decision.allowed_counts > 1)[-1])
        assert trained == sampled == [*decision.prompt_ids.tolist(), *decision.token_ids[:last].tolist()]


@cache
def constraint_of(tokenizer):
    return Constraint(tokenizer(), DIPLOMACY_TEXT)


def longest(tokenizer, choices):
    """Return the tokens of the longest legal answer with its closing, by walking the automaton."""
    automaton = constraint_of(tokenizer).compile([choices])

    @cache
    def rest(start, count):
        edges = range(start, start + count)
        return max((1 + rest(int(automaton.start[edge]), int(automaton.count[edge])) for edge in edges), default=0)

    return rest(*automaton.begin[0].tolist())


def asked_of(structured, tokenizer, choices):
    """Return the requests of one decision to a server that writes the longest line of each choice, or nothing."""
    questions = []

    def put(question):
        questions.append(question)
        return ServerAnswer(max(question.structured.get("choice", [""]), key=len), "stop")

    Writer(structured, Spelling(tokenizer(), DIPLOMACY_TEXT)).write([1, 2, 3], choices, 0, put)
    return questions


def some_decisions():
    """Return movements, retreats and winters, including the longest."""
    asked = sorted((choices for _, choices in random_choices() if choices.lines), key=lambda choices: choices.lines)
    winters = [choices for choices in asked if choices.winter]
    return [*asked[:: len(asked) // 10], asked[-1], *winters[:: len(winters) // 5], winters[-1]]


def test_trap_8_token_limit_fits_longest_answer():
    """A lower limit would turn A BER - KIE into the legal A BER - K. One more token is for the end."""
    closing = len(constraint_of(bytes_tokenizer).lines.closing)
    for choices in some_decisions():
        (question,) = asked_of("tokens", bytes_tokenizer, choices)
        assert question.max_tokens > longest(bytes_tokenizer, choices) - closing
        for line in asked_of("choice", bytes_tokenizer, choices):
            spelled = [len(bytes_tokenizer()(text)["input_ids"]) for text in line.structured["choice"]]
            assert line.max_tokens > max(spelled)


@pytest.mark.parametrize("groups", [1, 4])
def test_trap_21_prefix_cache_finds_all_shared_tokens(groups):
    """Positions share 60 tokens, powers 40 more, and each is asked three times: each part is read once."""
    asked, powers, samples = menu_of([["A PAR H", "F PAR H"]], 1, 0), 7, 3
    words = [" ".join(str((place * step) % 59) for place in range(length)) for step, length in ((1, 60), (3, 40))]
    prompts = [
        f"{words[0]} {board} {words[1]} {power}\n<orders>\n" for board in range(groups) for power in range(powers)
    ]
    requests = [Prompt(prompt, asked, seed) for prompt in prompts for seed in range(samples)]
    player = TransformersBackend(
        llama(word_tokenizer()),
        word_tokenizer(),
        constraint=Constraint(word_tokenizer(), DIPLOMACY_TEXT),
        batch_size=len(requests),
    )
    player.decide(requests)
    texts = [tuple(word_tokenizer()(prompt)["input_ids"]) for prompt in prompts]
    read = {text[:size] for text in texts for size in range(1, len(text) + 1)}
    analytic = 1 - len(read) / (samples * sum(map(len, texts)))
    assert player.counts.metrics()["cache/hit_rate"] == pytest.approx(analytic, rel=0.05)
    assert analytic > 0.9
