"""Failing servers: the run continues with counted fallbacks, or stops and names the cause."""

import pytest

from sparring.agents.language.backend import FALLBACK, STOP
from sparring.configs.core.errors import InputError
from tests.agents.language.asking import endpoint, legal, requests, server
from tests.agents.language.endpoint.loopback_model import byte_tokenizer


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        ("busy", "rate_limited"),
        ("half_streamed", "connection"),
        ("without_choices", "malformed"),
        ("of_numbers", "malformed"),
        ("silent", "timeout"),
    ],
)
def test_temporary_errors_are_retried(fault, count):
    """First the fault, then an answer, which is used. test_endpoint_http.py covers the other faults."""
    asked = requests(1)
    with (
        server(faults=[fault], pieces=0) as host,
        endpoint(host, structured="regex", model="toy", timeout_seconds=1.5 if fault == "silent" else 8.0) as backend,
    ):
        (decision,) = backend.decide(asked)
        counts = backend.metrics()
    assert decision.finish_reason == STOP
    assert legal(asked[0], decision)
    assert counts[f"endpoint/errors/{count}"] == counts["endpoint/retries"] == 1
    assert counts["endpoint/fallbacks"] == 0


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        *(("illegal", "illegal"), ("cut", "truncated"), ("empty", "empty"), ("rambling", "illegal")),
        ("only_reasoning", "truncated"),
        *(("refusing", "refused"), ("busy_for_an_hour", "rate_limited")),
    ],
)
def test_failed_request_becomes_named_fallback(fault, count):
    """One of three requests fails; 'A BER - K' is an order to Kiel truncated by a token limit."""
    asked = requests(3)
    with server(faults=[fault]) as host, endpoint(host, structured="regex", concurrency=1) as backend:
        decisions = backend.decide(asked)
        counts = backend.metrics()
    assert [decision.finish_reason for decision in decisions] == [FALLBACK, STOP, STOP]
    assert all(legal(request, decision) for request, decision in zip(asked, decisions, strict=True))
    assert counts[f"endpoint/errors/{count}"] == counts["endpoint/fallbacks"] == 1
    assert counts["endpoint/retries"] == 0
    assert decisions[0].why_inexact


@pytest.mark.parametrize("form", ["streamed", "with_a_mark"])
def test_other_answer_formats_are_parsed(form):
    asked = requests(1)
    with server(faults=[form]) as host, endpoint(host, structured="regex") as backend:
        (decision,) = backend.decide(asked)
        assert backend.metrics()["endpoint/requests"] == 1 + 1  # with that for the model's name
    assert decision.finish_reason == STOP
    assert legal(asked[0], decision)


def test_fallback_holds_missing_orders_and_keeps_others():
    """By hand: the first option of each unit is to hold; the server's text orders none of them."""
    (request,) = requests(1)
    with server(faults=["cut", "answer"]) as host, endpoint(host, structured="regex") as backend:
        (decision,) = backend.decide([request])
    assert [option.text for option in decision.chosen] == [f"{text[:5]} H" for text in decision.text.splitlines()]


@pytest.mark.parametrize(("fault", "structured"), [("illegal", "tokens"), ("cut", "choice"), ("empty", "regex")])
def test_server_ignoring_constraint_is_detected_when_opened(fault, structured):
    faults = ["", "", "", *[fault] * 9]  # its tokenizer and its temperature are right
    with (
        server(pieces=0, faults=faults) as host,
        endpoint(host, tokenizer=byte_tokenizer(0), structured=structured) as backend,
    ):
        assert f"endpoint.structured={structured} does not keep its answers legal" in backend.why_inexact
        assert not backend.exact


def test_failed_line_invalidates_it_and_later_lines():
    """Line by line: the first is the server's, the second is truncated, and the third is not requested."""
    request = next(request for request in requests(200, lines=3) if all(len(o) > 1 for o in request.menu.options))
    with server(faults=["", "cut"]) as host, endpoint(host, structured="choice") as backend:
        (decision,) = backend.decide([request])
        assert len(host.bodies) == 2
        assert backend.metrics()["endpoint/errors/truncated"] == 1
        first = host.bodies[1]["prompt"].removeprefix(request.text)
    assert decision.finish_reason == FALLBACK
    assert first == f"{decision.chosen[0].text}\n"
    assert decision.chosen[1:] == tuple(options[0] for options in request.menu.options[1:])


@pytest.mark.parametrize(
    ("fault", "said"),
    [("not_found", "answers 404"), ("telling", "answers 401"), ("moved", "redirects are not followed")],
)
def test_fatal_error_stops_immediately(fault, said):
    with server(always=fault) as host, endpoint(host, structured="none", model="toy", concurrency=1) as backend:
        with pytest.raises(InputError, match=said):
            backend.decide(requests(40))
        assert len(host.bodies) < 5


def test_single_failures_fall_back_and_four_in_a_row_stop():
    """As in the last phases of an evaluation with one game left; a valid answer resets the count."""
    options = {"structured": "none", "model": "toy", "retries": 0}
    with server(faults=["refusing"] * 3 + [""] + ["refusing"] * 4) as host, endpoint(host, **options) as backend:
        found = [backend.decide(requests(1))[0].finish_reason for _ in range(7)]
        assert found[:3] == found[4:] == [FALLBACK] * 3
        with pytest.raises(InputError, match="too long"):
            backend.decide(requests(1))


def test_decision_stays_within_total_timeout():
    """Each line is answered within its own time-out but not within the total, so the decision falls back."""
    asked = requests(4, lines=4)
    options = {"structured": "choice", "model": "toy", "timeout_seconds": 0.4, "total_seconds": 0.5}
    with server(delay=0.2) as host, endpoint(host, **options) as backend:
        with pytest.raises(InputError, match=r"did not answer|no decision within 0\.5 s"):
            backend.decide(asked)
        assert len(host.bodies) <= 4 * 3  # started after 0, 0.2 and 0.4 s; nothing is after 0.5
