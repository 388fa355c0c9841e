"""`eval/run.py`, `sparring.evaluate` and `sparring.load` for policies of imported games."""

import json
import re

import numpy as np
import pytest

import sparring
from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.policy import LoadedSeatPolicy
from sparring.eval.command import Evaluation, publish_evaluation
from sparring.eval.run import main
from tests.configs import messages
from tests.envs.imported.evaluation.saved import DUEL, save_run

TICTACTOE = "pettingzoo.classic.tictactoe_v3"


def test_policy_plays_every_seat_and_results_are_saved_beside_it(tmp_path, capsys):
    pytest.importorskip("pyspiel")
    path = save_run(tmp_path / "run", "openspiel", "kuhn_poker", memory="gru")
    words = ["--ckpt", str(path), "--games", "100", "--seed", "3"]
    assert main(words) == 0
    data = json.loads((tmp_path / "run" / "eval.json").read_text())
    assert data["env"] == "openspiel:kuhn_poker"
    assert [record["opponent"] for record in data["records"]] == ["random", str(path.with_name("update_000010.pt"))]
    for record in data["records"]:
        assert record["wins"] + record["draws"] + record["losses"] == record["games"] == 100
        assert [sum(seat[kind] for kind in ("wins", "draws", "losses")) for seat in record["by_seat"]] == [50, 50]
        low, high = record["interval"]
        assert 0 <= low <= record["win_rate"] <= high <= 1
    exact = data["exploitability"]
    assert exact["uniform"] == pytest.approx(0.458333, abs=1e-6)
    assert exact["deterministic"] > exact["sampled"] > 0
    assert (tmp_path / "run" / "eval.md").read_text() in capsys.readouterr().out
    again = sparring.evaluate(path, games=100, seed=3, out=tmp_path / "other")
    assert again.data["records"] == data["records"]


def test_default_is_400_games(tmp_path):
    path = save_run(tmp_path / "run", "pettingzoo", DUEL)
    (record,) = sparring.evaluate(path, opponents="random", import_=DUEL).data["records"]
    assert record["games"] == 400


def test_evaluation_of_nothing_is_rejected():
    with pytest.raises(InputError, match="no games played"):
        publish_evaluation(Evaluation("", ""))


def test_python_opponent_and_rotating_seats(tmp_path):
    path = save_run(tmp_path / "run", "pettingzoo", DUEL)
    words = {"import_": DUEL, "games": 60, "stochastic": True}
    best = sparring.evaluate(path, opponents=[f"{DUEL}:Highest"], **words).data["records"][0]
    assert best["losses"] > 2 * best["wins"]
    assert best["mean_reward"] < -0.5
    with pytest.raises(InputError, match="--games 61: must be a multiple of 2, the number of seats; try 62"):
        sparring.evaluate(path, **words | {"games": 61})


def test_code_named_only_by_file_is_not_run(tmp_path, monkeypatch):
    path = save_run(tmp_path / "run", "pettingzoo", DUEL)
    for made in ("make_batch", "make_match"):
        monkeypatch.setattr(
            f"sparring.envs.imported.evaluation.policy.{made}", lambda *args, **options: pytest.fail("made")
        )
    for call in (sparring.evaluate, sparring.load):
        with pytest.raises(InputError, match=rf"the code of the module {DUEL}; if you trust it, add --import {DUEL}"):
            call(path)
    path = save_run(tmp_path / "other", "pettingzoo", TICTACTOE, outcome="wicked:score")
    with pytest.raises(InputError, match="the code of the module wicked"):
        sparring.evaluate(path)
    with pytest.raises(InputError, match="needs no such module"):
        sparring.load(save_run(tmp_path / "third", "pettingzoo", TICTACTOE), module="wicked")


def test_identical_games_are_counted_and_noted(tmp_path):
    path = save_run(tmp_path / "run", "pettingzoo", TICTACTOE)
    result = sparring.evaluate(path, opponents="snapshots", games=8)
    assert result.data["records"][0]["distinct_games"] == 2
    assert "all games from a seat are identical" in result.markdown
    path.with_name("update_000010.pt").unlink()
    with pytest.raises(InputError, match="has saved no earlier policy; name others"):
        sparring.evaluate(path, opponents="snapshots", games=8)


