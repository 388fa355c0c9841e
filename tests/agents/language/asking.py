"""Endpoints and requests for tests, without waiting between retries."""

import time
from contextlib import contextmanager

from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.endpoint.http import Client
from sparring.agents.language.endpoint.key import Key
from sparring.configs.language import EndpointConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.endpoint.loopback_model import LoopbackModel, byte_tokenizer
from tests.agents.language.endpoint.loopback_server import Loopback
from tests.agents.language.toys import random_choices

PATIENT = {"timeout_seconds": 30.0, "total_seconds": 60.0, "concurrency": 4}


@contextmanager
def endpoint(server, *, temperature=0.8, tokenizer=None, **options):
    """Return a backend connected to `server`, closed at the end."""
    config = EndpointConfig(**{"url": server.url, **PATIENT, **options})
    backend = EndpointBackend(config, DIPLOMACY_TEXT, temperature=temperature, tokenizer=tokenizer, first_wait=0.01)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def client(server, **options):
    """Return a client without a key; call `client.ask("/completions", BODY, seconds)`."""
    yield Client(server.url, Key(""), **options)


def server(quirks=(), *, pieces=343, **options):
    return Loopback(LoopbackModel(byte_tokenizer(pieces), quirks), **options)


def settled(host):
    """Return the number of requests sent to a server, after pending ones of an ended command have arrived."""
    count = -1
    while count < (count := len(host.bodies)):
        time.sleep(0.3)
    return count


def requests(count, *, winter=0, lines=1, seed=0):
    """Return requests of real positions: movements and retreats, or winters."""
    found = [(text, asked) for text, asked in random_choices() if asked.winter == winter and asked.lines >= lines]
    return [Prompt(text, asked, seed + place) for place, (text, asked) in enumerate(found[:count])]


def legal(request, decision):
    """Return whether a decision is one sequence of lines of its request's menus."""
    last = -1
    for line, option in enumerate(decision.chosen):
        if option not in request.menu.menu(line, last):
            return False
        last = option.slot
    return len(decision.chosen) == request.menu.lines
