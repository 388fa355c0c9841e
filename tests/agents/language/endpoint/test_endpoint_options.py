"""Endpoint options: validation before the first request, and its messages."""

from dataclasses import fields
from pathlib import Path

import pytest

from sparring.agents.language.endpoint.retry import COUNTS
from sparring.agents.language.opponents import served
from sparring.configs.core.errors import ConfigError
from sparring.configs.language import EndpointConfig
from sparring.configs.load import load

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "llm_endpoints.md").read_text(encoding="utf-8")


def check(**endpoint):
    return served({"endpoint": endpoint})


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:8000/v1", "https://api.example.com/v1", "http://localhost", "http://[::1]:65535/v1/"),
        *("https://gpu-7.cluster_a.internal:443/a/b~c/v1", "http://h:1"),
    ],
)
def test_valid_server_url_is_accepted(url):
    check(url=url)


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8000", "ftp://host/v1", "file:///etc/passwd", "http://", "http:///v1", "http://host:0/v1"),
        *("http://host:65536/v1", "http://host:99999", "http://u:p@host/v1", "http://host/v1?key=k", "http://host/#a"),
        *("http://ho st/v1", "http://host/v1\nX: y", "http://host/v1 ", "HTTP://host", "http://host\\v1"),
        "http://::1/v1",
    ],
)
def test_invalid_server_url_is_rejected(url):
    with pytest.raises(ConfigError, match=r"endpoint\.url=\(not shown\): must be http:// or https://"):
        check(url=url or " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_env": "my key"}, "endpoint.key_env=(not shown): must be the name of a variable of the environment"),
        ({"key_env": "sk-proj-abc"}, "endpoint.key_env=(not shown): must be the name of a variable"),
        ({"structured": "json"}, "endpoint.structured=json: choose from tokens, choice, regex, none"),
        ({"api": "responses"}, "endpoint.api=responses: choose from completions, chat"),
        ({"concurrency": 0}, "endpoint.concurrency=0: must be in [1, 1024]; the default is 16"),
        ({"retries": -1}, "endpoint.retries=-1: must be in [0, 100]; the default is 4"),
        ({"timeout_seconds": 0}, "endpoint.timeout_seconds=0: must be in (0, 86400]; the default is 120.0"),
        ({"logprobs": 0}, "endpoint.logprobs=0: must be in [1, 10000]"),
        ({"api": "chat"}, "endpoint.structured=tokens: with endpoint.api=chat an answer is one message; use regex"),
        ({"api": "chat", "structured": "choice"}, "endpoint.structured=choice: with endpoint.api=chat"),
        ({"total_seconds": 30}, "endpoint.total_seconds=30: must be at least endpoint.timeout_seconds, 120"),
        ({"max_tokens": 5, "max_completion_tokens": 6},
         "endpoint.max_completion_tokens=6: is another name of endpoint.max_tokens; give one of them"),
        ({"reasoning_effort": "low"}, "endpoint.reasoning_effort=low: is an option of chat completions; give "),
        ({"reasoning_effort": "much"}, "endpoint.reasoning_effort=much: choose from "),
        ({"prompt_price": -1}, "endpoint.prompt_price=-1: must be in [0, 100000]"),
        ({"keyenv": "A"}, "unknown key 'endpoint.keyenv': did you mean 'endpoint.key_env'? choose from endpoint.url,"),
        ({"model": "a\nb"}, "endpoint.model=a b: must be text of one line"),
    ],
)  # fmt: skip
def test_impossible_options_are_rejected(options, message):
    with pytest.raises(ConfigError) as caught:
        check(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("trainer", ["clone", "grpo"])
def test_trainer_rejects_server(trainer):
    run = "diplomacy_clone" if trainer == "clone" else "diplomacy_quickstart"
    with pytest.raises(ConfigError, match=r"^unknown key .endpoint\.url.: is not an option any more; evaluations"):
        load([f"+run={run}", "endpoint.url=http://127.0.0.1:8000/v1"])
    with pytest.raises(ConfigError, match=r"unknown key 'model\.backend': is not an option any more; every run has"):
        load([f"+run={run}", "model.backend=endpoint"])


def test_options_have_declared_types():
    config = check(timeout_seconds=5, concurrency=2.0, model="m")
    assert (config.timeout_seconds, config.concurrency, config.model) == (5.0, 2, "m")
    assert isinstance(config.timeout_seconds, float)


def test_page_documents_every_option_and_number():
    options = [f"`endpoint.{field.name}`" for field in fields(EndpointConfig)]
    assert [name for name in options if name not in PAGE] == []
    assert [count for count in COUNTS if f"`endpoint/{count}`" not in PAGE] == []
