"""A server that echoes the API key in any place or spelling: no output of a run contains it."""

import html
import json
import re
import traceback
from functools import partial
from urllib.parse import quote

import pytest

from sparring.agents.language.endpoint.key import HIDDEN, Key
from sparring.configs.core.errors import InputError
from sparring.eval.run import main as run_main
from tests.agents.language.asking import endpoint, requests, server
from tests.agents.language.endpoint.loopback_model import byte_tokenizer

main = partial(run_main, env="diplomacy")

CANARY = "sk-Canary7f31-Qd9xZ2m_8"
VARIABLE = "SPARRING_TEST_KEY"
PLACES = [
    *("key_in_status", "key_as_protocol", "key_in_headers", "key_in_long_header", "key_in_error", "key_at_the_cut"),
    *("key_many_times", "key_as_name", "key_as_text", "key_as_finish", "key_as_type", "key_as_token"),
]
SPELLINGS = {
    "as it is": CANARY,
    "upper case": CANARY.upper(),
    "lines": "\n".join(CANARY),
    "no width": "\u200b".join(CANARY),
    "joiners": "\u2060\ufeff\u00ad".join(CANARY),
    "percent": "".join(f"%{ord(char):02x}" for char in CANARY),
    "percent twice": quote("".join(f"%{ord(char):02X}" for char in CANARY)),
    "percent no width": quote("\u200b".join(CANARY)),
    "words": CANARY[:9] + " " + CANARY[9:15] + " , " + CANARY[15:],
    "json": json.dumps("\u200b".join(CANARY)),
    "json twice": json.dumps(json.dumps("\n".join(CANARY))),
    "code points": "".join(f"\\u{ord(char):04x}" for char in CANARY),
    "html": "".join(f"&#{ord(char)};&shy;" for char in CANARY) + html.escape('"'),
    "wide": "".join(chr(ord(char) + 0xFEE0) for char in CANARY),
    "fillers": "\u3164".join(CANARY),
    "colours": "\x1b[31m".join(CANARY),
    "beginning": CANARY[:12],
    "end": CANARY[-12:],
}


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    monkeypatch.setenv(VARIABLE, CANARY)


def tells(text):
    """Whether eight letters and digits of the key in a row are in a text, after undoing every spelling above.

    Independent of the filter: it decodes with the standard library and compares what is left.
    """
    for _ in range(3):
        text = re.sub(r"\x1b\[\d+m", "", text)
        text = re.sub(r"%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), html.unescape(text))
    text = re.sub(r"\\+[nrt]", "", "".join(chr(ord(char) - 0xFEE0) if "！" <= char <= "～" else char for char in text))
    plain = re.sub(r"[^A-Za-z0-9]", "", text).lower()
    own = re.sub(r"[^A-Za-z0-9]", "", CANARY).lower()
    return any(own[first : first + 8] in plain for first in range(len(own) - 7))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_filter_hides_key_that_test_would_detect(spelling):
    text = f"before {SPELLINGS[spelling]} after"
    assert tells(text)
    hidden = Key(VARIABLE).hide(text)
    assert not tells(hidden)
    assert HIDDEN in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")


@pytest.mark.parametrize(
    "text", ["A PAR - BUR\nF LON H\n", "wrong key", "100 % of %d, \\path\\new", "", "Ünïcode ☃", "sk-cana"]
)
def test_other_text_is_unchanged(text):
    assert Key(VARIABLE).hide(text) == text


def test_key_is_hidden_quickly_in_long_text():
    """Four megabytes take no longer than the standard library's search."""
    text = "as a language model " * 200_000
    assert Key(VARIABLE).hide(text) == text
    assert Key(VARIABLE).hide(text + CANARY) == HIDDEN


@pytest.mark.parametrize(("key", "text", "shown"), [("EMPTY", "key EMPTY, emptyish", "key [key], emptyish")])
def test_short_key_is_hidden_as_word(monkeypatch, key, text, shown):
    monkeypatch.setenv(VARIABLE, key)
    assert Key(VARIABLE).hide(text) == shown


def test_three_character_key_is_rejected_without_echo(monkeypatch):
    monkeypatch.setenv(VARIABLE, "q7z")
    with pytest.raises(InputError, match="fewer than 4 characters") as caught:
        Key(VARIABLE)
    assert "q7z" not in str(caught.value)


def whole(error):
    """Return everything an exception carries, including what a traceback would not show."""
    told = [*traceback.format_exception(error)]
    while error is not None:
        told += [str(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return "".join(told)


@pytest.mark.parametrize("place", PLACES)
def test_exceptions_decisions_and_metrics_hide_key(place, logged, capfd):
    told = []
    # Not every byte can stand in a header; the server would fail, not the run.
    options = {"structured": "none", "key_env": VARIABLE, "retries": 0}
    with server(always=place, told=SPELLINGS["words"]) as host, endpoint(host, **options) as backend:
        try:
            told += map(repr, backend.decide(requests(4)))
        except InputError as error:
            told.append(whole(error))
        told += [repr(backend.metrics()), backend.name, backend.why_inexact]
    assert told
    assert not tells("".join([*told, *capfd.readouterr(), logged.getvalue()]))


@pytest.mark.parametrize("place", PLACES)
def test_tokenizer_check_hides_key(place):
    options = {"structured": "regex", "key_env": VARIABLE, "retries": 0, "tokenizer": byte_tokenizer()}
    with server(always=place, told=CANARY) as host:
        try:
            with endpoint(host, **options) as backend:
                told = backend.why_inexact
        except InputError as error:
            told = whole(error)
    assert not tells(told)


@pytest.mark.parametrize(
    "names", [(CANARY,), (CANARY, "toy"), ("toy", CANARY[:12], CANARY[12:]), ("a", CANARY.upper())]
)
def test_model_is_not_named_after_key(names):
    with server(names=names) as host, pytest.raises(InputError) as caught, endpoint(host, key_env=VARIABLE):
        pass
    assert not tells(whole(caught.value))


@pytest.mark.parametrize("place", ["key_in_error", "key_as_text"])
def test_evaluation_output_hides_key(place, tmp_path, capfd):
    """Run the command itself and check its exit, output and files; the other tests cover each place."""
    settings = ["endpoint.structured=none", "endpoint.retries=0", f"endpoint.key_env={VARIABLE}", "endpoint.model=toy"]
    quick = ["--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu", "--protocol", "alone"]
    with server(told=CANARY, faults=[""] * 20, always=place) as host:
        page = tmp_path / "game.html"
        arguments = ["--ckpt", host.url, "--opponents", "dumbbot", *quick, "--out", str(tmp_path)]
        assert main([*arguments, "--replay", str(page), "--set", *settings]) in (0, 2)
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not tells("".join([printed, *(path.read_text(errors="replace") for path in files if path != page)]))
    # A page holds pictures and scripts, whose letters in a row mean nothing.
    assert not any(CANARY in path.read_text(errors="replace") for path in files)
