"""Chess language models on a server: their English prompts, and their answers as moves."""

import io
import json
import re
from functools import partial

import chess.pgn
import pytest

from sparring.envs.chess.evaluation.models import move_prompt
from sparring.eval.run import main as run_main
from tests.envs.hubs.chat_server import chat_server

main = partial(run_main, env="chess")
ASKED = ["--set", "endpoint.api=chat", "endpoint.structured=none", "endpoint.model=fake"]
GAMES = ["--games", "2", "--plies", "12", "--opponents", "random"]


def last_move(prompt):
    """Return the last legal move listed in a prompt."""
    return re.search(r"Legal moves: .*?(\w+)\n", prompt)[1]


def evaluated(folder, write, *words):
    """Return results of an evaluation of a chat server that answers with `write`."""
    with chat_server(write) as (url, _):
        assert main(["--ckpt", url, *ASKED, *GAMES, "--out", str(folder), *words]) == 0
    return json.loads((folder / "chess.json").read_text())


@pytest.mark.parametrize("form", ["menu", "reasoning"])
def test_server_plays_its_move_after_price_is_stated(form, tmp_path, capsys):
    files = ["--pgn", str(tmp_path / "g.pgn"), "--transcripts", str(tmp_path / "t.jsonl"), "--answers", form]
    data = evaluated(tmp_path, lambda prompt: f"{'Hm.' * (form == 'reasoning')}\n{last_move(prompt)}", *files)
    assert "2 games of each pair: about 8 requests, about " in capsys.readouterr().err  # twice 4 of 12 half-moves
    assert data["answers"] == {"legal": 8, "illegal": 0, "cut": 0, "missing": 0}
    assert data["endpoint"]["endpoint/decisions"] == 8
    pgn, games = io.StringIO((tmp_path / "g.pgn").read_text()), []
    while game := chess.pgn.read_game(pgn):
        games.append(game)
    for side, game in zip((chess.WHITE, chess.BLACK), games, strict=True):
        for node in list(game.mainline())[4:]:
            if node.turn() != side:  # the player has moved
                assert node.move.uci() == max(move.uci() for move in node.parent.board().legal_moves)
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert sorted((line["game"], line["seat"]) for line in lines) == [(0, 0)] * 4 + [(1, 1)] * 4
    assert [path.name for path in tmp_path.iterdir() if "answers" in path.name] == []  # kept until the games are over


def test_illegal_answer_loses_and_is_counted_by_kind(tmp_path):
    data = evaluated(tmp_path, lambda prompt: "e7e5" if "You are white" in prompt else "", "--quiet")
    assert data["answers"] == {"legal": 0, "illegal": 1, "cut": 0, "missing": 1}
    assert data["records"][0]["lost"]["games"] == 2


def test_prompt_has_position_and_all_legal_moves():
    prompt = move_prompt(chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"), "menu")
    assert "Legal moves: e1d1, e1d2, e1f1, e1f2, e2e3, e2e4\n<move>\n" in prompt
    assert "FEN: 4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\n" in prompt
    assert "You are white." in prompt
