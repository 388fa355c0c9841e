"""Matches of a model against references: values by hand, large games, servers, bad input."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pyspiel")

from sparring.envs.openspiel_text.evaluation import matches
from sparring.eval.run import main
from tests.envs.hubs.chat_server import chat_server

WORDS = ["--env", "openspiel_text", "--device", "cpu", "--threads", "1"]


class Backend:
    """A model that always picks a menu's last action, and writes `text`."""

    def __init__(self, text=""):
        self.text = text

    def policies(self, prompts):
        counts = [len(prompt.menu.options) for prompt in prompts]
        return [np.arange(count) == count - 1 for count in counts]

    def decide(self, prompts):
        return [SimpleNamespace(text=self.text, finish_reason="stop") for _ in prompts]

    def close(self):
        pass


@pytest.fixture
def model(monkeypatch):
    def use(backend):
        monkeypatch.setattr(
            matches, "open_model", lambda *_, **__: SimpleNamespace(name="tiny", backend=backend, endpoint=None)
        )

    return use


def evaluated(tmp_path, *words):
    assert main([*WORDS, "--ckpt", "tiny", "--out", str(tmp_path), "--quiet", *words]) == 0
    return json.loads((tmp_path / "openspiel_text.json").read_text())


@pytest.mark.parametrize("form", ["menu", "reasoning"])
def test_always_betting_beats_uniform_kuhn_by_three_eighths(model, tmp_path, form):
    """Its bet is folded to half of the time, which pays 1, and a showdown pays 0 on average.

    In seat 0 it always bets: 1 / 2. In seat 1 half of the games begin with a pass, and half of these end with a fold:
    1 / 4.
    """
    model(Backend("I think.\nBet"))
    data = evaluated(tmp_path, "--games", "3000", "--answers", form)
    (record,) = data["records"]
    assert (record["opponent"], record["games"], data["answer"]) == ("openspiel:uniform", 3000, form)
    first, second = (seat["mean_reward"] for seat in record["by_seat"])
    assert (first, second) == (pytest.approx(1 / 2, abs=0.12), pytest.approx(1 / 4, abs=0.15))
    low, high = record["mean_reward_interval"]
    assert low < record["mean_reward"] < high


@pytest.mark.parametrize("form", ["menu", "reasoning"])
def test_game_too_large_for_exact_policy_is_played(model, tmp_path, form):
    model(Backend("x"))
    words = ["--id", "connect_four", "--games", "4", "--opponents", "openspiel:mcts:2,openspiel:uniform"]
    data = evaluated(tmp_path, *words, "--answers", form)
    assert [record["games"] for record in data["records"]] == [4, 4]
    if form == "reasoning":  # a random move replaces each answer
        assert data["answers"]["illegal"] > 20
        assert sum(data["answers"].values()) == data["answers"]["illegal"]
    else:
        assert "answers" not in data


def test_failed_requirement_exits_with_1(model, tmp_path):
    model(Backend())
    words = [*WORDS, "--ckpt", "tiny", "--games", "200", "--quiet", "--out", str(tmp_path)]
    assert main([*words, "--require", "openspiel:uniform>=1.0"]) == 1
    assert main([*words, "--require", "score:openspiel:uniform>=0"]) == 0


def test_chat_server_plays_after_price_is_stated(capsys, tmp_path):
    with chat_server(lambda text: f"Hm.\n{re.search('Legal moves: .*, (.+)', text)[1]}") as (url, requests):
        words = ["--ckpt", url, "--set", "model.name=fake", "endpoint.api=chat", "endpoint.structured=none"]
        words += ["endpoint.prompt_price=1", "endpoint.answer_price=2", "--answers", "reasoning", "--games", "4"]
        assert main([*WORDS, *words, "--id", "tic_tac_toe", "--out", str(tmp_path)]) == 0
    error = capsys.readouterr().err
    price = re.search(r"4 games, estimated from random ones: (\d+) requests, about [\d,]+ prompt tokens", error)
    assert 8 <= int(price[1]) <= 20  # 5 to 9 moves of two seats
    data = json.loads((tmp_path / "openspiel_text.json").read_text())
    assert data["answers"]["legal"] >= 8
    assert sum(data["answers"].values()) == data["answers"]["legal"]
    assert len(requests) >= data["answers"]["legal"]
    assert data["endpoint"]["endpoint/completion_tokens"] + data["endpoint"]["endpoint/uncounted_answers"] > 0
    assert [path.name for path in tmp_path.iterdir() if "answers" in path.name] == []  # kept until the games are over


@pytest.mark.parametrize("words", [["--sprt", "elo1=5", "--max-games", "40"], ["--ladder"]])
def test_test_or_ladder_keeps_no_answers(words, tmp_path):
    with chat_server(lambda text: "Bet") as (url, _):
        asked = ["--ckpt", url, "--set", "model.name=fake", "endpoint.api=chat", "endpoint.structured=none", "--quiet"]
        games = ["--answers", "reasoning", "--games", "20", "--out", str(tmp_path)]
        main([*WORDS, *asked, *games, *words])
    assert not list(tmp_path.glob("*.answers.jsonl"))
    assert {path.stem for path in tmp_path.iterdir()} == {words[0].removeprefix("--")}


def test_server_without_log_probs_plays_from_menus(tmp_path):
    """It always answers Bet, which is legal everywhere in Kuhn poker."""
    with chat_server(lambda text: "Bet\n</move>") as (url, _):
        words = ["--ckpt", url, "--set", "model.name=fake", "endpoint.api=chat", "endpoint.structured=none", "--quiet"]
        assert main([*WORDS, *words, "--games", "20", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "openspiel_text.json").read_text())
    assert data["answers"] == {"legal": data["answers"]["legal"], "illegal": 0, "cut": 0, "missing": 0}
    assert 20 <= data["answers"]["legal"] <= 40
    assert data["records"][0]["by_seat"][0]["draws"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--ckpt is missing: name a run, a model's folder, tiny, smollm2, or a server's address"),
        (["--ckpt", "bot:random"], "--ckpt bot:random: is a bot"),
        (["--ckpt", "tiny", "--samples", "5"], "--samples goes with --exact; give --games for matches"),
        (["--ckpt", "tiny", "--games", "3"], "--games 3: must be a multiple of 2, the seats of a match; give 4"),
        (["--ckpt", "tiny", "--games", "0"], "--games 0: must be in [1, 1000000]"),
        (["--ckpt", "tiny", "--id", "tarok"], "--id tarok: draws chance in the middle of a turn"),
        (["--ckpt", "tiny", "--id", "crazy_eights"], "--id crazy_eights: has no text of what a player knows"),
        (["--ckpt", "tiny", "--id", "chess", "--opponents", "openspiel:ismcts:9"], "needs a game with information"),
        (["--ckpt", "tiny", "--opponents", "openspiel:foo"], "unknown player of OpenSpiel 'foo'"),
        (["--ckpt", "tiny", "--opponents", "nobody"], "nobody: expected openspiel:uniform"),
        (["--ckpt", "tiny", "--exact", "--games", "4"], "--games does not go with --exact, which plays no matches"),
        (["--ckpt", "tiny", "--exact", "--opponents", "tiny"], "--opponents does not go with --exact"),
        (["--ckpt", "tiny", "--workers", "2"], "--workers"),
    ],
)
def test_bad_input_gives_one_line_error(model, words, message, capsys):
    model(Backend())
    assert main([*WORDS, *words, "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
