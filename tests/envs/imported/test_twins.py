"""OpenSpiel twins of PettingZoo games: equality, differences, and runs on them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest
import torch

import sparring
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import forget_opponent, register_opponent
from sparring.envs.imported import equality as tests_of_equality
from sparring.envs.imported import twins
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.config import ImportedEnvConfig
from sparring.envs.imported.equality import GAMES, chosen, equality
from sparring.envs.imported.match import make_match
from tests.envs.imported.training.test_imported_task import SMALL, train

CLASSIC = "pettingzoo.classic"
FOUR = f"{CLASSIC}.connect_four_v3"
PAGE = Path(__file__).parents[3] / "docs" / "envs" / "imported.md"
GAMES_OF = {
    "connect_four_v3": "",
    "tictactoe_v3": "",
    "go_v5": "a known game, after 10 moves: the game ends in go but continues in PettingZoo",
    "chess_v6": "a known game, after 7 moves: the game ends in PettingZoo but continues in chess",
    "leduc_holdem_v4": "random game 1, after 0 moves: player_0 may take 0, 2 in PettingZoo but not in leduc_poker",
    "texas_holdem_v4": "random game 2, after 0 moves: player_1 decides, but player_0 in universal_poker",
    "texas_holdem_no_limit_v6": "random game 1, after 0 moves: player_1 decides, but player_0 in universal_poker",
    "rps_v2": "random game 1, after 15 moves: terminated of player_0 is 0, but 1 in repeated_game",
}


@pytest.fixture
def patched_twin(monkeypatch):
    """Return a function that changes a twin's fields and tests it again."""

    def patch(name, **fields):
        tests_of_equality._tested.cache_clear()
        monkeypatch.setitem(twins.TWINS, name, replace(twins.TWINS[name], **fields))

    yield patch
    tests_of_equality._tested.cache_clear()


def test_page_lists_every_twin_with_test_result():
    rows = ["| game of PettingZoo | OpenSpiel | result |", "| --- | --- | --- |"]
    for name, difference in GAMES_OF.items():
        tested = equality(f"{CLASSIC}.{name}", {})
        assert tested.difference == difference
        equal = f"equal in {GAMES} random games; the observation is put together"
        rows.append(f"| `{name}` | `{tested.twin.name}` | {difference or equal} |")
    assert {name.rpartition("_")[0] for name in GAMES_OF} == twins.TWINS.keys()
    assert "\n".join(rows) in PAGE.read_text(), "\n".join(rows)


def test_chess_draw_claim_differs_before_third_repetition():
    board = chess.Board()
    for san in ["Nf3", "Nf6", "Ng1", "Ng8", "Nf3", "Nf6"]:
        board.push_san(san)
        assert not board.can_claim_draw()
    board.push_san("Ng1")
    assert board.can_claim_draw()
    assert not board.is_repetition(3)


def test_option_of_both_games_is_forwarded():
    tested = equality(f"{CLASSIC}.go_v5", {"board_size": 5, "komi": 3})
    assert "after 10 moves: the game ends in go" in tested.difference
    assert twins.make(f"{CLASSIC}.go_v5", {"board_size": 5, "komi": 3}).game.num_distinct_actions() == 26


@pytest.mark.parametrize(
    ("name", "fields", "difference"),
    [
        ("connect_four", {"columns": lambda seat: twins._connect_four_columns(1 - seat)}, "player_1 observes"),
        ("connect_four", {"game": "connect_four(columns=6)"}, "player_0 may take 6 in PettingZoo"),
        ("connect_four", {"game": "connect_four(x_in_row=5)"}, "ends in PettingZoo but continues in connect_four"),
        ("connect_four", {"scale": 0.5}, "rewards of player_0 is"),
        ("connect_four", {"columns": None}, "cannot be built from"),
        ("tictactoe", {"first": 1}, "player_1 decides, but player_2 in tic_tac_toe"),
        ("tictactoe", {"game": "misere(game=tic_tac_toe())"}, "rewards of player_1 is"),
        ("tictactoe", {"game": "phantom_ttt"}, "may take"),
    ],
)
def test_difference_is_named(patched_twin, name, fields, difference):
    patched_twin(name, **fields)
    game = f"{CLASSIC}.{name}_v3"
    assert difference in equality(game, {}).difference
    taken, told = chosen(ImportedEnvConfig(id=game), [])
    assert not taken
    assert told.startswith("env.twin=auto: playing PettingZoo's own matches, since OpenSpiel's")
    with pytest.raises(InputError, match=r"env\.twin=on: OpenSpiel's \w+ differs from .*; set env\.twin=off"):
        chosen(ImportedEnvConfig(id=game, twin="on"), [])
    _, told = chosen(ImportedEnvConfig(id=game), ["rivals:Reader"])
    assert told.endswith("own matches, since rivals:Reader is a Python object that may read them")


