"""Free-text sampling against transformers: nucleus, greedy decoding, log-probabilities, draw frequencies."""

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, TopPLogitsWarper

from sparring.agents.language.backend import ModelError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.sampling import draw_tokens, in_nucleus
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import FreeText, Prompt
from tests.agents.language.toys import llama, random_choices, word_tokenizer

TEXTS = ["Year 1", "Year 2 of the war", "1 2 3 4 5", "Year"]


def backend(temperature=1.0, **options):
    tokenizer = word_tokenizer()
    model = llama(tokenizer, initializer_range=0.3)
    return TransformersBackend(model, tokenizer, constraint=None, temperature=temperature, **options)


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.999])
def test_nucleus_matches_transformers(top_p):
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(3), dtype=torch.double) * 3
    logs = logits.log_softmax(1)
    kept = TopPLogitsWarper(top_p)(None, logs) > -torch.inf
    assert np.array_equal(in_nucleus(logs.numpy(), np.full(50, top_p)), kept.numpy())


def test_rows_have_own_nucleus_and_temperature():
    logs = np.log(np.tile([0.4, 0.3, 0.2, 0.1], (4, 1)))
    inside = in_nucleus(logs, np.array([1.0, 0.65, 0.3, 0.95]))
    assert inside.sum(1).tolist() == [4, 2, 1, 4]
    seeds = np.arange(4000, dtype=np.uint64)
    top_p, temperature = np.tile([1.0, 0.65], 2000), np.repeat([1.0, 0.5], 2000)
    chosen, found = draw_tokens(np.tile(logs[0], (4000, 1)), seeds, 7, temperature, top_p)
    hot, cold = np.exp(logs[0]), np.exp(2 * logs[0]) / np.exp(2 * logs[0]).sum()
    for begin, expected in ((0, hot), (2000, cold)):
        shares = np.bincount(chosen[begin : begin + 2000 : 2], minlength=4) / 1000
        assert np.abs(shares - expected).max() < 0.05
    assert set(chosen[1::2].tolist()) == {0, 1}
    assert np.allclose(found[:2000], np.log(hot)[chosen[:2000]])  # of the whole vocabulary, nucleus or not
    assert np.allclose(found[2000:], np.log(cold)[chosen[2000:]])


def test_greedy_text_matches_generate():
    player = backend(0.0)
    decisions = player.decide([Prompt(text, FreeText(12, temperature=0.7)) for text in TEXTS])
    end = player._tokenizer.eos_token_id
    options = GenerationConfig(max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=end)
    for decision in decisions:
        ids = torch.tensor(decision.prompt_ids[None], dtype=torch.long)
        expected = player._model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=options)
        answer = expected[0, ids.shape[1] :].tolist()
        assert decision.token_ids[: len(answer)].tolist() == answer
        assert not decision.exact


@pytest.mark.parametrize("batch_size", [1, 3])
def test_text_is_scored_at_its_sampling_temperature(batch_size):
    player = backend(0.9, batch_size=batch_size)
    menus = [FreeText(9), FreeText(5, temperature=0.5), FreeText(12, temperature=1.5, top_p=0.8), FreeText(1)]
    prompts = [Prompt(text, menu, seed) for seed in range(6) for text, menu in zip(TEXTS, menus, strict=True)]
    decisions = player.decide(prompts)
    assert {decision.temperature for decision in decisions} == {0.9, 0.5, 1.5}
    batch = collate(decisions)
    assert batch.vocabulary == len(player._tokenizer)
    with torch.no_grad():
        scores = score(player._model, batch)
    assert torch.allclose(scores.logp, batch.sampled_logp, atol=1e-5)
    for number, decision in enumerate(decisions):
        text = np.concatenate([decision.prompt_ids, decision.token_ids]).astype(np.int64)
        with torch.no_grad():
            logits = player._model(torch.from_numpy(text[None])).logits[0, :, : batch.vocabulary]
        logs = (logits / decision.temperature).log_softmax(1)
        steps = np.flatnonzero(decision.allowed_counts > 1)
        before = logs[len(decision.prompt_ids) - 1 + steps]
        own = scores.sample == number
        drawn = before[torch.arange(len(steps)), torch.from_numpy(decision.token_ids[steps]).long()]
        assert torch.allclose(scores.logp[own], drawn, atol=1e-5)
        assert torch.allclose(scores.entropy[own], -(before.exp() * before).sum(1), atol=1e-5)
        assert torch.allclose(scores.logps[own[scores.row]].view(len(steps), -1), before, atol=1e-5)


def test_mixed_batch_is_rejected():
    tokenizer = word_tokenizer()
    player = TransformersBackend(llama(tokenizer), tokenizer, constraint=Constraint(tokenizer, DIPLOMACY_TEXT))
    text, menu = max(random_choices(), key=lambda pair: pair[1].lines)
    decisions = player.decide([Prompt(text, menu, 1), Prompt(text, FreeText(4), 2)])
    assert decisions[0].chosen
    assert not decisions[1].chosen
    with pytest.raises(ValueError, match="in one batch: score them in two"):
        collate(decisions)


def test_free_text_backend_rejects_prompts_with_menus():
    text, menu = max(random_choices(), key=lambda pair: pair[1].lines)
    with pytest.raises(ModelError, match="is configured for free text"):
        backend().decide([Prompt(text, menu, 1)])
