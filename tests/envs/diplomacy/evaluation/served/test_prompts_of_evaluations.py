"""Evaluation-only prompts: past orders, and instructions from a file."""

import json
from functools import partial

import pytest

from sparring.eval.run import main as run_main
from tests.agents.language.asking import server

main = partial(run_main, env="diplomacy")
GAMES = ["--games", "7", "--last-year", "1902", "--threads", "1", "--device", "cpu", "--quiet", "--protocol", "alone"]
ASKED = ["--set", "endpoint.structured=regex", "endpoint.model=toy"]


def evaluated(folder, *words):
    """Return decisions of an evaluation with a loopback server, and its exit code."""
    file = folder / "t.jsonl"
    with server() as host:
        code = main(["--ckpt", host.url, "--opponents", "dumbbot", *GAMES, "--transcripts", str(file), *words])
    return code, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_prompts_show_orders_of_last_phases(tmp_path):
    code, decisions = evaluated(tmp_path, *ASKED, "--past-orders", "1")
    assert code == 0
    spring = {each["game"]: each for each in decisions if "\nspring 1901 of" in each["prompt"]}
    later = [each for each in decisions if "\nspring 1901 of" not in each["prompt"]]
    assert len(spring) == 7
    assert not any("Orders of the last phases" in each["prompt"] for each in spring.values())
    assert all(each["prompt"].count("Orders of the last phases:\n") == 1 for each in later)
    fall = [each for each in later if "\nfall 1901 of" in each["prompt"] and "\nspring 1901: " in each["prompt"]]
    assert fall, "no fall follows a spring without retreats"
    for each in fall:
        (line,) = [line for line in each["prompt"].splitlines() if line.startswith("spring 1901: ")]
        power = each["player"]
        own = next(part for part in line.removeprefix("spring 1901: ").split("; ") if part.startswith(power))
        assert sorted(own.removeprefix(f"{power} ").split(", ")) == sorted(spring[each["game"]]["played"].splitlines())
        assert len(line.split("; ")) == 7
        assert "fall 1901: " not in each["prompt"]


def test_file_replaces_instructions(tmp_path):
    (tmp_path / "p.txt").write_text("Play like Talleyrand.\n\n")
    words = ["--prompt", str(tmp_path / "p.txt")]
    code, decisions = evaluated(tmp_path, *ASKED, "model.compact=false", *words)
    assert code == 0
    for each in decisions:
        assert each["prompt"].startswith("Play like Talleyrand.\n")
        assert "You are one of the seven powers" not in each["prompt"]
        assert each["prompt"].endswith("<orders>\n")


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("Play.", ASKED, "--prompt: model.compact=true has no instructions; give --set model.compact=false"),
        (" \n", [*ASKED, "model.compact=false"], "is empty; give the instructions"),
        (b"\xff\xfe", [*ASKED, "model.compact=false"], "cannot be read"),
        (None, [*ASKED, "model.compact=false"], "cannot be read"),
    ],
)
def test_unusable_instructions_give_one_line_error(text, words, message, tmp_path, capsys):
    file = tmp_path / "p.txt"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _ = evaluated(tmp_path, *words, "--prompt", str(file))
    assert code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("words", [["--past-orders", "2"], ["--prompt", "p.txt"]])
def test_bot_rejects_prompt_options(words, capsys):
    assert main(["--bot", "dumbbot", "--opponents", "chaos", "--games", "7", *words]) == 2
    assert f"{words[0]}: does not apply to bots" in capsys.readouterr().err