@pytest.mark.parametrize("game", ["connect_four_v3", "tictactoe_v3"])
def test_twin_matches_have_same_numbers(game):
    batches = [make_batch("pettingzoo", f"{CLASSIC}.{game}", {}, 6, seed=2, twin=twin) for twin in (False, True)]
    random = np.random.default_rng(1)
    assert batches[0].contract == batches[1].contract
    for _ in range(60):
        own, twin = batches
        for name in ("obs", "deciding", "reward", "terminated", "truncated", "outcome", "length"):
            assert torch.equal(getattr(own, name), getattr(twin, name)), name
        actions = torch.zeros(6, 2, 1)
        for i, seat in own.deciding.nonzero().tolist():
            mask = own.obs[i, seat, own.rows.mask]
            actions[i, seat] = float(random.choice(np.flatnonzero(mask)))
        for batch in batches:
            batch.step(actions)
    state = batches[1].state_dict()
    again = make_batch("pettingzoo", f"{CLASSIC}.{game}", {}, 6, seed=0)
    again.load_state_dict(state)
    assert not again.unsaved
    assert torch.equal(again.obs[again.deciding], batches[1].obs[again.deciding])


def test_twin_match_observes_like_pettingzoo():
    matches = [make_match("pettingzoo", FOUR, {}, twin=twin) for twin in (False, True)]
    for match in matches:
        match.reset(0)
        match.step({0: 3})
    own, twin = (match.observe(1)["observation"] for match in matches)
    assert own.dtype == twin.dtype
    assert np.array_equal(own, twin)
    assert own[5, 3].tolist() == [0, 1]  # the lowest row, the other player's piece
    assert matches[1].mask(1).all()


def test_run_learns_equally_from_twin_and_switches_on_resume(tmp_path, capsys):
    game = ["env=pettingzoo", f"env.id={FOUR}"]
    whole = train(tmp_path, "own", game, "env.twin=off", updates=3)
    assert "env.twin" not in capsys.readouterr().out
    train(tmp_path, "twin", game, "env.workers=2", updates=2)
    assert "env.twin=auto: playing OpenSpiel's connect_four: d" in capsys.readouterr().out
    sparring.train(overrides=["resume=twin", "env.twin=off", f"checkpoint_dir={tmp_path}", "max_updates=3"])
    rows = [json.loads(line) for line in (tmp_path / "twin" / "metrics.jsonl").read_text().splitlines()]
    assert [{key: row[key] for key in row if not key.startswith("time/")} for row in rows] == whole[1]
    weights = torch.load(tmp_path / "twin" / "final.pt", weights_only=True)["weights"]
    assert all(torch.equal(weight, weights[key]) for key, weight in whole[0].items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["env.id=pettingzoo.classic.connect_four_v9"],
            r"env\.id=pettingzoo\.classic\.connect_four_v9: .*cannot be im",
        ),
        (
            ["env.id=pettingzoo.butterfly.pistonball_v6"],
            r"has no twin in OpenSpiel; games with a twin: connect_four",
        ),
        (["env.id=tests.envs.imported.games:Shuffled"], r"Shuffled: has no twin in OpenSpiel"),
        (["env.id=pettingzoo.classic.go_v5", "env.kwargs.board_size=5"], r"env\.twin=on: OpenSpiel's go differs from"),
        (
            [f"env.id={FOUR}", "env.kwargs.size=3"],
            r"env\.kwargs\.size=3: OpenSpiel's connect_four lacks|cannot be made",
        ),
        (["env.package=openspiel", "env.id=kuhn_poker"], r"env\.twin=on: .*env\.package=pettingzoo"),
    ],
)
def test_game_without_equal_twin_is_rejected_in_one_line(tmp_path, options, message):
    options = ["env=pettingzoo", "env.twin=on", *options, *SMALL, f"checkpoint_dir={tmp_path}", "name=refused"]
    with pytest.raises(InputError, match=message) as refused:
        sparring.train(overrides=options)
    assert "\n" not in str(refused.value)


def test_auto_uses_pettingzoo_for_object_that_reads_matches():
    register_opponent("reader")(object())
    try:
        assert chosen(ImportedEnvConfig(id=FOUR), ["reader"])[0] is False
        assert "reader is a Python object" in chosen(ImportedEnvConfig(id=FOUR), ["some-run", "reader"])[1]
        assert chosen(ImportedEnvConfig(id=FOUR, twin="on"), ["reader"])[0] is True
    finally:
        forget_opponent("reader")
    assert chosen(ImportedEnvConfig(id=FOUR), ["some-run"])[0] is True
    assert chosen(ImportedEnvConfig(id=FOUR, twin="off"), []) == (False, "")
    assert chosen(ImportedEnvConfig(id="tests.envs.imported.games:Fading"), []) == (False, "")


def test_auto_uses_pettingzoo_without_openspiel(monkeypatch):
    tests_of_equality._tested.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "pyspiel", None)
    taken, told = chosen(ImportedEnvConfig(id=FOUR), [])
    assert not taken
    assert "PettingZoo's own matches" in told
    assert "run `sparring install open-spiel`" in told
    with pytest.raises(InputError, match=r"needs open_spiel: run `sparring install"):
        chosen(ImportedEnvConfig(id=FOUR, twin="on"), [])


def test_check_names_twin():
    report = sparring.check(FOUR, trial=0, games=16)
    (line,) = (line for line in report.data["lines"] if line["check"] == "twin")
    assert line["level"] == "ok"
    assert re.search(r"OpenSpiel's connect_four: .* were equal in 200 random games, [\d.]+ times as fast", line["text"])
    report = sparring.check(f"{CLASSIC}.leduc_holdem_v4", trial=0, games=16)
    (line,) = (line for line in report.data["lines"] if line["check"] == "twin")
    assert line["level"] == "note"
    assert "player_0 may take 0, 2 in PettingZoo" in line["text"]
