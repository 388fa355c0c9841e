"""Servers that reject a parameter: it is renamed or dropped with a note, and the task is unchanged.

The errors are those of OpenAI, of pydantic (Mistral, vLLM), of LiteLLM, and plain text.
"""

import json

import pytest

from sparring.agents.language.endpoint.refused import refused_parameters
from sparring.configs.core.errors import InputError
from tests.agents.language.asking import endpoint, requests, server
from tests.agents.language.endpoint.loopback_model import byte_tokenizer
from tests.agents.language.endpoint.loopback_server import refusal

SENT = {"model": "m", "messages": [], "max_tokens": 5, "temperature": 0.8, "seed": 1, "stop": ["x"], "top_p": 1.0}


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ({"error": refusal("max_tokens")}, ("max_tokens",)),
        ({"error": refusal("temperature")}, ("temperature",)),
        ({"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}},
         ("temperature",)),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
         ("seed",)),
        ({"error": {"message": "unknown fields ['seed', 'stop']"}}, ("seed", "stop")),
        ({"error": {"message": "Unrecognized request argument supplied: top_p"}}, ("top_p",)),
        ("litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.8.", ("temperature",)),
        ("property 'stop' is unsupported", ("stop",)),
        ({"error": {"message": "max_tokens is too large: 8192. This model supports at most 4096"}}, ()),
        ({"error": {"message": "temperature must be between 0 and 1", "param": "temperature"}}, ()),
        ({"error": {"message": "the prompt is too long, stop here"}}, ()),
        ({"error": {"message": "unknown model 'm'", "param": "model"}}, ()),
    ],
)  # fmt: skip
def test_rejected_parameter_is_found_in_error(error, refused):
    assert refused_parameters(error if isinstance(error, str) else json.dumps(error), SENT) == refused


def test_rejected_parameters_are_dropped_once_with_note(capsys):
    with (
        server(refuses=("max_tokens", "temperature", "stop")) as host,
        endpoint(host, structured="none", model="toy", concurrency=1, max_tokens=64) as backend,
    ):
        backend.decide(requests(3))
        notes = dict(backend.notes)
        bodies = [set(body) for body in host.bodies]
    assert len(bodies) == 3 + 3  # one attempt for each parameter, then none
    assert bodies[-1] == bodies[-3] == {"model", "prompt", "max_completion_tokens", "seed"}
    assert "max_tokens is sent as max_completion_tokens" in notes["max_tokens"]
    assert "sampled at the server's own temperature, not 0.8" in notes["temperature"]
    assert "Only the default (1) value is supported" in notes["temperature"]
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_server_rejecting_both_limit_names_is_error():
    refused = pytest.raises(InputError, match="max_completion_tokens")
    with (
        server(refuses=("max_tokens", "max_completion_tokens")) as host,
        endpoint(host, structured="none", model="toy") as backend,
        refused,
    ):
        backend.decide(requests(5))


def test_nothing_is_dropped_where_probabilities_are_checked():
    with (
        server(pieces=0, refuses=("temperature",)) as host,
        pytest.raises(InputError, match="temperature"),
        endpoint(host, tokenizer=byte_tokenizer(0), structured="tokens", model="toy"),
    ):
        pass
