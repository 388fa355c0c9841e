"""Exact probabilities of the options of a line, compared with scores of whole answers."""

from dataclasses import replace

import numpy as np
import pytest

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.toys import by_kind, gpt2, llama, random_choices, word_tokenizer

TEXT = "Year 1 2 3\nYou are 4\n<orders>\n"


def toy(*, temperature=0.7, batch_size=128, build=llama):
    tokenizer = word_tokenizer()
    return TransformersBackend(
        build(tokenizer, seed=3),
        tokenizer,
        constraint=Constraint(tokenizer, DIPLOMACY_TEXT),
        temperature=temperature,
        batch_size=batch_size,
    )


def asked(choices):
    return Prompt(TEXT, choices, 5)


def movement(lines):
    return next(choices for _, choices in random_choices() if not choices.winter and choices.lines == lines)


def log_probabilities(backend, decision, choices, answers):
    """Return log-probabilities of whole answers after the prompt, by the scores used in training."""
    spelled = []
    for options in answers:
        text = "".join(f"{option.text}\n" for option in options)
        ids = backend._tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = np.array([*ids, *backend.constraint.lines.closing.tolist()], dtype=np.int32)
        steps = backend.constraint.replay(choices, tokens.tolist())
        parts = {name: getattr(steps, name) for name in ("token_ids", "logprobs", "allowed_ids", "allowed_counts")}
        spelled.append(replace(decision, chosen=tuple(options), **parts))
    scores = score(backend._model, collate(spelled))
    found = np.zeros(len(spelled))
    np.add.at(found, scores.sample.numpy(), scores.logp.detach().double().numpy())
    return found


@pytest.mark.parametrize("build", [llama, gpt2])
def test_last_line_options_match_whole_answer_probabilities(build):
    backend, choices = toy(build=build), movement(2)
    (decision,) = backend.decide([asked(choices)])
    *_, last = backend.odds(asked(choices), decision)
    answers = [(decision.chosen[0], option) for option in last.options]
    logs = log_probabilities(backend, decision, choices, answers)
    assert last.probabilities == pytest.approx(np.exp(logs) / np.exp(logs).sum(), abs=1e-5)


@pytest.mark.parametrize("choices", [movement(4), by_kind(1, lines=2)[0], by_kind(-1)[0]], ids=["S", "build", "lose"])
def test_line_probabilities_multiply_to_answer_probability(choices):
    backend = toy(batch_size=5)
    (decision,) = backend.decide([asked(choices)])
    lines = backend.odds(asked(choices), decision)
    assert [line.chosen for line in lines] == list(decision.chosen)
    assert np.log([line.of_chosen for line in lines]).sum() == pytest.approx(decision.logprobs.sum(), abs=1e-4)
    last = -1
    for number, line in enumerate(lines):
        assert set(line.options) == set(choices.menu(number, last))
        assert line.probabilities.sum() == pytest.approx(1.0)
        assert (np.diff(line.probabilities) <= 0).all()
        last = line.chosen.slot


def test_temperature_zero_uses_odds_at_temperature_one():
    (greedy, plain), choices = [toy(temperature=value) for value in (0.0, 1.0)], movement(3)
    (decision,) = greedy.decide([asked(choices)])
    for one, other in zip(greedy.odds(asked(choices), decision), plain.odds(asked(choices), decision), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities)
    assert greedy.odds(asked(replace(choices, lines=0, options=(), provinces=())), decision) == []
