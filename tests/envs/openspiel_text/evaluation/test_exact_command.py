"""`eval/run.py --env openspiel_text --exact`: report, errors, and server price."""

import json
from collections import Counter

import pytest

pytest.importorskip("pyspiel")
pytest.importorskip("transformers")

from sparring.envs.openspiel_text.config import REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.evaluation.command import price
from sparring.envs.openspiel_text.evaluation.options import OpenSpielTextOptions
from sparring.envs.openspiel_text.exact import TextDecisions
from sparring.eval.run import main

WORDS = ["--env", "openspiel_text", "--device", "cpu", "--threads", "1"]


def test_report_of_tiny_model_in_kuhn_poker(tmp_path, capsys):
    words = ["--env", "kuhn_text", "--device", "cpu", "--threads", "1"]
    assert main([*words, "--ckpt", "tiny", "--exact", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "openspiel_text.json").read_text())
    assert (data["kind"], data["schema_version"], data["game"], data["exact"]) == (
        "openspiel_text",
        1,
        "kuhn_poker",
        True,
    )
    assert data["uniform"]["exploitability"] == pytest.approx(0.458333, abs=1e-6)
    gains = [best - value for best, value in zip(data["best_responses"], data["values"], strict=True)]
    assert sum(gains) == pytest.approx(data["nash_conv"])
    assert data["exploitability"] == pytest.approx(data["nash_conv"] / 2)
    losses = [row["loss"] for row in data["worst"]]
    assert len(losses) == 10
    assert losses == sorted(losses, reverse=True)
    assert sum(losses) <= data["nash_conv"] + 1e-9
    text = capsys.readouterr().out
    assert (tmp_path / "openspiel_text.md").read_text() in text
    assert f"| tiny    |         {data['exploitability']:.4f} |" in text
    assert "Your card: King" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--exact"], "--ckpt is missing: name a run, a model's folder, tiny, smollm2, or a server's address"),
        (
            ["--ckpt", "tiny", "--exact", "--id", "kuhn_pokr"],
            "--id kuhn_pokr: is not a game of OpenSpiel; did you mean",
        ),
        (["--ckpt", "tiny", "--exact", "--id", "tarok"], "--id tarok: draws chance in the middle of a turn"),
        (["--ckpt", "tiny", "--exact", "--id", "chess"], "chess: has too many positions for an exact policy"),
        (["--ckpt", "bot:random", "--exact"], "--ckpt bot:random: is a bot"),
        (["--ckpt", "tiny", "--exact", "--samples", "1"], "--samples 1: must be in [2, 100000]"),
        (["--ckpt", "tiny", "--exact", "--set", "model.size=3"], "size"),
        (["--ckpt", "tiny", "--exact", "--prompt-price", "2"], "--prompt-price: a server's prices are --set endpoint."),
        (["--ckpt", "tiny", "--exact", "--transcripts", "a.jsonl"], "--transcripts: requires --ckpt with a server"),
        (["--ckpt", "http://127.0.0.1:1/v1", "--exact", "--transcripts", "a.txt"], "must end in .jsonl"),
        (
            ["--env", "kuhn_text", "--exact", "--id", "leduc_poker"],
            "--env kuhn_text: is the game kuhn_poker; leave out",
        ),
        (["--env", "kuhn_txt", "--exact"], "did you mean 'kuhn_text'?"),
    ],
)
def test_bad_input_gives_one_line_error(words, message, capsys):
    assert main([*WORDS, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_alias_selects_openspiel_game():
    games = {"kuhn_text": "kuhn_poker", "leduc_text": "leduc_poker", "openspiel_text": ""}
    for env, game in games.items():
        options = OpenSpielTextOptions(env=env, ckpt="tiny", exact=True)
        assert (options.id, f"--env {env}" in options.command, "--id" in options.command) == (game, True, False)
    assert OpenSpielTextOptions(env="leduc_text", ckpt="tiny", exact=True, id="leduc_poker").id == "leduc_poker"


def test_server_price_is_stated_before_requests():
    answer = OpenSpielAnswerConfig(REASONING, 100)
    decisions = TextDecisions.of("kuhn_poker", {}, answer)
    characters = sum(len(prompt.text) for prompt in decisions.prompts)
    options = OpenSpielTextOptions(
        ckpt="http://127.0.0.1:1/v1",
        exact=True,
        samples=8,
        set=("endpoint.prompt_price=2", "endpoint.answer_price=10", "endpoint.structured=none"),
    )
    prompts, answers = 8 * characters // 4, 12 * 8 * 100
    dollars = (prompts * 2.0 + answers * 10.0) / 1e6
    assert price(options, decisions, answer) == (
        f"12 prompts: 96 requests, about {prompts:,} prompt tokens and at most {answers:,} of answers, at most "
        f"${dollars:.2f}"
    )
    free = OpenSpielTextOptions(ckpt="http://127.0.0.1:1/v1", exact=True)
    menus = price(free, decisions, OpenSpielAnswerConfig())
    assert menus.startswith("12 prompts: at most 16 requests, ")  # two actions each: one fork; and four of the trial
    assert menus.endswith(
        "at most 22 of answers; to see the price, add --set endpoint.prompt_price=USD endpoint.answer_price=USD"
    )
    limited = OpenSpielTextOptions(
        ckpt="http://127.0.0.1:1/v1", exact=True, samples=8, set=("endpoint.max_tokens=9", "endpoint.structured=none")
    )
    assert f"at most {12 * 8 * 9} of answers" in price(limited, decisions, answer)


def test_price_only_sends_no_request(capsys):
    """No server listens at this address."""
    server = [*WORDS, "--ckpt", "http://127.0.0.1:1/v1", "--price", "--set", "endpoint.prompt_price=1"]
    assert main([*server, "--exact"]) == 0
    assert (
        main([*server, "--games", "8", "--id", "tic_tac_toe", "--opponents", "openspiel:uniform,openspiel:mcts:2"]) == 0
    )
    assert main([*server, "--sprt", "elo1=5", "--max-games", "250"]) == 0
    exact, matches, test = filter(None, capsys.readouterr().out.splitlines())
    assert exact.startswith("12 prompts: at most 16 requests, ")
    assert matches.startswith("16 games, estimated from random ones: ")
    assert test.startswith("at most 200 games, estimated from random ones: ")


def test_menu_price_counts_one_request_per_fork():
    """Two actions are one fork, three at most two."""
    decisions = TextDecisions.of("leduc_poker", {}, OpenSpielAnswerConfig())
    counts = Counter(len(prompt.position.legal_actions()) for prompt in decisions.prompts)
    options = OpenSpielTextOptions(ckpt="http://127.0.0.1:1/v1", exact=True)
    requests = counts[2] + 2 * counts[3] + 4  # the trial
    assert counts.keys() == {2, 3}
    assert f": at most {requests:,} requests, " in price(options, decisions, OpenSpielAnswerConfig())