@pytest.mark.parametrize(
    ("fault", "note"),
    [("team", "all seats received the same reward in every game"), ("sum", "the sum of the seats' rewards varies")],
)
def test_seats_that_gain_together_are_measured_as_teams(fault, note, tmp_path):
    path = save_run(tmp_path / "run", "pettingzoo", DUEL, {"fault": fault})
    result = sparring.evaluate(path, opponents="random", games=200, stochastic=True, import_=DUEL)
    assert note in result.markdown
    policy, chance = result.data["in_all_seats"]
    assert (policy["games"], chance["player"], chance["games"]) == (200, "random", 200)
    low, high = chance["mean_reward_interval"]
    # Equal cards in three rounds of four: 3/4; another card is the larger one in half of the other rounds.
    assert low < {"team": 0.75, "sum": 3 * 3 / 8}[fault] < high
    assert chance["mean_reward"] == pytest.approx(np.mean(list(chance["by_seat"].values())))
    lines = result.markdown.replace(" ", "").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("|inallseats|games|meanrewardofaseat|"))
    rows = [line.split("|")[1:3] for line in lines[head + 2 : head + 4]]
    assert rows == [[policy["player"], "200"], ["random", "200"]]


def test_zero_sum_game_plays_no_teams(tmp_path):
    path = save_run(tmp_path / "run", "pettingzoo", DUEL)
    assert "in_all_seats" not in sparring.evaluate(path, opponents="random", games=2, import_=DUEL).data


def test_replays_are_pictures_or_text(tmp_path, capsys):
    path, text = save_run(tmp_path / "run", "pettingzoo", DUEL), tmp_path / "match.txt"
    words = ["--ckpt", str(path), "--import", DUEL, "--games", "0", "--quiet", "--replay"]
    assert main([*words, str(text)]) == 0
    assert text.read_text().startswith("move 0\nround 0: [[1, 1, 1, 1], [1, 1, 1, 1]]\n\nmove 1\nround 1: ")
    assert "move 3\nround 3" in text.read_text()
    assert main([*words, str(text), "--opponents", f"{DUEL}:FirstLeft"]) == 0
    assert text.read_text().endswith(", [0, 0, 0, 1]]\n")
    assert not (tmp_path / "run" / "eval.json").exists()
    assert main([*words, str(tmp_path / "match.gif")]) == 2
    assert "draws text here; give a name that ends in .txt" in capsys.readouterr().err
    pytest.importorskip("pygame")
    from PIL import Image

    three = save_run(tmp_path / "three", "pettingzoo", TICTACTOE)
    picture = sparring.record(three, tmp_path / "match.gif")
    with Image.open(picture) as frames:
        assert 6 <= frames.n_frames <= 10
    assert main(["--ckpt", str(three), "--games", "0", "--quiet", "--replay", str(text)]) == 2
    assert re.search(r"cannot draw itself here: .*; give a name that ends in \.gif", capsys.readouterr().err)


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_run"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, tmp_path, check_row):
    save_run(tmp_path / "run", "pettingzoo", TICTACTOE)
    check_row(main, row)


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_loaded_policy_plays_in_pettingzoo_loop(memory, tmp_path):
    from pettingzoo.classic import tictactoe_v3

    policy = sparring.load(save_run(tmp_path / "run", "pettingzoo", TICTACTOE, memory=memory))
    assert isinstance(policy, LoadedSeatPolicy)
    assert policy.env_id == f"pettingzoo:{TICTACTOE}"
    env = tictactoe_v3.env()
    for deterministic in (True, False):
        env.reset(seed=1)
        states = dict.fromkeys(env.agents)
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            action = None
            if not (terminated or truncated):
                action, states[agent] = policy.predict(
                    observation, states[agent], deterministic=deterministic, seat=agent
                )
                assert observation["action_mask"][action] == 1
                assert np.shape(states[agent]) == (1, policy.policy.memory_size)
            env.step(action)


def test_results_of_two_runs_are_summarized(tmp_path):
    rates = []
    for name in ("one", "two"):
        path = save_run(tmp_path / name, "pettingzoo", TICTACTOE)
        evaluation = sparring.evaluate(path, opponents="random", games=20, out=tmp_path / name)
        rates.append(evaluation.data["records"][0]["win_rate"])
    first, overall = sparring.seeds([tmp_path / "one", tmp_path / "two"]).data["rows"]
    assert first["scores"]["mean"] == overall["scores"]["mean"] == pytest.approx(sum(rates) / 2)
