"""A server's distribution is trusted only if it equals ours: hand cases and servers with one difference each."""

import math

import numpy as np
import pytest

from sparring.agents.language.decoding.constraint import Steps
from sparring.agents.language.endpoint.exactness import logprobs_of, temperature_problem
from sparring.agents.language.grpo.learner import Sample
from sparring.configs.core.errors import InputError
from tests.agents.language.asking import endpoint, legal, requests, server
from tests.agents.language.endpoint import loopback_model
from tests.agents.language.endpoint.loopback_model import byte_tokenizer
from tests.agents.language.grpo.rollouts.small_games import toy_learner

# Two tokens that were chosen, from {5, 6} and {8}, then the closing one.
STEPS = Steps(
    token_ids=np.array([6, 8, 1], dtype=np.int32),
    logprobs=np.zeros(3, dtype=np.float32),
    allowed_ids=np.array([5, 6, 8, 1], dtype=np.int32),
    allowed_counts=np.array([2, 1, 1], dtype=np.int32),
    chosen=(),
)
HALVES = {5: math.log(0.25), 6: math.log(0.75)}


def test_log_probs_of_written_tokens_by_hand():
    logprobs, reason = logprobs_of(STEPS, [HALVES, {8: 0.0}], 20)
    assert reason == ""
    assert logprobs.tolist() == pytest.approx([math.log(0.75), 0.0, 0.0])
    assert logprobs.dtype == np.float32


@pytest.mark.parametrize(
    ("shown", "limit", "reason"),
    [
        (None, 20, "no log-probabilities by token id"),
        (
            [{**HALVES, 7: -9.0}, {8: 0.0}],
            20,
            "at token 0 the server may return 1 ids that the constraint forb",
        ),
        ([HALVES, {8: -0.1, 9: -2.4}], 20, "at token 1 the server may return 1 ids"),
        ([{6: 0.0}, {8: 0.0}], 20, "at token 0 the server cannot return 1 ids that the constraint allows, such as 5"),
        ([{6: -0.3}, {8: 0.0}], 1, "2 ids are allowed and endpoint.logprobs=1 shows fewer"),
        ([{5: -0.2, 6: -0.2}, {8: 0.0}], 20, "probabilities sum to 1.6375"),
        ([{5: -2.0, 6: -2.0}, {8: 0.0}], 20, "probabilities sum to 0.2707"),
        ([HALVES, {8: -0.01}], 20, "at token 1 probabilities sum to 0.9900"),
    ],
)
def test_differing_field_is_named(shown, limit, reason):
    assert reason in logprobs_of(STEPS, shown, limit)[1]


def at(temperature, logits=(3.0, 1.0, -2.0, 0.5)):
    scaled = np.array(logits) / temperature
    return dict(enumerate(scaled - math.log(np.exp(scaled).sum())))


@pytest.mark.parametrize(("one", "other"), [(0.8, 1.6), (0.5, 1.0), (1.5, 0.75)])
def test_temperature_check_accepts_only_configured_temperature(one, other):
    assert temperature_problem(at(one), at(other), one, other) == ""
    assert "temperature" in temperature_problem(at(1.0), at(1.0), one, other)
    assert "temperature" in temperature_problem(at(one), at(1.1 * other), one, other)


def test_truncated_alternatives_suffice():
    """Of four ids, the server shows the likeliest three, which differ between the two temperatures."""
    one, other = at(0.8), at(1.6)
    assert temperature_problem({k: one[k] for k in (0, 1, 3)}, {k: other[k] for k in (0, 1, 2)}, 0.8, 1.6) == ""


def test_uninformative_answer_is_not_trusted():
    flat = (1.0, 1.0, 1.0, 1.0)
    assert "equally likely" in temperature_problem(at(1.0, flat), at(2.0, flat), 1.0, 2.0)
    assert "too few" in temperature_problem({1: 0.0}, {1: 0.0}, 1.0, 2.0)


