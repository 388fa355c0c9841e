"""Saved games adjudicated again: the first difference is named, and `via` selects how VIA moves are read."""

import copy
import json

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.records.saved_game import load, read_game, save, verify_file
from sparring.envs.diplomacy.records.verification import Difference, differences
from sparring.eval import diplomacy_replay
from tests.envs.diplomacy.records.test_recorded_results import phase, standoff


def crossing(order, fleets, after):
    """Return Brest to Picardy VIA, with or without the fleet's convoy."""
    first = phase("S1901M", {"FRANCE": ["A BRE", "F ENG"]}, {"FRANCE": [order, fleets]}, {})
    return {"phases": [first, phase("F1901M", {"FRANCE": [after, "F ENG"]})]}


@pytest.mark.parametrize(
    ("order", "fleets", "sea", "land"),
    [
        ("A BRE - PIC VIA", "F ENG H", "A BRE", "A PIC"),
        ("A BRE - PIC VIA", "F ENG C A BRE - PIC", "A PIC", "A PIC"),
        ("A BRE - PIC VIA", "F ENG C A BRE - LON", "A BRE", "A PIC"),
        ("A BRE - LON VIA", "F ENG H", "A BRE", "A BRE"),
        ("A BRE - PIC", "F ENG H", "A PIC", "A PIC"),
    ],
)
def test_via_move_without_convoy_holds_or_goes_by_land(order, fleets, sea, land):
    for via, after in (("sea", sea), ("land", land)):
        read_game(crossing(order, fleets, after), verify=True, via=via)
        other = {"A BRE": "A PIC", "A PIC": "A BRE"}[after]
        with pytest.raises(InputError, match=r"phases\[0\] \(S1901M\): (BRE|PIC): the file has "):
            read_game(crossing(order, fleets, other), verify=True, via=via)


def test_other_via_reading_is_rejected():
    with pytest.raises(InputError, match=r"unknown via 'air'.*sea, land"):
        read_game(crossing("A BRE - PIC", "F ENG H", "A PIC"), via="air")


def test_first_difference_of_each_phase_is_named():
    games = [
        read_game(standoff({})),
        read_game(standoff({"A PAR": []})),
        read_game(standoff({}, after=("A BUR", "A MUN"))),
    ]
    assert list(differences(games)) == [
        Difference(1, 0, "S1901M", "A PAR - BUR", "done", "bounced", in_position=False),
        Difference(2, 0, "S1901M", "BUR", "FRANCE A BUR", "nothing", in_position=True),
    ]


def test_retreat_phase_without_retreats_is_skipped():
    """Some sites list a phase for every dislodged unit; here one without retreats is disbanded at once."""
    units = {"ITALY": ["A ROM", "A APU"], "AUSTRIA": ["A NAP"]}
    orders = {"ITALY": ["A ROM - NAP", "A APU S A ROM - NAP"], "AUSTRIA": ["A NAP H"]}
    fleets = {"TURKEY": ["F ION", "F TYS"]}
    after = {"ITALY": ["A NAP", "A APU"], "AUSTRIA": ["*A NAP"]}
    idle = phase("S1901R", after | fleets, {"AUSTRIA": ["A NAP D"]}, {}, retreats={"AUSTRIA": {"A NAP": []}})
    last = phase("F1901M", {"ITALY": ["A NAP", "A APU"], **fleets})
    game = {"phases": [phase("S1901M", units | fleets, orders, {}), idle, last]}
    assert not list(differences([read_game(game)]))
    fled = copy.deepcopy(game)
    fled["phases"][1] |= {"orders": {"AUSTRIA": ["A NAP R ROM"]}, "results": {"A NAP": []}}
    fled["phases"][2]["state"]["units"]["AUSTRIA"] = ["A ROM"]
    difference = next(differences([read_game(fled)]))
    assert (difference.place, difference.expected) == ("NAP", "to retreat: AUSTRIA A NAP")


def test_previous_moves_give_attack_origin_from_contested_place():
    """Two convoyed lists leave CON open; the fleet's move shows that the attack came from there."""
    units = {"TURKEY": ["A SMY", "A ANK"], "ITALY": ["F CON", "F EAS"], "RUSSIA": ["A SEV", "F BLA", "A ARM"]}
    orders = {
        "ITALY": ["F CON - SMY", "F EAS S F CON - SMY"],
        "RUSSIA": ["A SEV - ANK VIA", "F BLA C A SEV - ANK", "A ARM S A SEV - ANK"],
    }
    moved = {"TURKEY": ["*A SMY", "*A ANK"], "ITALY": ["F SMY", "F EAS"], "RUSSIA": ["A ANK", "F BLA", "A ARM"]}
    retreats = {"TURKEY": {"A SMY": ["SYR"], "A ANK": ["ARM", "CON", "SMY"]}}
    away = phase("S1909R", moved, {"TURKEY": ["A ANK R CON", "A SMY D"]}, {}, retreats=retreats)
    last = phase("F1909M", moved | {"TURKEY": ["A CON"]})
    moves = phase("S1909M", units, orders, {"F CON": [], "A SEV": []})
    read_game({"phases": [moves, away, last]}, verify=True)


def test_command_counts_and_names_differences(tmp_path, capsys):
    path = tmp_path / "games.jsonl"
    path.write_text(
        "".join(json.dumps(game) + "\n" for game in (standoff({}), standoff({"A PAR": []}))), encoding="utf-8"
    )
    assert diplomacy_replay.main(["--game", str(path), "--verify"]) == 1
    said = capsys.readouterr()
    assert (
        said.out.splitlines()[-1] == "2 phases adjudicated again, 1 differ: 0 in the next position, 1 in results alone"
    )
    assert "games.jsonl: game 1, phases[0] (S1901M): A PAR - BUR: the file has done, we have bounced" in said.err
    save(tmp_path / "good.json", read_game(standoff({})))
    assert diplomacy_replay.main(["--game", str(tmp_path / "good.json"), "--verify", "--quiet"]) == 0
    assert verify_file(tmp_path / "good.json") == (1, [])
    assert load(tmp_path / "good.json", verify=True)
    for words in (
        ["--verify"],
        ["--via", "land"],
        ["--game", str(path), "--verify", "--out", str(tmp_path / "a.html")],
    ):
        assert diplomacy_replay.main(words) == 2


def test_file_without_phases_is_not_verified(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no phase with orders, so nothing can be verified"):
        verify_file(tmp_path / "none.jsonl")
