"""Scores depend on weights and text only, not on padding, batch or dropout."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.agents.language.backend import Decision
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score, segment_log_softmax
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.decoding.unmasked import unmasked_score
from tests.agents.language.toys import gpt2, llama, random_choices, word_tokenizer


@pytest.fixture(scope="module")
def constraint():
    return Constraint(word_tokenizer(), DIPLOMACY_TEXT)


def decided(model, constraint, number=20, temperature=1.0):
    """Return decisions of different lengths."""
    asked = random_choices()
    picked = [asked[place] for place in np.linspace(0, len(asked) - 1, number).astype(int)]
    player = TransformersBackend(model, word_tokenizer(), constraint=constraint, temperature=temperature)
    return player.decide([Prompt(*pair, seed) for seed, pair in enumerate(picked)])


def text(decision):
    return torch.tensor(np.concatenate([decision.prompt_ids, decision.token_ids])[None], dtype=torch.long)


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("share", [False, True])
def test_batch_scores_equal_single_scores(make, share, constraint):
    model = make(word_tokenizer())
    decisions = [decision for decision in decided(model, constraint) if (decision.allowed_counts > 1).any()]
    lengths = {len(decision.prompt_ids) for decision in decisions}
    assert max(lengths) - min(lengths) >= 6
    with torch.no_grad():
        together = score(model, collate(decisions, share=share))
        alone = torch.cat([score(model, collate([decision])).logp for decision in decisions])
    assert (together.logp - alone).abs().max() <= 1e-5


@pytest.mark.parametrize("make", [llama, gpt2])
def test_scores_equal_model_logits_over_allowed_ids(make, constraint):
    """Reference: full logits of one text at a time, -inf where not allowed, log-softmax."""
    model = make(word_tokenizer())
    for number, decision in enumerate(decided(model, constraint, temperature=0.7)):
        batch = collate([decision])
        with torch.no_grad():
            scores = score(model, batch)
            logits = model(text(decision)).logits[0].double() / 0.7
        cuts = np.split(decision.allowed_ids, np.cumsum(decision.allowed_counts)[:-1])
        expected, entropies = [], []
        for step, allowed in enumerate(cuts):
            if len(allowed) > 1:
                masked = torch.full((logits.shape[1],), -torch.inf, dtype=torch.double)
                masked[allowed] = logits[len(decision.prompt_ids) + step - 1][allowed]
                logp = torch.log_softmax(masked, 0)
                expected.append(logp[decision.token_ids[step]])
                entropies.append(-(logp[allowed].exp() * logp[allowed]).sum())
        assert len(expected) == len(scores.logp), number
        if expected:
            assert torch.allclose(scores.logp.double(), torch.stack(expected), atol=1e-5)
            assert torch.allclose(scores.entropy.double(), torch.stack(entropies), atol=1e-5)


def test_two_passes_are_bit_equal_in_training_mode(constraint):
    model = llama(word_tokenizer(), attention_dropout=0.4)
    batch = collate(decided(model, constraint))
    model.train()
    first, again = score(model, batch), score(model, batch)
    assert torch.equal(first.logps, again.logps)
    assert model.training


def test_forced_steps_are_not_scored(constraint):
    model = llama(word_tokenizer())
    decisions = decided(model, constraint)
    batch = collate(decisions)
    assert len(batch.position) == sum(int((decision.allowed_counts > 1).sum()) for decision in decisions)
    assert torch.bincount(batch.row).min() > 1


def test_decisions_without_choice_are_skipped_in_order(constraint):
    model = llama(word_tokenizer())
    real = next(decision for decision in decided(model, constraint) if (decision.allowed_counts > 1).sum() > 2)
    batch = collate([Decision(()), real, Decision(())])
    assert len(batch.levels[-1].counts) == 1
    assert set(batch.sample.tolist()) == {1}
    nothing = score(model, collate([Decision(())]))
    assert len(nothing.logp) == len(nothing.logps) == 0
    assert len(score(model, collate([])).logp) == 0


def test_probabilities_differ_without_mask(constraint):
    """The known mistake: over the whole vocabulary, legal tokens share probability with illegal ones."""
    model = llama(word_tokenizer())
    decisions = decided(model, constraint)
    batch = collate(decisions)
    with torch.no_grad():
        right, wrong = score(model, batch), unmasked_score(model, batch)
    assert (wrong.logp < right.logp).all()
    assert (right.logp - wrong.logp).mean() > 0.5
    sums = torch.zeros(len(wrong.logp)).index_add(0, wrong.row, wrong.logps.exp())
    assert (sums < 1).all()
    first = decisions[int(batch.sample[0])]
    with torch.no_grad():
        full = torch.log_softmax(model(text(first)).logits[0], -1)
    place = len(first.prompt_ids) + int(batch.step[0]) - 1
    assert wrong.logp[0] == pytest.approx(float(full[place, batch.allowed[batch.chosen[0]]]), abs=1e-4)


def test_gradients_match_plain_computation(constraint):
    """Gathering hidden states and head rows gives the gradient that full logits give."""
    model, other = (llama(word_tokenizer()) for _ in range(2))
    decision = max(decided(model, constraint), key=lambda decision: len(decision.token_ids))
    batch = collate([decision])
    score(model, batch).logp.sum().backward()
    logits = other(text(decision)).logits[0]
    total, places = torch.zeros(()), len(decision.prompt_ids) + batch.step - 1
    for n, (place, chosen) in enumerate(zip(places, batch.chosen, strict=True)):
        total = (
            total + torch.log_softmax(logits[place][batch.allowed[batch.row == n]], 0)[chosen - (batch.row < n).sum()]
        )
    total.backward()
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, atol=1e-4), name


def forks(model, constraint):
    """Return seven powers on two boards after a shared prefix, some asked twice, as in self-play."""
    asked = [pair for pair in random_choices() if pair[1].lines][:14]
    words = "Year " + " ".join(str(number % 60) for number in range(40))
    boards = [f"{words} {board} {words}" for board in (1, 2)]
    requests = [Prompt(f"{boards[n % 2]}\n{p}", c, seed) for n, (p, c) in enumerate(asked) for seed in range(1 + n % 3)]
    return TransformersBackend(model, word_tokenizer(), constraint=constraint).decide(requests)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_prefix_sharing_keeps_scores_and_gradients(make, constraint):
    """The same batch, each text alone and with boards read once: one gradient from less than half the tokens."""
    models = [make(word_tokenizer()) for _ in range(2)]
    decisions, scores, tokens = forks(models[0], constraint), [], []
    for model, share in zip(models, (False, True), strict=True):
        batch = collate(decisions, share=share)
        scores.append(score(model, batch))
        weights = torch.arange(len(batch.position)) % 5 - 2.0
        (weights * scores[-1].logp).sum().backward()
        tokens.append(sum(len(level.tokens) for level in batch.levels))
        assert len(batch.levels) == (3 if share else 1)
    assert tokens[1] < 0.4 * tokens[0]
    assert torch.allclose(scores[0].logps, scores[1].logps, atol=1e-5)
    assert torch.allclose(scores[0].entropy, scores[1].entropy, atol=1e-5)
    for (name, one), two in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, atol=1e-4 * float(one.grad.abs().max()) + 1e-6), name


def test_equal_texts_are_read_once_with_full_gradient(constraint):
    models = [llama(word_tokenizer()) for _ in range(2)]
    chosen = [decision for decision in decided(models[0], constraint) if (decision.allowed_counts > 1).any()][:4]
    decisions = [chosen[place] for place in (0, 1, 0, 2, 3, 0, 2)]
    batch, apart = collate(decisions), collate(decisions, share=False)
    assert (len(batch.levels[-1].counts), len(apart.levels[-1].counts)) == (4, 7)
    scores = [score(*pair) for pair in zip(models, (batch, apart), strict=True)]
    assert torch.allclose(scores[0].logps, scores[1].logps, atol=1e-5)
    for part in scores:
        (part.logp * (torch.arange(len(part.logp)) % 5 - 1.0)).sum().backward()
    for (name, one), two in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, atol=1e-4 * float(one.grad.abs().max()) + 1e-6), name


def test_decision_without_prompt_is_rejected(constraint):
    model = llama(word_tokenizer())
    decision = max(decided(model, constraint), key=lambda decision: len(decision.token_ids))
    with pytest.raises(ValueError, match="decision 0 has no prompt"):
        collate([dataclasses.replace(decision, prompt_ids=decision.prompt_ids[:0])])


def test_disallowed_token_is_detected(constraint):
    model = llama(word_tokenizer())
    decision = copy.deepcopy(max(decided(model, constraint), key=lambda decision: len(decision.token_ids)))
    step = int(np.flatnonzero(decision.allowed_counts > 1)[0])
    decision.token_ids[step] = 0
    with pytest.raises(ValueError, match="illegal token"):
        collate([decision])


@given(st.lists(st.lists(st.floats(-80, 80), min_size=1, max_size=6), min_size=1, max_size=8))
def test_segments_have_independent_softmaxes(rows):
    logits = torch.tensor([value for row in rows for value in row], dtype=torch.double)
    row = torch.tensor([number for number, row in enumerate(rows) for _ in row])
    expected = torch.cat([torch.log_softmax(torch.tensor(values, dtype=torch.double), 0) for values in rows])
    assert torch.allclose(segment_log_softmax(logits, row), expected, atol=1e-9)
