"""A served language model in the evaluation: addressed by URL, with run options and counted failures."""

import json
import re
from functools import partial

import pytest

from sparring.envs.diplomacy.evaluation.options import read_settings
from sparring.eval.run import main as run_main
from tests.agents.language.asking import server

main = partial(run_main, env="diplomacy")

QUICK = ["--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu", "--protocol", "alone", "--quiet"]
NO_MASK = ["--set", "endpoint.structured=none", "endpoint.retries=0"]


def evaluated(url, folder, *arguments):
    code = main(["--ckpt", url, "--opponents", "dumbbot", *QUICK, "--out", str(folder), *arguments])
    return code, folder / "diplomacy.json"


def test_server_plays_and_answers_are_counted(tmp_path):
    page = tmp_path / "game.html"
    with server() as running:
        code, file = evaluated(running.url, tmp_path, "--set", "endpoint.structured=regex", "--replay", str(page))
    assert code == 0
    content = json.loads(file.read_text())
    assert content["records"][0]["alone"]["centres"]["value"] > 0
    assert content["language_model"]["model"] == f"toy at {running.url}"
    counted = content["language_model"]["endpoint"]
    asked_for_its_name = 1
    assert counted["endpoint/requests"] == counted["endpoint/decisions"] + asked_for_its_name > 7
    assert counted["endpoint/fallbacks"] == 0
    assert page.stat().st_size > 10_000


def test_fallbacks_are_reported(tmp_path):
    """Two answers are unusable: the table counts them by cause and names the option."""
    with server(faults=["only_reasoning", "illegal"]) as running:
        options = ["endpoint.structured=regex", "endpoint.model=toy"]
        code, file = evaluated(running.url, tmp_path, "--set", *options)
    assert code == 0
    counted = json.loads(file.read_text())["language_model"]["endpoint"]
    assert counted["endpoint/fallbacks"] == 2
    decisions = int(counted["endpoint/decisions"])
    said = (
        f" 2 of {decisions} decisions were not the server's but the fallback: hold, or WAIVE (1 illegal, 1 truncated);"
    )
    text = (tmp_path / "diplomacy.md").read_text().replace("\n", " ")
    assert said in text
    for kind, count in (("illegal", 1), ("cut", 1), ("missing", 0), ("legal", decisions - 2)):
        assert re.search(rf"\| {kind} +\| +{count} \|", text)
    assert f"Tokens: {counted['endpoint/prompt_tokens']:,.0f} prompt," in text
    assert "endpoint.max_tokens" in text


@pytest.mark.parametrize(
    ("always", "why"),
    [("only_reasoning", r"\d+ truncated[,)].* raise "), ("illegal", r"\d+ illegal[,)].*not the model's")],
)
def test_games_of_fallbacks_only_are_error(always, why, tmp_path, capsys):
    """Such games only measure holding units; nothing is written, and the first round suffices to detect it."""
    with server(always=always) as running:
        code, _ = evaluated(running.url, tmp_path, *NO_MASK, "endpoint.model=toy", "--games", "700")
        asked = len(running.bodies)
    assert code == 2
    *_, line = capsys.readouterr().err.splitlines()
    # A busy machine may lose a connection: that decision is a fallback as well, and not asked.
    counted = re.match(r"eval/run.py: endpoint: (\d+) of \1 decisions were not the server's", line)
    assert counted
    assert int(counted[1]) >= asked > 0
    assert re.search(why, line)
    assert not list(tmp_path.glob("*"))


def test_unreachable_server_gives_one_line_error(tmp_path, capsys):
    with server() as stopped:
        pass
    code, file = evaluated(stopped.url, tmp_path, *NO_MASK)
    assert code == 2
    assert "eval/run.py: endpoint: " in capsys.readouterr().err
    assert not file.exists()


def test_settings_are_read_like_run_settings():
    assert read_settings([("model.compact", "false"), ("endpoint.model", "a=b")]) == {
        "model": {"compact": False},
        "endpoint": {"model": "a=b"},
    }
