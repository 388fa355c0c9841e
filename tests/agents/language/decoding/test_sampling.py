"""Sampled decisions are legal, reproducible per request, correctly distributed, and fresh after an update."""

import numpy as np
import pytest
import torch

from sparring.agents.language.backend import PromptError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.toys import by_kind, gpt2, llama, menu_of, random_choices, word_tokenizer


@pytest.fixture(scope="module")
def constraint():
    return Constraint(word_tokenizer(), DIPLOMACY_TEXT)


@pytest.fixture(scope="module")
def model():
    return llama(word_tokenizer())


def backend(model, constraint, **options):
    return TransformersBackend(model, word_tokenizer(), constraint=constraint, **options)


def requests(number, *, seed=0, lines=0):
    asked = [(prompt, choices) for prompt, choices in random_choices() if choices.lines >= lines]
    pick = np.random.default_rng(seed).choice(len(asked), number, replace=number > len(asked))
    return [Prompt(*asked[place], seed=seed * 1000 + n) for n, place in enumerate(pick.tolist())]


def test_decisions_are_legal_and_complete(model, constraint):
    asked = requests(300)
    for request, decision in zip(asked, backend(model, constraint).decide(asked), strict=True):
        last = -1
        assert len(decision.chosen) == request.menu.lines
        for line, option in enumerate(decision.chosen):
            assert option in request.menu.menu(line, last)
            last = option.slot
        assert (
            word_tokenizer().decode(decision.token_ids)
            == "".join(f"{o.text}\n" for o in decision.chosen) + "</orders><end>"
        )


def test_replay_reproduces_record(model, constraint):
    asked = requests(60)
    for request, decision in zip(asked, backend(model, constraint).decide(asked), strict=True):
        again = constraint.replay(request.menu, decision.token_ids)
        assert again.allowed_ids.tolist() == decision.allowed_ids.tolist()
        assert again.allowed_counts.tolist() == decision.allowed_counts.tolist()
        assert not decision.logprobs[decision.allowed_counts == 1].any()
        assert (decision.logprobs[decision.allowed_counts > 1] < 0).all()


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
def test_sampled_log_probs_equal_scored_log_probs(make, temperature, constraint):
    model = make(word_tokenizer())
    decisions = backend(model, constraint, temperature=temperature, batch_size=16).decide(requests(48, seed=3))
    batch = collate(decisions)
    with torch.no_grad():
        scores = score(model, batch)
    assert torch.allclose(scores.logp, batch.sampled_logp, atol=1e-4, rtol=0)
    sums = torch.zeros(len(scores.logp)).index_add(0, scores.row, scores.logps.exp())
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_decision_does_not_depend_on_batch(make, constraint):
    """Alone, in batches of seven and in one batch in another order, the answers are equal."""
    model, asked = make(word_tokenizer()), requests(40, seed=4)
    together = backend(model, constraint).decide(asked)
    alone = [backend(model, constraint).decide([request])[0] for request in asked]
    small = backend(model, constraint, batch_size=7).decide(asked)
    backwards = backend(model, constraint).decide(asked[::-1])[::-1]
    for one, *others in zip(together, alone, small, backwards, strict=True):
        for other in others:
            assert other.token_ids.tolist() == one.token_ids.tolist()
            assert np.allclose(other.logprobs, one.logprobs, atol=1e-4)


def test_equal_seeds_draw_equal_answers_and_others_differ(model, constraint):
    asked = requests(20, seed=5, lines=3)
    first, again = (backend(model, constraint).decide(asked) for _ in range(2))
    other = backend(model, constraint).decide([Prompt(r.text, r.menu, r.seed + 10**20) for r in asked])
    assert [d.token_ids.tolist() for d in first] == [d.token_ids.tolist() for d in again]
    assert sum(a.token_ids.tolist() != b.token_ids.tolist() for a, b in zip(first, other, strict=True)) > 10


def test_draws_follow_recorded_probabilities(model, constraint):
    """Two thousand draws from a small menu: every joint order as often as its probability says (chi-square)."""
    asked = menu_of([["A BUD B"], ["A TRI B", "F TRI B"], ["A VIE B"]], 2, 1)
    decisions = backend(model, constraint).decide([Prompt("Year 1\n<orders>\n", asked, seed) for seed in range(2000)])
    seen = {}
    for decision in decisions:
        count, logp = seen.get(decision.text, (0, float(decision.logprobs.sum())))
        seen[decision.text] = (count + 1, logp)
    counts, probabilities = zip(*((count, np.exp(logp)) for count, logp in seen.values()), strict=True)
    expected = 2000 * np.array(probabilities)
    assert sum(probabilities) == pytest.approx(1, abs=0.01)
    assert (((np.array(counts) - expected) ** 2 / expected)[expected > 5]).sum() < 40


