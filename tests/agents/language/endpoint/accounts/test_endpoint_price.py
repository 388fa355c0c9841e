"""Tokens and cost: every usage format, missing usage, and the price of both."""

import pytest

from sparring.agents.language.endpoint.answer import Usage, read_usage
from sparring.agents.language.endpoint.price import Forecast, Spending, dollars, spent
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.text import FreeText, Prompt
from tests.agents.language.asking import endpoint, requests, server

CHAT = {"structured": "none", "model": "toy", "api": "chat"}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(9, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 3}},
         Usage(9, 4, 0, 3)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": None}, Usage(9, 4)),
        # The total of OpenAI includes reasoning once; xAI counts it beside the completion.
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
          "completion_tokens_details": {"reasoning_tokens": 3}}, Usage(9, 4, 0, 3)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 16,
          "completion_tokens_details": {"reasoning_tokens": 3}}, Usage(9, 7, 0, 3)),
        ({"input_tokens": 2, "output_tokens": 4, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1},
         Usage(8, 4, 5)),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 8},
          "output_tokens_details": {"reasoning_tokens": 2}}, Usage(9, 4, 8, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 6}, Usage(9, 4, 6)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(9, 4, 9)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage()),
        ({"prompt_tokens": 9}, Usage(9)),
        ({"completion_tokens": 4}, Usage(None, 4)),
        ({}, Usage()),
        (None, Usage()),
        ("9", Usage()),
    ],
)  # fmt: skip
def test_token_counts_are_read_in_all_server_formats(usage, tokens):
    assert read_usage(usage) == tokens
    assert tokens.is_counted == (tokens.prompt is not None and tokens.completion is not None)


def test_empty_answer_may_have_no_tokens():
    assert read_usage({"prompt_tokens": 9, "completion_tokens": 0}, is_empty=True) == Usage(9, 0)
    assert read_usage({"prompt_tokens": 9, "completion_tokens": 0}) == Usage(9)


def test_price_by_hand():
    prices = EndpointConfig(prompt_price=2.0, answer_price=10.0)
    assert dollars(prices, 1_000_000, 100_000, 500_000) == pytest.approx(2.0 + 1.0)
    cached = EndpointConfig(prompt_price=2.0, cached_price=0.5, answer_price=10.0)
    assert dollars(cached, 1_000_000, 100_000, 500_000) == pytest.approx(1.0 + 0.25 + 1.0)
    assert dollars(EndpointConfig(), 1_000_000, 100_000) is None
    assert dollars(EndpointConfig(answer_price=3.0), 5, 1_000_000) == 3.0


def test_forecast_states_price_or_how_to_set_it():
    text = Forecast(12, 2_000_000, 3000).text(EndpointConfig(prompt_price=2.0, answer_price=10.0), "about ")
    assert text == "about 12 requests, about 2,000,000 prompt tokens and at most 3,000 of answers, at most $4.03"
    assert (
        Forecast(1, 2, 3)
        .text(EndpointConfig())
        .endswith("; to see the price, add --set endpoint.prompt_price=USD endpoint.answer_price=USD")
    )


def test_forecast_counts_one_request_per_line_with_choice():
    (request,) = requests(1, lines=2)
    lines = [len(request.menu.menu(line)) for line in range(request.menu.lines)]
    with server() as host:
        for structured, count in (("none", 1), ("choice", sum(size > 1 for size in lines))):
            with endpoint(host, structured=structured, model="toy", max_tokens=50) as backend:
                tokens = count * len(request.text) // 4
                said = f"about {3 * count:,} requests, about {3 * tokens:,} prompt tokens and at most {150 * count:,}"
                assert backend.forecast([request], 3.0).startswith(said)
        assert host.bodies == []


def test_answer_without_usage_is_reported_not_counted_as_zero(capsys):
    prices = {"prompt_price": 1000.0, "answer_price": 1000.0}
    with (
        server(faults=["without_usage"] * 2) as host,
        endpoint(host, structured="regex", model="toy", concurrency=1, **prices) as backend,
    ):
        backend.decide(requests(2))
        assert spent(backend.metrics()) == "Tokens: unknown; the server does not report usage (missing in 2 answers)."
        backend.decide(requests(1))
        metrics, notes = backend.metrics(), backend.notes
    assert metrics["endpoint/uncounted_answers"] == 2
    prompt, completion, cached = (metrics[f"endpoint/{name}_tokens"] for name in ("prompt", "completion", "cached"))
    cost = f"Cost: at least ${metrics['endpoint/cost']:.2f}."
    assert spent(metrics) == (
        f"Tokens: {prompt:,.0f} prompt, {cached:,.0f} of them cached, {completion:,.0f} completion, 0 of them "
        f"reasoning, without those of 2 answers that came without usage. {cost}"
    )
    assert metrics["endpoint/cost"] == pytest.approx((prompt + completion) / 1000)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "usage" in line]
    assert line == f"warning: endpoint: {notes['usage']}"


def test_reasoning_tokens_are_counted_separately():
    with server(always="reasoning") as host, endpoint(host, **CHAT) as backend:
        backend.decide(requests(3))
        metrics = backend.metrics()
    assert (metrics["endpoint/completion_tokens"], metrics["endpoint/reasoning_tokens"]) == (24, 15)
    assert "24 completion, 15 of them reasoning." in spent(metrics)
    assert "Cost" not in spent(metrics)


def test_spending_is_reported_periodically(capsys):
    with server() as host, endpoint(host, structured="regex", model="toy") as backend:
        backend._asker.spending = Spending(backend.metrics, every=0.0)
        backend.decide(requests(2))
        backend._asker.spending = Spending(backend.metrics, every=1000.0)
        backend.decide(requests(2))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("endpoint: 2 requests so far. Tokens: ")


@pytest.mark.parametrize(
    ("options", "sent", "left_out"),
    [
        ({"max_completion_tokens": 70}, {"max_completion_tokens": 70}, {"max_tokens", "reasoning_effort"}),
        ({"max_tokens": 70, "reasoning_effort": "low"}, {"max_tokens": 70, "reasoning_effort": "low"},
         {"max_completion_tokens"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none"}, {"max_completion_tokens"}),
    ],
)  # fmt: skip
def test_token_limit_and_effort_are_sent_as_given(options, sent, left_out):
    free = Prompt("Say a word.", FreeText(9), 1)
    with server() as host, endpoint(host, **CHAT, **options) as backend:
        backend.decide([*requests(1), free])
        bodies = host.bodies
    for body in bodies:
        assert sent.items() <= body.items()
        assert not left_out & body.keys()


def test_rejected_effort_stops_evaluation_by_name():
    with (
        server(refuses=("reasoning_effort",)) as host,
        endpoint(host, **CHAT, reasoning_effort="high") as backend,
        pytest.raises(InputError, match="reasoning_effort"),
    ):
        backend.decide(requests(4))
