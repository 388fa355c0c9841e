"""Stored answers: not requested again, tied to one configuration, and consistent with the games played."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sparring.agents.language.endpoint.answer import ServerAnswer, Usage
from sparring.agents.language.endpoint.kept import KeptAnswers
from sparring.configs.core.errors import InputError
from tests.agents.language.asking import endpoint, requests, server
from tests.agents.language.endpoint.loopback_model import byte_tokenizer

TOY = {"structured": "regex", "model": "toy"}


@contextmanager
def kept(host, path, *, conditions=None, transcripts=None, **options):
    """Return a backend that stores its answers in a file."""
    with endpoint(host, **{**TOY, **options}) as backend:
        backend.follow(keep=path, conditions=conditions or {}, transcripts=transcripts, quiet=True)
        yield backend


def without_time(metrics):
    """Return metrics of decisions, without those of requests."""
    sent = ("seconds", "requests", "retries", "kept", "errors/server", "errors/refused", "errors/connection")
    return {name: value for name, value in metrics.items() if not any(part in name for part in sent)}


@pytest.mark.parametrize("structured", ["regex", "choice", "none", "tokens"])
def test_second_evaluation_sends_no_answered_request(structured, tmp_path):
    tokens = structured == "tokens"
    how = {"structured": structured, "tokenizer": byte_tokenizer() if tokens else None, "answer_price": 1.0}
    with server() as host:
        with kept(host, tmp_path / "a.jsonl", **how) as backend:
            first = backend.decide(requests(4))
            before = len(host.bodies)
        with kept(host, tmp_path / "a.jsonl", **how) as again:
            opened = len(host.bodies) - before  # the trial of a server that may be exact
            assert [decision.text for decision in again.decide(requests(4))] == [decision.text for decision in first]
            assert len(host.bodies) == before + opened
            if not tokens:
                assert without_time(again.metrics()) == without_time(backend.metrics())
            new = again.decide(requests(6))
            assert len(host.bodies) > before + opened
            assert [decision.text for decision in new[:4]] == [decision.text for decision in first]
            assert all(decision.exact == tokens for decision in new)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("endpoint.model=other: ", {"model": "other"}),
        ("endpoint.max_tokens=9: ", {"max_tokens": 9}),
        ("endpoint.max_completion_tokens=9: ", {"max_completion_tokens": 9}),
        ("endpoint.structured=none: ", {"structured": "none"}),
        ("--temperature=0.3: ", {"temperature": 0.3}),
        ("--seed=5: ", {"conditions": {"--seed": 5, "--opponents": ("dumbbot", "chaos")}}),
        ("--opponents=dumbbot: ", {"conditions": {"--seed": 4, "--opponents": ("dumbbot",)}}),
        ("--prompt=a.txt: ", {"conditions": {"--seed": 4, "--opponents": ("dumbbot", "chaos"), "--prompt": "a.txt"}}),
    ],
)
def test_other_configuration_is_rejected_by_option_name(name, changes, tmp_path):
    options = {"conditions": {"--seed": 4, "--opponents": ("dumbbot", "chaos")}}
    with server(names=("toy", "other")) as host:
        with kept(host, tmp_path / "a.jsonl", **options) as backend:
            backend.decide(requests(1))
        before = len(host.bodies)
        with pytest.raises(InputError) as caught, kept(host, tmp_path / "a.jsonl", **(options | changes)):
            pass
        assert len(host.bodies) == before
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{name}{tmp_path / 'a.jsonl'} holds answers with {name.partition('=')[0]}=")


@pytest.mark.parametrize(
    "changes",
    [{"concurrency": 2, "retries": 1, "timeout_seconds": 20.0}, {"prompt_price": 3.0, "answer_price": 2.0}],
)
def test_prices_and_time_limits_may_change(changes, tmp_path):
    with server() as host:
        with kept(host, tmp_path / "a.jsonl") as backend:
            backend.decide(requests(2))
        before = len(host.bodies)
        with kept(host, tmp_path / "a.jsonl", **changes) as backend:
            backend.decide(requests(2))
        assert len(host.bodies) == before


def test_line_truncated_by_kill_is_requested_again(tmp_path):
    path = tmp_path / "a.jsonl"
    with server() as host:
        with kept(host, path) as backend:
            backend.decide(requests(3))
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines)[:-40])
        before = len(host.bodies)
        with kept(host, path) as backend:
            backend.decide(requests(3))
        assert len(host.bodies) == before + 1


def test_damaged_answer_is_requested_again(tmp_path):
    kept_answers = KeptAnswers(tmp_path / "a.jsonl", {})
    for key in ("a", "b"):
        kept_answers.answer(key, lambda: ServerAnswer("A PAR H", "", usage=Usage(3, 4)))
    path = tmp_path / "a.jsonl"
    path.write_text(path.read_text().replace('"prompt": 3', '"prompt": "many"', 1))
    again = KeptAnswers(path, {})
    assert len(again) == 1
    assert again.answer("b", dict) == (ServerAnswer("A PAR H", "", usage=Usage(3, 4)), True, True)


def test_fallback_decision_is_kept(tmp_path):
    """The games continued from it, so a better answer would lead to other games."""
    with server(faults=["refusing"]) as host:
        with kept(host, tmp_path / "a.jsonl", concurrency=1) as backend:
            first = backend.decide(requests(3))
            before = len(host.bodies)
        with kept(host, tmp_path / "a.jsonl", concurrency=1) as again:
            second = again.decide(requests(3))
            assert len(host.bodies) == before
            assert without_time(again.metrics()) == without_time(backend.metrics())
    assert [decision.finish_reason for decision in first] == ["fallback", "stop", "stop"]
    assert [(each.text, each.why_inexact) for each in second] == [(each.text, each.why_inexact) for each in first]


def test_answer_that_ended_evaluation_is_requested_again(tmp_path):
    with server(always="broken") as host:
        with kept(host, tmp_path / "a.jsonl", retries=0) as backend, pytest.raises(InputError, match="500"):
            backend.decide(requests(5))
        host.always = ""
        with kept(host, tmp_path / "a.jsonl", retries=0) as backend:
            assert {decision.finish_reason for decision in backend.decide(requests(5))} == {"stop"}


def test_rejected_parameter_is_not_retried(tmp_path):
    with server(refuses=("temperature",)) as host:
        how = {"structured": "none", "conditions": {}}
        with kept(host, tmp_path / "a.jsonl", **how) as backend:
            backend.decide(requests(2))
            notes = backend.notes
        before = len(host.bodies)
        with kept(host, tmp_path / "a.jsonl", **how) as backend:
            assert backend.notes == notes
            backend.decide(requests(3))
            assert len(host.bodies) == before + 1


def test_equal_requests_are_sent_and_counted_once(tmp_path):
    (request,) = requests(1)
    with server(delay=0.2) as host, kept(host, tmp_path / "a.jsonl") as backend:
        decisions = backend.decide([request] * 4)
        assert len(host.bodies) == 1
        assert len({decision.text for decision in decisions}) == 1
        metrics = backend.metrics()
    with server() as host, endpoint(host, **TOY) as once:
        once.decide([request])
        assert metrics["endpoint/prompt_tokens"] == once.metrics()["endpoint/prompt_tokens"]
    assert metrics["endpoint/kept_answers"] == 3


def test_seed_distinguishes_requests_with_equal_prompts(tmp_path):
    (request,) = requests(1)
    with server() as host, kept(host, tmp_path / "a.jsonl") as backend:
        backend.decide([request, replace(request, seed=request.seed + 1)])
        assert len(host.bodies) == 2


def test_unusual_characters_are_preserved(tmp_path):
    odd = ServerAnswer("A PAR H\ud800\u2028\0é", "", (1, 2), (3,), ({3: -0.5},), Usage(5, None))
    KeptAnswers(tmp_path / "a.jsonl", {}).answer("key", lambda: odd)
    assert KeptAnswers(tmp_path / "a.jsonl", {}).answer("key", dict)[0] == odd


def test_no_file_contains_api_key(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARRING_TEST_KEY", "canary-0123456789")
    with (
        server(always="key_as_text", told="canary-0123456789") as host,
        kept(
            host, tmp_path / "a.jsonl", transcripts=tmp_path / "t.jsonl", key_env="SPARRING_TEST_KEY", structured="none"
        ) as backend,
    ):
        backend.decide(requests(2))
    for name in ("a.jsonl", "t.jsonl"):
        text = (tmp_path / name).read_text()
        assert "[key]" in text
        assert "0123456789" not in text


def test_transcripts_contain_full_output(tmp_path):
    how = {"structured": "none", "api": "chat", "concurrency": 1, "transcripts": tmp_path / "t.jsonl"}
    with server(faults=["reasoning", "without_usage", "refusing"]) as host:
        with kept(host, tmp_path / "a.jsonl", **how) as backend:
            backend.decide(requests(3))
        text = (tmp_path / "t.jsonl").read_text()
        with kept(host, tmp_path / "a.jsonl", **how) as backend:
            backend.decide(requests(3))
        assert (tmp_path / "t.jsonl").read_text() == text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["prompt"] for line in lines] == [request.text for request in requests(3)]
    (reasoned,), (uncounted,) = lines[0]["answers"], lines[1]["answers"]
    assert (reasoned["text"], reasoned["reasoning"]) == ("A PAR H", "Paris holds.")
    assert reasoned["usage"] == {"prompt": 10, "completion": 8, "cached": 0, "reasoning": 5}
    assert uncounted["usage"]["prompt"] is None
    assert (lines[2]["answers"], lines[2]["end"], lines[2]["why"]) == ([], "fallback", "there is no answer (refused)")


def test_unwritable_file_gives_one_line_error(tmp_path):
    refused = pytest.raises(InputError, match=r"--transcripts .*: cannot be written")
    with server() as host, refused, kept(host, None, transcripts=tmp_path / "none" / "t.jsonl"):
        pass