def test_temperature_zero_is_greedy_and_rejected_for_training(model, constraint):
    decisions = backend(model, constraint, temperature=0.0).decide(requests(30, seed=6))
    assert not any(decision.exact for decision in decisions)
    batch = collate(decisions)
    with torch.no_grad():
        scores = score(model, batch)
    best = torch.full((len(scores.logp),), -torch.inf).scatter_reduce(0, scores.row, scores.logps, "amax")
    assert torch.equal(best, scores.logp)


def test_cache_is_cleared_after_update(constraint):
    """Trap: a prompt prefix cached under old weights. The same backend must answer like a new one."""
    model, asked = llama(word_tokenizer()), requests(20, seed=7)
    used = backend(model, constraint)
    before = used.decide(asked)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    after, fresh = used.decide(asked), backend(model, constraint).decide(asked)
    assert [d.logprobs.tolist() for d in after] == [d.logprobs.tolist() for d in fresh]
    assert [d.logprobs.tolist() for d in after] != [d.logprobs.tolist() for d in before]


def test_dropout_is_off_while_deciding_and_restored(constraint):
    model, asked = llama(word_tokenizer(), attention_dropout=0.5).train(), requests(10, seed=8)
    first, again = (backend(model, constraint).decide(asked) for _ in range(2))
    assert [d.logprobs.tolist() for d in first] == [d.logprobs.tolist() for d in again]
    assert model.training


def test_power_without_orders_does_not_call_model(constraint):
    silent = llama(word_tokenizer())
    player = backend(silent, constraint)
    silent.model.forward = None
    decision = player.decide([Prompt("Year 1\n<orders>\n", menu_of([], 0, 0), 1)])[0]
    assert decision.chosen == ()
    assert decision.text == ""
    assert decision.exact
    assert word_tokenizer().decode(decision.token_ids) == "</orders><end>"
    forced = player.decide([Prompt("Year 1\n<orders>\n", menu_of([["A PAR D"], ["A BUR D"]], 2, 0), 1)])[0]
    assert forced.text == "A PAR D\nA BUR D"
    assert not forced.logprobs.any()


def test_long_prompt_is_rejected_by_name(model, constraint):
    request = Prompt("Year 1\n" * 20 + "<orders>\n", by_kind(0, lines=2)[0], 1)
    with pytest.raises(InputError, match=r"model\.max_prompt_tokens=50: the prompt for AUSTRIA has 62 tokens"):
        backend(model, constraint, max_prompt_tokens=50).decide([request])
    with pytest.raises(InputError, match="accepts at most 512"):
        backend(model, constraint).decide([Prompt("Year 1\n" * 165 + "<orders>\n", request.menu, 1)])


def test_error_lists_every_prompt_that_does_not_fit(model, constraint):
    """This includes a request in between that has nothing to write and no prompt."""
    short, idle = "Year 1\n<orders>\n", menu_of([], 0, 0)
    texts = [short, "", short * 9, short, short * 8]
    asked = [Prompt(text, by_kind(0, lines=2)[0] if text else idle, 1) for text in texts]
    with pytest.raises(PromptError, match="has 45 tokens") as caught:
        backend(model, constraint, max_prompt_tokens=30).decide(asked)
    assert caught.value.places == (2, 4)


def test_shared_tokens_are_counted_exactly(model, constraint):
    """Three equal prompts of 12 tokens, and one that shares its first 8: 12 + 4 of 48 tokens are read."""
    asked = menu_of([["A PAR H", "F PAR H"]], 1, 0)
    prompts = ["Year 1 2 3 4 5 6 7 8 9\n<orders>\n"] * 3 + ["Year 1 2 3 4 5 6 7 9 9\n<orders>\n"]
    player = backend(model, constraint)
    player.decide([Prompt(prompt, asked, seed) for seed, prompt in enumerate(prompts)])
    lengths = [len(word_tokenizer()(prompt)["input_ids"]) for prompt in prompts]
    assert lengths == [13] * 4
    metrics = player.counts.metrics()
    assert metrics == {
        "cache/total_queries": 52,
        "cache/total_hits": 52 - 13 - 5,
        "cache/hit_rate": pytest.approx(34 / 52),
        "cache/prompt_tokens": 52,
        "cache/batches": 1,
    }


@pytest.mark.parametrize("temperature", [-1.0, 10.5, float("nan"), float("inf")])
def test_unusable_temperature_is_rejected(model, constraint, temperature):
    with pytest.raises(InputError, match=rf"temperature={temperature}: must be in \[0, 10\]"):
        backend(model, constraint, temperature=temperature)
    with pytest.raises(InputError, match=r"must be in \[0, 10\]"):
        EndpointBackend(EndpointConfig(), DIPLOMACY_TEXT, temperature=temperature)
