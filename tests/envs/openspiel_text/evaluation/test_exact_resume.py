"""An exact policy of a served model resumes after interruption, and its table has tokens and cost."""

import json

import pytest

pytest.importorskip("pyspiel")

from sparring.eval.run import main
from tests.agents.language.asking import server, settled

WORDS = ["--env", "openspiel_text", "--device", "cpu", "--threads", "1", "--exact", "--answers", "reasoning", "--seed"]
ASKED = ["endpoint.api=chat", "endpoint.structured=none", "endpoint.model=toy", "endpoint.concurrency=2"]


def words(host, out, *more, seed="1", samples="2"):
    asked = [*ASKED, "endpoint.answer_price=3", *more]
    return [*WORDS, seed, "--ckpt", host.url, "--samples", samples, "--out", str(out), "--set", *asked]


def cut(host, out):
    """Return the number of requests of an evaluation that ends with an error, including pending ones."""
    assert main(words(host, out)) == 2
    return settled(host)


def test_interrupted_policy_resumes_without_repeated_requests(tmp_path, capsys):
    with server(faults=[""] * 10 + ["not_found"]) as host:
        asked = cut(host, tmp_path)
        assert "to go on: " in capsys.readouterr().err
        host.faults.clear()
        assert main(words(host, tmp_path)) == 0
        kept = 12 * 2 - (len(host.bodies) - asked)
        assert kept >= 9  # of two requests at a time, one may be under way when the other fails
        assert f"{kept} answers are taken from {tmp_path / 'openspiel_text.answers.jsonl'}" in capsys.readouterr().err
    counted = json.loads((tmp_path / "openspiel_text.json").read_text())["endpoint"]
    assert counted["endpoint/decisions"] == 24
    assert counted["endpoint/cost"] == pytest.approx(3e-6 * counted["endpoint/completion_tokens"])
    assert "Tokens: " in (tmp_path / "openspiel_text.md").read_text()
    assert not list(tmp_path.glob("*.answers.jsonl"))


@pytest.mark.parametrize(
    ("changes", "name"), [({"seed": "2"}, "--seed=2"), ({"more": ["endpoint.max_tokens=9"]}, "endpoint.max_tokens=9")]
)
def test_answers_with_other_options_are_rejected(changes, name, tmp_path, capsys):
    with server(faults=[""] * 5 + ["not_found"]) as host:
        before = cut(host, tmp_path)
        capsys.readouterr()
        assert main(words(host, tmp_path, *changes.pop("more", ()), **changes)) == 2
        assert len(host.bodies) == before
    said = capsys.readouterr().err
    assert f"{name}: {tmp_path / 'openspiel_text.answers.jsonl'} holds answers with " in said
    assert "to go on: " not in said


def test_more_samples_reuse_existing_answers(tmp_path):
    """An answer's seed depends on its state and number, not on the number of samples."""
    with server(faults=[""] * 10 + ["not_found"]) as host:
        asked = cut(host, tmp_path)
        host.faults.clear()
        assert main(words(host, tmp_path, samples="3")) == 0
        assert len(host.bodies) - asked < 36
