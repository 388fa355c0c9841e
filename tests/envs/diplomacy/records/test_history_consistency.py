"""Impossible saved games, ours and the package's, are rejected with the field named."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.diplomacy_peers.crowds import crowds
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.records.history import GameHistory
from sparring.envs.diplomacy.records.history_consistency import check_origins
from sparring.envs.diplomacy.records.saved_game import read_game, write_game

PACKAGE = json.loads(Path(__file__).with_name("package_game.json").read_text(encoding="utf-8"))
BOARD = standard_board()
CENTRES = [BOARD.provinces[province] for province in BOARD.centres]
RETREAT = {"units": {"FRANCE": ["A BUR"]}, "dislodged": {"ITALY": ["A BUR"]}, "centres": {}}
QUIET = {"units": {}, "centres": {}}


def phase(name, **more):
    """Return a phase with as little content as possible."""
    return {"name": name, "state": RETREAT if name.endswith("R") and not more.get("done") else QUIET, **more}


def ours(*phases):
    return {"format": "sparring-diplomacy", "version": 1, "map": "standard", "phases": list(phases)}


# ---- one phase after the other


@pytest.mark.parametrize(
    "names",
    [
        "S1901M S1901R F1901M F1901R W1901A S1902M",
        "S1901M F1901M S1902M F1902M W1902A S1903M",
        "F1901M F1901R S1902M",
        "W1905A S1906M",
        "S1901R",
    ],
)
def test_phases_are_consecutive_and_empty_ones_are_skipped(names):
    assert len(read_game(ours(*map(phase, names.split())))) == len(names.split())


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ("S1901M S1901M", 1),
        ("F1901M S1901M", 1),
        ("S1901M F1901R", 1),
        ("S1901M W1901A", 1),
        ("S1901M S1902M", 1),
        ("S1901M F1902M", 1),
        ("S1901M F1901M S1903M", 2),
        ("S1901M F1901M W1901A F1902M", 3),
        ("S1901M F1901M F1901R F1901M", 3),
        ("W1901A S1901M", 1),
    ],
)
def test_out_of_order_phase_is_rejected_by_name(names, wrong):
    last, first = names.split()[wrong], names.split()[wrong - 1]
    with pytest.raises(InputError, match=rf"^phases\[{wrong}\]\.name: {last} cannot follow {first}$"):
        read_game(ours(*map(phase, names.split())))


@pytest.mark.parametrize("names", ["S1910M S1910M", "F1910M F1910M", "F1910M S1910M", "W1910A S1910M", "W1910A W1910A"])
def test_end_has_clock_of_last_phase_or_next_spring(names):
    played, end = names.split()
    assert int(read_game(ours(phase(played), phase(end, done=True)))[-1].position["done"]) == 1


@pytest.mark.parametrize("names", ["F1910M S1911M", "S1910M F1910M", "F1910M W1910A", "S1910R S1910M"])
def test_game_does_not_end_later(names):
    played, end = names.split()
    with pytest.raises(InputError, match=rf"^phases\[1\]\.name: {end} \(over\) cannot follow {played}$"):
        read_game(ours(phase(played), phase(end, done=True)))


@pytest.mark.parametrize("after", [phase("S1911M"), phase("S1910M", done=True), phase("F1910M")])
def test_nothing_follows_end(after):
    with pytest.raises(InputError, match=r"^phases\[2\]: follows phases\[1\], with which the game was over$"):
        read_game(ours(phase("F1910M"), phase("S1910M", done=True), after))


def test_rewound_record_is_not_written():
    """A game set to another position midway is two games."""
    batch = DiplomacyBatch(1, threads=1)
    history = GameHistory(batch)
    history.process()
    batch.set_position(0, opening())
    with pytest.raises(InputError, match=r"^phases\[1\]\.name: S1901M cannot follow S1901M$"):
        write_game(history.game(0))
    batch.close()


# ---- what a position says


def test_power_with_winning_centres_is_winner():
    state = {"units": {}, "centres": {"ITALY": CENTRES[:17]}}
    assert len(read_game(ours({"name": "S1905M", "state": state}))) == 1
    state["centres"]["ITALY"] = CENTRES[:18]
    assert read_game(ours({"name": "S1905M", "state": state, "done": True, "winner": "ITALY"}))
    complaint = r"^phases\[0\]\.state\.centres: ITALY has 18 centres and has won, but done and winner are not set so$"
    for more in ({}, {"done": True}):
        with pytest.raises(InputError, match=complaint):
            read_game(ours({"name": "S1905M", "state": state, **more}))


def test_retreats_without_dislodgement_or_after_end_are_rejected():
    with pytest.raises(InputError, match=r"^phases\[0\]\.name: fall retreats, and no unit has to retreat$"):
        read_game(ours({"name": "F1905R", "state": QUIET}))
    with pytest.raises(InputError, match=r"^phases\[0\]\.name: the game is over, and no unit has to retreat any more"):
        read_game(ours({"name": "F1905R", "state": RETREAT, "done": True}))


def marked(name, units, origin):
    return ours({"name": name, "state": {"units": units, "origin": origin, "centres": {}}})


@pytest.mark.parametrize(
    ("name", "units", "origin"),
    [
        ("F1901M", {"FRANCE": ["A MUN"]}, {"MUN": "BUR"}),
        ("F1901M", {"FRANCE": ["A LON"]}, {"LON": "convoy"}),
        ("F1901M", {"FRANCE": ["F SPA/SC"]}, {"SPA": "LYO"}),
        ("F1901M", {"FRANCE": ["F MAR"]}, {"MAR": "SPA"}),
        ("F1901M", {"FRANCE": ["A MUN"]}, {"BUR": "contested"}),
        ("S1902M", {}, {"MUN": "BUR", "NTH": "LON", "LON": "convoy"}),
        ("S1902M", {"FRANCE": ["A PAR"]}, {"PAR": "contested"}),
    ],
)
def test_possible_retreat_marks_are_accepted(name, units, origin):
    """By spring its unit may have been disbanded, and another built where moves had bounced."""
    assert write_game(read_game(marked(name, units, origin)))["phases"][0]["state"]["origin"] == origin


@pytest.mark.parametrize(
    ("name", "units", "origin", "message"),
    [
        ("F1901M", {"FRANCE": ["A MUN"]}, {"MUN": "PAR"}, "MUN: A MUN cannot have come from PAR"),
        ("F1901M", {"FRANCE": ["A MUN"]}, {"MUN": "MUN"}, "MUN: A MUN cannot have come from MUN"),
        ("F1901M", {"FRANCE": ["A LON"]}, {"LON": "NTH"}, "LON: A LON cannot have come from NTH"),
        ("F1901M", {"FRANCE": ["F ROM"]}, {"ROM": "VEN"}, "ROM: F ROM cannot have come from VEN"),
        ("F1901M", {"FRANCE": ["F SPA/NC"]}, {"SPA": "LYO"}, "SPA: F SPA/NC cannot have come from LYO"),
        ("F1901M", {"FRANCE": ["A MUN"]}, {"MUN": "convoy"}, "MUN: A MUN cannot have come by convoy"),
        ("F1901M", {"FRANCE": ["F LON"]}, {"LON": "convoy"}, "LON: F LON cannot have come by convoy"),
        ("F1901M", {}, {"LON": "NTH"}, "LON: no unit stands there that could have come from anywhere"),
        ("W1901A", {}, {"LON": "convoy"}, "LON: no unit stands there that could have come from anywhere"),
        ("F1901M", {"FRANCE": ["A BUR"]}, {"BUR": "contested"}, "BUR: contested, and A BUR stands there"),
        ("S1902M", {}, {"MUN": "PAR"}, "MUN: a unit cannot have come from PAR"),
        ("S1902M", {}, {"NTH": "convoy"}, "NTH: a unit cannot have come by convoy"),
    ],
)
def test_impossible_retreat_marks_are_rejected(name, units, origin, message):
    with pytest.raises(InputError, match=rf"^phases\[0\]\.state\.origin: {message}$"):
        read_game(marked(name, units, origin))


def test_marks_left_by_adjudicator_are_accepted():
    """Crowds with convoys, bounces and many dislodged: every adjudicated result is possible."""
    units, orders = crowds(400, 5)
    batch = DiplomacyBatch(400, threads=1)
    batch.load(position(units, np.full((400, 34), -1), year=1901, phase=codes.SPRING))
    batch.orders.copy_(torch.from_numpy(orders))
    batch.process()
    marks = batch.origin[batch.phase == codes.SPRING_RETREATS]
    for number in range(400):
        check_origins({name: values[number : number + 1] for name, values in batch.snapshot().items()})
    batch.close()
    counts = [int((marks == mark).sum()) for mark in (codes.CAME_BY_CONVOY, codes.CONTESTED)]
    assert min(counts) > 10
    assert int((marks < codes.CAME_BY_CONVOY).sum()) > 100


# ---- what came of orders


@pytest.mark.parametrize(
    ("name", "results", "message"),
    [
        ("F1901M", {"BUR": ["bounced"]}, "BUR: nothing in BUR could be ordered in this phase"),
        ("F1901M", {"BUR": ["unordered", "dislodged"]}, "BUR: nothing in BUR could be ordered in this phase"),
        ("F1901M", {"MAR": ["done"]}, "MAR: missing order for MAR; a unit without one is 'unordered'"),
        ("W1901A", {"BRE": ["done"]}, "BRE: nothing in BRE could be ordered in this phase"),
        ("W1901A", {"PAR": ["done", "dislodged"]}, "PAR: no unit is dislodged in winter"),
        ("F1901R", {"PAR": ["done"]}, "PAR: nothing in PAR could be ordered in this phase"),
    ],
)
def test_results_without_order_are_rejected(name, results, message):
    state = {"units": {"FRANCE": ["A PAR", "A MAR"]}, "centres": {"FRANCE": ["PAR", "MAR"]}}
    orders = {"FRANCE": ["A PAR D" if name.endswith("A") else "A PAR H"]}
    if name.endswith("R"):
        state, orders = state | {"dislodged": {"ITALY": ["A MAR"]}}, {"ITALY": ["A MAR D"]}
    good = {
        "name": name,
        "state": state,
        "orders": orders,
        "results": {"MAR" if name.endswith("R") else "PAR": ["done"]},
    }
    assert read_game(ours(good))
    with pytest.raises(InputError, match=rf"^phases\[0\]\.results\.{message}"):
        read_game(ours({**good, "results": results}))


# ---- games of the package


def package(change):
    data = copy.deepcopy(PACKAGE)
    change(data["phases"])
    return data


def renamed(number, name):
    return lambda phases: phases[number].update(name=name)


def centred(phases):
    phases[2]["state"]["centers"] = {"TURKEY": CENTRES[:18], "FRANCE": CENTRES[18:]}


def no_longer_dislodged(phases):
    state = phases[1]["state"]
    state["units"] = {power: [unit for unit in units if unit[0] != "*"] for power, units in state["units"].items()}
    phases[1].update(orders={}, results={})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda phases: phases.insert(1, phases[0]), r"phases\[1\]\.name: S1905M cannot follow S1905M"),
        (lambda phases: phases.reverse(), r"phases\[0\]: COMPLETED needs a phase before it"),
        (lambda phases: phases.pop(2), r"phases\[2\]\.name: W1905A cannot follow S1905R"),
        (lambda phases: phases.append(phases[0]), r"phases\[5\]: follows phases\[4\], with which the game was over"),
        (renamed(3, "W1906A"), r"phases\[3\]\.name: W1906A cannot follow F1905M"),
        (centred, r"phases\[2\]\.state\.centers: TURKEY has 18 centres and has won"),
        (no_longer_dislodged, r"phases\[1\]\.name: spring retreats, and no unit has to retreat"),
        (lambda phases: phases[0]["results"].update({"A BOH": ["bounce"]}), r"results\.A BOH: nothing in BOH could be"),
        (lambda phases: phases[0]["results"].update({"F BAL": ["dislodged"]}), r"results\.F BAL: nothing in BAL"),
    ],
)
def test_impossible_package_games_are_rejected(change, message):
    assert read_game(package(lambda phases: None))
    with pytest.raises(InputError, match=message):
        read_game(package(change))


def test_package_results_of_untaken_orders_are_dropped():
    """Void without an order, and "disband" in the phase after a unit without retreats, are not results here."""
    data = package(lambda phases: phases[1]["results"].update({"A BOH": ["disband"], "F BAL": ["void", "void"]}))
    assert np.array_equal(read_game(data)[1].results, read_game(PACKAGE)[1].results)
