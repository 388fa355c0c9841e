"""The API key is sent in one header to one host, and nowhere else."""

import copy
import json
import pickle
import traceback
from dataclasses import asdict

import pytest

from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.endpoint.key import Key
from sparring.agents.language.opponents import served
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.diplomacy.evaluation.options import read_settings
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.asking import endpoint, requests, server

CANARY = 'canary-"9f\\3e/71'
VARIABLE = "SPARRING_TEST_KEY"


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    monkeypatch.setenv(VARIABLE, CANARY)


def tells(text):
    return any(part in text for part in (CANARY, json.dumps(CANARY)[1:-1], repr(CANARY)[1:-1]))


def test_server_receives_api_key():
    with server(key=CANARY) as host, endpoint(host, structured="none", key_env=VARIABLE) as backend:
        assert backend.decide(requests(1))
        assert backend.metrics()["endpoint/errors/refused"] == 0


def test_missing_api_key_is_reported_by_server():
    refused = pytest.raises(InputError, match=r"401 .*endpoint\.key_env")
    with server(key=CANARY) as host, endpoint(host, structured="none") as backend, refused:
        backend.decide(requests(1))


def test_api_key_is_not_shown_or_pickled_by_objects(monkeypatch):
    key = Key(VARIABLE)
    assert not tells(f"{key!r} {key}")
    for carry in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError):
            carry(key)
    options, refused = {"structured": "none", "key_env": VARIABLE}, pytest.raises(TypeError)
    with server(key=CANARY) as host, endpoint(host, **options) as backend, refused:
        pickle.dumps(backend)


def test_configuration_contains_no_api_key():
    plain = json.dumps(asdict(served({"endpoint": {"key_env": VARIABLE}})))
    assert VARIABLE in plain
    assert not tells(plain)


@pytest.mark.parametrize("option", ["endpoint.key_env", "endpoint.url"])
@pytest.mark.parametrize("text", ["sk-proj-canary", "https://me:canary@example.com/v1", "https://host/v1?key=canary"])
def test_api_key_in_other_option_is_rejected_without_echo(option, text):
    with pytest.raises(ConfigError) as caught:
        read_settings([(option, text)])
    assert "canary" not in str(caught.value)
    assert option in str(caught.value)


@pytest.mark.parametrize("value", ["", "  ", "line\nfeed", "schlüssel", "two words"])
def test_key_invalid_in_header_is_rejected_without_echo(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(InputError, match=VARIABLE) as caught:
        EndpointBackend(EndpointConfig(key_env=VARIABLE, structured="none"), DIPLOMACY_TEXT, temperature=1.0)
    assert not value.strip() or value not in "".join(traceback.format_exception(caught.value))
