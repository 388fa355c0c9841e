"""A benchmark of a served model survives kill -9: no answer is paid twice, and the table is equal."""

import json
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from sparring.configs.core.files import ROOT
from sparring.eval.run import main as run_main
from tests.agents.language.asking import server, settled

main = partial(run_main, env="diplomacy")
GAMES = ["--games", "7", "--last-year", "1902", "--threads", "1", "--device", "cpu", "--protocol", "alone"]
AT_ONCE = 4
ASKED = ["endpoint.structured=regex", "endpoint.model=toy", f"endpoint.concurrency={AT_ONCE}"]


def words(url, out, *more):
    return ["--ckpt", url, "--opponents", "dumbbot", *GAMES, "--out", str(out), "--set", *ASKED, *more]


def results(out):
    content = json.loads((out / "diplomacy.json").read_text())
    counted = content["language_model"].pop("endpoint")
    names = ("prompt_tokens", "completion_tokens", "decisions", "fallbacks", "orders_due", "orders_read")
    content.pop("command")
    return content, {name: counted[f"endpoint/{name}"] for name in names}


def killed_after(count, host, out):
    """Start the evaluation in a process, and kill it after `count` server requests."""
    command = [sys.executable, "eval/run.py", "--env", "diplomacy", *words(host.url, out)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while len(host.bodies) < count and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL, process.stderr.read().decode()


def test_killed_benchmark_resumes_without_paying_twice(tmp_path, capsys):
    with server(delay=0.05) as host:
        killed_after(15, host, tmp_path / "cut")
        asked = settled(host)
        lines = (tmp_path / "cut" / "diplomacy.answers.jsonl").read_text().splitlines()
        answered = sum('"text"' in line for line in lines)
        assert asked - AT_ONCE <= answered <= asked
        host.delay = 0.0
        assert main(words(host.url, tmp_path / "cut")) == 0
        said = capsys.readouterr().err
        total = len(host.bodies)
        assert main(words(host.url, tmp_path / "whole")) == 0
        uncut = len(host.bodies) - total
    assert f"{answered} answers are taken from" in said
    assert total == uncut + asked - answered
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    assert not list((tmp_path / "cut").glob("*.answers.jsonl"))


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (["--last-year", "1901"], "--last-year=1901"),
        (["--seed", "3"], "--seed=3"),
        (["--opponents", "chaos"], "--opponents=chaos"),
        (["--protocol", "both"], "--protocol=both"),
        (["--temperature", "0.5"], "--temperature=0.5"),
        (["--set", *ASKED, "model.show_valid_moves=true"], "model.show_valid_moves=true"),
        (["--set", *ASKED, "endpoint.max_tokens=77"], "endpoint.max_tokens=77"),
    ],
)
def test_interrupted_benchmark_with_other_options_is_rejected(more, name, tmp_path, capsys):
    with server(faults=[""] * 20, always="not_found") as host:
        assert main(words(host.url, tmp_path)) == 2
        before = settled(host)
        capsys.readouterr()
        assert main([*words(host.url, tmp_path), *more]) == 2
        assert len(host.bodies) == before
    *_, line = [line for line in capsys.readouterr().err.splitlines() if line.startswith("eval/run.py: ")]
    assert line.startswith(f"eval/run.py: {name}: ")
    assert f"holds answers with {name.partition('=')[0]}=" in line


def test_price_precedes_first_decision_and_table_has_all_kinds(tmp_path, capsys):
    faults = ["illegal", "cut", "empty", "refusing"]
    with server(faults=faults) as host:
        prices = ["endpoint.prompt_price=2", "endpoint.answer_price=8", "endpoint.retries=0"]
        assert main(words(host.url, tmp_path, *prices)) == 0
        requests = len(host.bodies)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "games of each pair" in line]
    assert line.startswith("7 games of each pair: about ")
    forecast = int(line.split("about ")[1].split()[0].replace(",", ""))
    assert forecast == pytest.approx(requests, rel=0.5)
    assert "of answers, at most $" in line
    text = (tmp_path / "diplomacy.md").read_text()
    decisions = json.loads((tmp_path / "diplomacy.json").read_text())["language_model"]["endpoint"]
    rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in text.splitlines() if line[:1] == "|"}
    assert {kind: rows[kind] for kind in ("illegal", "cut", "missing", "withheld", "tool call", "no answer")} == {
        "illegal": "1",
        "cut": "1",
        "missing": "1",
        "withheld": "0",
        "tool call": "0",
        "no answer": "1",
    }
    assert rows["legal"] == f"{int(decisions['endpoint/decisions']) - 4}"
    assert f"Cost: at least ${decisions['endpoint/cost']:.2f}." in text  # those of the faults have no full count


def test_missing_folder_warns_that_answers_are_not_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with server() as host:
        assert main(["--ckpt", host.url, "--opponents", "dumbbot", *GAMES, "--set", *ASKED]) == 0
    assert "answers of the server are not kept; give --out DIR to resume later" in capsys.readouterr().err
    assert not list(tmp_path.glob("*"))
