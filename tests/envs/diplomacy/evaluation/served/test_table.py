"""Several language models in one game: seats, counts, interruption, and rejected files."""

import json
from functools import partial

import pytest
import torch

from sparring.envs.diplomacy.evaluation.table import seats_of
from sparring.eval.run import main as run_main
from tests.agents.language.asking import server

main = partial(run_main, env="diplomacy")
GAMES = ["--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu", "--quiet"]
ASKED = "structured: regex, model: toy, concurrency: 8"


def table(path, first, second, *, more=""):
    path.write_text(
        f"first: {{player: '{first.url}', endpoint: {{{ASKED}, answer_price: 5}}}}\n"
        f"second: {{player: '{second.url}', endpoint: {{{ASKED}}}, model: {{compact: false}}}}\n{more}"
    )
    return ["--table", str(path), *GAMES]


@pytest.mark.parametrize("models", [2, 5, 7])
def test_every_model_plays_every_power_equally_often(models):
    seats = seats_of(range(700), models, 3)
    for model in range(models):
        assert torch.bincount(seats[:, model], minlength=7).tolist() == [100] * 7
    assert all(len(set(row)) == models for row in seats.tolist())
    assert torch.equal(seats[14:21], seats_of(range(14, 21), models, 3))
    assert not torch.equal(seats, seats_of(range(700), models, 4))
    apart = (seats[:, 1] - seats[:, 0]) % 7
    assert set(apart.tolist()) == set(range(1, 7)), "the same power is not always beside"


def test_two_models_are_compared_in_same_games(tmp_path):
    with server() as first, server() as second:
        assert main([*table(tmp_path / "t.yaml", first, second), "--out", str(tmp_path / "whole")]) == 0
        asked = len(first.bodies), len(second.bodies)
        prompts = [{body["prompt"][:9] for body in host.bodies} for host in (first, second)]
        first.faults += [""] * 10 + ["not_found"]
        words = [*table(tmp_path / "t.yaml", first, second), "--out", str(tmp_path / "cut")]
        assert main(words) == 2
        first.faults.clear()
        assert main(words) == 0
        assert len(second.bodies) == 2 * asked[1]
    assert prompts[0] == {"Diplomacy"}
    assert prompts[1] == {"You are o"}
    whole, cut = (json.loads((tmp_path / name / "diplomacy_table.json").read_text()) for name in ("whole", "cut"))
    assert [entry["name"] for entry in whole["models"]] == ["first", "second"]
    assert min(entry["side"]["centres"]["value"] for entry in whole["models"]) > 0
    decisions = [entry["endpoint"]["endpoint/decisions"] for entry in whole["models"]]
    assert decisions == [asked[0], asked[1]]
    assert "endpoint/cost" in whole["models"][0]["endpoint"]
    (difference,) = whole["differences"]
    squares = [entry["side"]["squares"]["value"] for entry in whole["models"]]
    assert difference["value"] == pytest.approx(squares[0] - squares[1])
    assert [entry["side"] for entry in cut["models"]] == [entry["side"] for entry in whole["models"]]
    assert "Differences of squares in the same games" in (tmp_path / "whole" / "diplomacy_table.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first: {player: tiny}", "must name 2 to 7 models"),
        ("[tiny, tiny]", "must name 2 to 7 models"),
        ("a: {player: tiny}\nb: {player: dumbbot}", "b: dumbbot is not a language model; a bot plays with --opponents"),
        ("a: {player: tiny}\nb: {player: 'my_bots:Wall'}", "b: my_bots:Wall is not a language model"),
        ("a: {player: tiny}\nb: {player: 'search:seconds=1'}", "b: search:seconds=1 is not a language model"),
        ("a: {player: tiny}\nb: {model: {compact: false}}", "b: lacks its player"),
        ("a: {player: tiny}\nb: {player: tiny, set: 3}", "b: unknown key 'set'; choose from player, model, endpoint"),
        ("a: {player: tiny}\nb: {player: tiny, model: small}", "b: model must have options"),
        ("a: {player: tiny}\n../b: {player: tiny}", "../b: give a name of letters"),
        ("a: {player: tiny", "cannot be read"),
        ("a: {player: tiny}\nb: {player: tiny, model: {size: 3}}", "model.size"),
    ],
)
def test_file_without_table_gives_one_line_error(text, message, tmp_path, capsys):
    (tmp_path / "t.yaml").write_text(text)
    assert main(["--table", str(tmp_path / "t.yaml"), *GAMES]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("eval/run.py: ")]
    assert message in line
