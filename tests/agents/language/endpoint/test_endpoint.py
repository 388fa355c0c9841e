"""A server as a backend: legal decisions in order, and exact ones match local scoring."""

import numpy as np
import pytest
import torch

from sparring.agents.language.backend import FALLBACK, STOP
from sparring.agents.language.decoding.constraint import Constraint, encode
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.endpoint.backend import open_endpoint
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig, LanguageModelConfig
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.asking import endpoint, legal, requests, server
from tests.agents.language.endpoint.loopback_model import OPENAI, STRIPPED, LoopbackModel, byte_tokenizer
from tests.agents.language.endpoint.loopback_server import Loopback
from tests.agents.language.toys import llama, menu_of

MODES = ["tokens", "choice", "regex"]
KINDS = [(0, 6), (1, 4), (-1, 3)]
EMPTY = Choices(0, (), (), 0)


@pytest.mark.parametrize("structured", MODES)
@pytest.mark.parametrize(("winter", "count"), KINDS)
def test_decisions_are_legal_and_exact(structured, winter, count):
    """Bytes only, where all three masks equal the constraint. The recorded steps equal the constraint's."""
    asked, constraint = requests(count, winter=winter), Constraint(byte_tokenizer(0), DIPLOMACY_TEXT)
    with server(pieces=0) as host, endpoint(host, tokenizer=byte_tokenizer(0), structured=structured) as backend:
        assert backend.exact
        decisions = backend.decide(asked)
    for request, decision in zip(asked, decisions, strict=True):
        assert legal(request, decision)
        assert (decision.exact, decision.why_inexact, decision.finish_reason) == (True, "", STOP)
        steps = constraint.replay(request.menu, decision.token_ids)
        assert decision.chosen == steps.chosen
        assert decision.allowed_ids.tolist() == steps.allowed_ids.tolist()
        assert decision.allowed_counts.tolist() == steps.allowed_counts.tolist()
        assert not decision.logprobs[steps.allowed_counts == 1].any()
        assert decision.prompt_ids.tolist() == encode(byte_tokenizer(0), [request.text])[0]
        assert decision.prompt_ids.dtype == decision.token_ids.dtype == np.int32


@pytest.mark.parametrize(
    ("structured", "pieces", "temperature"),
    [("tokens", 343, 0.5), ("tokens", 343, 1.4), ("choice", 0, 0.7), ("regex", 0, 1.2)],
)
def test_log_probs_match_local_scoring(structured, pieces, temperature):
    """The server runs our Llama; the trainer's scoring of the same weights gives the same log-probabilities."""
    tokenizer = byte_tokenizer(pieces)
    model = llama(tokenizer, seed=5)

    def logits(ids, size):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0, -1, :size].double().numpy()

    with (
        Loopback(LoopbackModel(tokenizer, logits=logits)) as host,
        endpoint(host, tokenizer=tokenizer, structured=structured, temperature=temperature) as backend,
    ):
        decisions = backend.decide(requests(2))
    assert all(decision.exact for decision in decisions)
    batch = collate(decisions)
    scores = score(model, batch)
    assert len(scores.logp) >= 8
    assert (scores.logp - batch.sampled_logp).abs().max() < 1e-4


@pytest.mark.parametrize("structured", ["choice", "regex"])
def test_endpoint_without_tokenizer_plays_but_cannot_train(structured):
    asked = requests(5) + requests(3, winter=1) + requests(2, winter=-1)
    with server() as host, endpoint(host, structured=structured) as backend:
        decisions = backend.decide(asked)
        assert not backend.exact
        assert all(isinstance(body["prompt"], str) for body in host.bodies)
    for request, decision in zip(asked, decisions, strict=True):
        assert legal(request, decision)
        assert decision.finish_reason == STOP
        assert not decision.exact
        assert len(decision.token_ids) == 0


@pytest.mark.parametrize("structured", ["choice", "regex"])
def test_server_that_strips_line_ends_is_supported(structured):
    asked = requests(3, lines=3)
    with server([STRIPPED]) as host, endpoint(host, structured=structured) as backend:
        decisions = backend.decide(asked)
    assert {decision.finish_reason for decision in decisions} == {STOP}
    assert all(legal(request, decision) for request, decision in zip(asked, decisions, strict=True))


def test_token_id_grammar_requires_tokenizer():
    with server() as host, pytest.raises(InputError, match="needs the model's tokenizer"), endpoint(host):
        pass


def test_generic_requests_use_standard_fields_only():
    """The server rejects unknown fields and masks nothing: answers are read, and missing orders filled in."""
    asked = requests(3)
    with server([OPENAI]) as host, endpoint(host, structured="none") as backend:
        decisions = backend.decide(asked)
        assert backend.metrics()["endpoint/errors/refused"] == 0
    assert all(legal(request, decision) for request, decision in zip(asked, decisions, strict=True))
    assert all(decision.finish_reason == FALLBACK for decision in decisions)


