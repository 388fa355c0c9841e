"""Saved responses as players."""

import json

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.envs.imported.tree import game_tree
from sparring.eval.exploit import exploit_policy, main
from tests.eval.exploitability.schema import check_schema

pyspiel = pytest.importorskip("pyspiel")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    path, how = folder / "response.json", {"env": "openspiel", "id": "kuhn_poker", "moves": 5000}
    exploit_policy("openspiel:uniform", save=path, out=folder / "out", **how)
    return path


def test_saved_response_wins_best_response_value(saved):
    """Kuhn poker against uniform play: 1/2 in the first seat, 5/12 in the second."""
    tree, player = game_tree("kuhn_poker", {}), open_player(str(saved), pyspiel.load_game("kuhn_poker"))
    table = tree.uniform()
    for seat, exact in ((0, 1 / 2), (1, 5 / 12)):
        mixed = table.copy()
        for number, choices in enumerate(player(tree.states)):
            if tree.owner[number] == seat:
                mixed[number] = 0.0
                for action, probability in choices:
                    mixed[number, action] = probability
        assert tree.values(mixed)[seat] == pytest.approx(exact)


def test_saved_response_can_be_attacked(saved, tmp_path):
    report = exploit_policy(str(saved), env="openspiel", id="kuhn_poker", moves=5000, out=tmp_path / "next")
    assert report.exact > 0.1
    assert report.interval[0] < report.exact < report.interval[1] or report.gain == pytest.approx(report.exact)


def test_stronger_of_two_responses_is_saved(tmp_path):
    path = tmp_path / "best.json"
    how = {"env": "openspiel", "id": "kuhn_poker", "moves": 4000, "target": "all"}
    report = exploit_policy("openspiel:cfr:3", save=path, out=tmp_path, **how)
    assert json.loads(path.read_text())["gain"] == report.gain == max(r["gain"] for r in report.data["sampled"])


def test_missing_gpu_is_rejected_before_attack(tmp_path):
    with pytest.raises(InputError, match=r"device=cuda:99: this machine has \d+ CUDA devices; use device=cpu"):
        exploit_policy("openspiel:uniform", id="kuhn_poker", device="cuda:99", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("attacks", "seat", "exact"),
    [
        (("sampling", "local"), 0, 3 / 8),
        ("search", 1, 13 / 24),
        ("cold", 1, 13 / 24),
        ("value", 1, 13 / 24),
        ("advantage", 1, 13 / 24),
    ],
)
def test_single_seat_is_attacked_measured_and_saved(tmp_path, attacks, seat, exact):
    """Kuhn poker: uniform play returns 1/8 to the first seat, a best response 1/2 there and 5/12 in the second."""
    path, how = tmp_path / "one.json", {"id": "kuhn_poker", "moves": 6000, "out": tmp_path / "out", "device": "cpu"}
    save = {"save": path} if "sampling" in attacks else {}
    found = exploit_policy("openspiel:uniform", start=attacks, seat=seat, **save, **how)
    check_schema(found.data)
    low, high = found.interval
    assert found.exact == pytest.approx(exact)
    assert found.data["exploitability"]["deterministic"] == pytest.approx(1.0)
    assert found.gains == (found.gain,) == (found.nash_conv,)
    assert low < high
    assert found.data["seat"] == seat
    (record,) = found.data["sampled"]
    assert len(record["returns"]) == 1
    assert "mean over seats" not in found.markdown
    assert f"in seat {seat}" in found.markdown.splitlines()[0]
    assert f"on uniform play, in seat {seat}." in found.markdown
    if "sampling" in attacks:
        assert low < exact < high
        assert record["games"] == 1_000  # of one seat
        assert [bool(actions) for actions in json.loads(path.read_text())["seats"]] == [True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected sparring response, version 1"),
        ({"game": "leduc_poker()"}, "is a response in leduc_poker(), and the game is kuhn_poker()"),
        ({"seats": []}, "with 2 seats"),
        ({"seats": [{"0": "x"}, {}]}, "is not a response of sparring exploit"),
        ({"seats": [{"0": 9}, {}]}, "action 9 is not legal"),
        ({"seats": 3}, "is not a response of sparring exploit"),
    ],
)
def test_wrong_file_gives_one_line_error(saved, tmp_path, capsys, change, message):
    wrong = tmp_path / "response.json"
    wrong.write_text(json.dumps({**json.loads(saved.read_text()), **change}))
    assert main([str(wrong), "--id", "kuhn_poker", "--out", str(tmp_path / "next")]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