@pytest.mark.parametrize(
    ("quirk", "reason"),
    [
        (loopback_model.RAW, "do not match the requested temperature"),
        (loopback_model.HOT, "do not match the requested temperature"),
        (loopback_model.UNMASKED, "that the constraint forbids"),
        (loopback_model.TOP_TWO, "the server cannot return"),
    ],
)
@pytest.mark.parametrize("structured", ["tokens", "choice", "regex"])
def test_server_with_one_difference_is_not_exact(quirk, reason, structured):
    """Bytes only, so each line has one spelling and the mask is right in all three modes."""
    with (
        server([quirk], pieces=0) as host,
        endpoint(host, tokenizer=byte_tokenizer(0), structured=structured) as backend,
    ):
        assert not backend.exact
        assert reason in backend.why_inexact
        decisions = backend.decide(requests(3))
    assert not any(decision.exact or len(decision.logprobs) for decision in decisions)
    assert all(decision.why_inexact == backend.why_inexact for decision in decisions)


def test_server_without_token_ids_is_not_exact():
    with server([loopback_model.NO_IDS]) as host:
        with endpoint(host, tokenizer=byte_tokenizer(), structured="regex") as backend:
            assert "no log-probabilities by token id" in backend.why_inexact
            decisions = backend.decide(requests(3))
            assert all(legal(*pair) for pair in zip(requests(3), decisions, strict=True))
            with pytest.raises(InputError, match=r"by token id\) cannot be used for training; choose"):
                toy_learner().learn([Sample(decision, 1.0) for decision in decisions])
            assert isinstance(host.bodies[-1]["prompt"], str)
        refused = pytest.raises(InputError, match=r"endpoint\.structured=tokens: the server returns no token ids")
        with refused, endpoint(host, tokenizer=byte_tokenizer()):
            pass


@pytest.mark.parametrize("quirks", [[], [loopback_model.BEGINS]])
def test_server_with_other_tokenizer_is_rejected(quirks):
    """Its ids would be meaningless to the server, also if it prepends a token to every prompt."""
    tokenizer = byte_tokenizer(0 if not quirks else 343)
    refused = pytest.raises(InputError, match=r"the server reads 'A PAR - BUR' as tokens .* model\.name")
    with server(quirks) as host, refused, endpoint(host, tokenizer=tokenizer):
        pass


def test_server_that_later_extends_prompts_is_not_exact():
    with server() as host, endpoint(host, tokenizer=byte_tokenizer()) as backend:
        assert backend.exact
        host.model.quirks = frozenset([loopback_model.BEGINS])
        (decision,) = backend.decide(requests(1))
    assert not decision.exact
    assert "tokenizes the prompt differently" in decision.why_inexact


@pytest.mark.parametrize("structured", ["choice", "regex"])
def test_text_mask_allows_other_spellings(structured):
    """With multi-character tokens a line has many spellings; a text mask allows all, ours only one."""
    with server() as host, endpoint(host, tokenizer=byte_tokenizer(), structured=structured) as backend:
        assert not backend.exact


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"structured": "none"}, "restricts nothing"),
        ({"structured": "regex", "api": "chat"}, "chat template"),
        ({"structured": "choice", "tokenizer": None}, "without a tokenizer"),
    ],
)
def test_unsupported_exactness_is_reported_without_probe(options, reason):
    with server() as host, endpoint(host, model="toy", **{"tokenizer": byte_tokenizer(), **options}) as backend:
        assert reason in backend.why_inexact
        assert host.bodies == []


def test_temperature_zero_draws_nothing():
    with server() as host, endpoint(host, tokenizer=byte_tokenizer(), temperature=0.0) as backend:
        assert "nothing is sampled" in backend.why_inexact
        first, again = (backend.decide(requests(3, seed=seed)) for seed in (0, 50))
    assert [decision.text for decision in first] == [decision.text for decision in again]
    assert not any(decision.exact for decision in first)