def test_chat_request_holds_prompt_as_one_message():
    (request,) = requests(1)
    with server() as host, endpoint(host, structured="regex", api="chat") as backend:
        (decision,) = backend.decide([request])
        assert host.bodies[0]["messages"] == [{"role": "user", "content": request.text}]
    assert legal(request, decision)
    assert (decision.finish_reason, decision.exact) == (STOP, False)


def test_decision_does_not_depend_on_other_requests():
    asked = requests(6)
    with server() as host, endpoint(host, tokenizer=byte_tokenizer()) as backend:
        together = backend.decide(asked)
        alone = [backend.decide([request])[0] for request in reversed(asked)][::-1]
        again = backend.decide([Prompt(asked[0].text, asked[0].menu, seed) for seed in range(40)])
    for one, other in zip(together, alone, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.logprobs.tolist() == other.logprobs.tolist()
    assert len({decision.text for decision in again}) > 5


def test_power_without_orders_sends_no_request():
    with server(pieces=0) as host, endpoint(host, tokenizer=byte_tokenizer(0)) as backend:
        before = len(host.bodies)
        (decision,) = backend.decide([Prompt("<orders>\n", EMPTY, 1)])
        assert len(host.bodies) == before
    assert (decision.chosen, decision.exact, decision.finish_reason) == ((), True, STOP)
    assert decision.allowed_counts.tolist() == [1] * len(decision.token_ids)


def test_forced_lines_are_not_requested():
    asked = menu_of([["A PAR H"], ["F BRE H", "F BRE - ENG"], ["A MAR H"]], 3, 0)
    with server() as host, endpoint(host, structured="choice") as backend:
        (decision,) = backend.decide([Prompt("<orders>\n", asked, 1)])
        (body,) = host.bodies
        assert body["structured_outputs"] == {"choice": ["F BRE H\n", "F BRE - ENG\n"]}
        assert body["prompt"] == "<orders>\nA PAR H\n"
    assert [option.text for option in decision.chosen][::2] == ["A PAR H", "A MAR H"]


def test_concurrent_requests_stay_within_cap():
    with server(delay=0.3) as host, endpoint(host, structured="none", concurrency=3) as backend:
        backend.decide(requests(9))
        assert host.most_under_way == 3
        assert len(host.bodies) == 9


def test_prompt_tokens_of_answers_are_counted():
    """The loopback server counts 7 prompt tokens for each of these answers, and nothing else."""
    with server(always="empty") as host, endpoint(host, structured="none", model="toy") as backend:
        backend.decide(requests(3))
        counts = backend.metrics()
    assert counts["endpoint/prompt_tokens"] == 21
    assert counts["endpoint/requests"] == counts["endpoint/decisions"] == counts["endpoint/fallbacks"] == 3
    with server() as host, endpoint(host, structured="regex") as backend:
        backend.decide(requests(1))
        counts = backend.metrics()
    assert counts["endpoint/cached_tokens"] == counts["endpoint/prompt_tokens"] // 16 * 16 > 0
    assert counts["endpoint/completion_tokens"] > 0


def test_overlong_prompt_is_rejected_before_first_request():
    (request,) = requests(1)
    long = Prompt("A " * 3000 + request.text, request.menu, 1)
    with server() as host, endpoint(host, tokenizer=byte_tokenizer()) as backend:
        before = len(host.bodies)
        with pytest.raises(InputError, match=r"model\.max_prompt_tokens=2048: the prompt for [A-Z]+ has \d{4} tokens"):
            backend.decide([request, long])
        assert len(host.bodies) == before


def test_structured_tokens_require_model_tokenizer(tmp_path):
    byte_tokenizer().save_pretrained(tmp_path)
    llama(byte_tokenizer(), layers=1).save_pretrained(tmp_path)
    model = LanguageModelConfig(str(tmp_path), temperature=1.3, max_prompt_tokens=64)
    with server() as host:
        exact = open_endpoint(EndpointConfig(url=host.url), model, DIPLOMACY_TEXT)
        inexact = open_endpoint(EndpointConfig(url=host.url, structured="regex"), model, DIPLOMACY_TEXT)
        assert (exact.exact, inexact.exact) == (True, False)
        assert host.bodies[-1]["temperature"] == 1.3
        with pytest.raises(InputError, match=r"max_prompt_tokens=64"):
            exact.decide([Prompt("A " * 100, requests(1)[0].menu, 1)])
        exact.close()
        inexact.close()


@pytest.mark.parametrize(("names", "said"), [((), "has 0 models"), (("a", "b"), "has 2 models: a, b; name one")])
def test_unnamed_model_requires_exactly_one_on_server(names, said):
    with server(names=names) as host, pytest.raises(InputError, match=said), endpoint(host, structured="none"):
        pass
