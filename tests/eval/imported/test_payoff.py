"""`eval/payoff.py` of a run in an imported game: a round robin of its saved policies and random play."""

import json

import numpy as np
import pytest

import sparring
from sparring.configs.core.errors import InputError
from sparring.eval.payoff import main
from tests.eval.imported.saved import DUEL, save_run


def with_config(folder, package, game_id):
    save_run(folder, package, game_id)
    (folder / "config.yaml").write_text(f"trainer: ppo\nenv: {{package: {package}, id: {game_id}}}\n")
    return folder


def test_the_matrix_holds_the_points_of_every_pair(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = with_config(tmp_path / "run", "pettingzoo", DUEL)
    words = ["--ckpt", str(folder), "--games", "40", "--import", DUEL, "--stochastic"]
    assert main([*words, "--opponents", "random", f"{DUEL}:Highest"]) == 0
    data = json.loads((folder / "payoff.json").read_text())
    names = [player["name"] for player in data["players"]]
    assert names == ["1k", "5k", "random", f"{DUEL}:Highest"]
    assert [player["env_steps"] for player in data["players"]] == [1000, 5000, None, None]
    shares = np.array(data["payoff"], dtype=float)
    np.testing.assert_allclose((shares + shares.T)[~np.eye(4, dtype=bool)], 1.0)
    assert (shares[3, :3] > 0.6).all()
    ratings = {rating["player"]: rating["elo"] for rating in data["ratings"]}
    assert ratings["random"] == 0.0
    assert max(ratings, key=ratings.get) == names[3]
    assert (folder / "payoff.png").read_bytes().startswith(b"\x89PNG")
    assert "Score % of the row against the column" in capsys.readouterr().out


def test_pairs_of_several_processes_are_the_same(tmp_path, packed_tasks):
    folder, options = with_config(tmp_path / "run", "pettingzoo", DUEL), {"games": 4, "import_": DUEL}
    one, two = (sparring.payoff(folder, **options, **more).data for more in ({}, {"workers": 2}))
    assert one.pop("command") != two.pop("command")
    assert one == two
    assert len(packed_tasks) == 1


def test_what_has_no_matrix_is_refused(tmp_path):
    pytest.importorskip("mpe2")
    folder = with_config(tmp_path / "tag", "pettingzoo", "mpe2.simple_tag_v3")
    with pytest.raises(InputError, match=r"mpe2.simple_tag_v3 has 4 seats, and a payoff matrix is of two; play the"):
        sparring.payoff(folder, games=2)
    duel = with_config(tmp_path / "duel", "pettingzoo", DUEL)
    with pytest.raises(InputError, match=f"runs the code of the module {DUEL}"):
        sparring.payoff(duel, games=2)
    with pytest.raises(InputError, match="--games 3: must be a multiple of 2"):
        sparring.payoff(duel, games=3)
