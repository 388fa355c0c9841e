"""Missing results are adjudicated or unknown, void orders dropped, and differences reported."""

import copy

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.phase_format import write_phase
from sparring.envs.diplomacy.records.saved_game import LARGEST, load, read_game, save
from sparring.envs.diplomacy.records.timeline import order_outcomes, phases_of
from sparring.envs.diplomacy.records.verification import summary


def phase(name, units, orders=None, results=None, **state):
    written = {"name": name, "state": {"units": units, "centers": {}, "retreats": {}, **state}, "orders": orders or {}}
    return written if results is None else {**written, "results": results}


def standoff(results, after=("A PAR", "A MUN")):
    """Return Paris and Munich both moving to Burgundy: both bounce."""
    france, germany = ([unit] for unit in after)
    units = {"FRANCE": ["A PAR"], "GERMANY": ["A MUN"]}
    orders = {"FRANCE": ["A PAR - BUR"], "GERMANY": ["A MUN - BUR"]}
    first = phase("S1901M", units, orders, results)
    return {"phases": [first, phase("F1901M", {"FRANCE": france, "GERMANY": germany})]}


def told(game, number=0):
    return write_phase(game[number], "x")["results"]


@pytest.mark.parametrize("results", [{}, None, {"A PAR": ["bounce"]}, {"A MUN": ["bounce"]}])
def test_missing_result_is_adjudicated(results):
    game = read_game(standoff(results))
    assert told(game) == {"MUN": ["bounced"], "PAR": ["bounced"]}
    assert not summary(game)


def test_missing_dislodgement_is_reported():
    units = {"FRANCE": ["A BUR", "A RUH"], "GERMANY": ["A MUN"]}
    orders = {"FRANCE": ["A BUR - MUN", "A RUH S A BUR - MUN"]}
    after = {"FRANCE": ["A MUN", "A RUH"], "GERMANY": ["*A MUN"]}
    retreats = {"GERMANY": {"A MUN": ["BOH", "TYR", "BER", "KIE", "SIL"]}}
    data = {"phases": [phase("S1901M", units, orders, {}), phase("S1901R", after, retreats=retreats)]}
    expected = {"BUR": ["done"], "MUN": ["unordered", "dislodged"], "RUH": ["done"]}
    assert told(read_game(data)) == expected
    ours = {"format": "sparring-diplomacy", "version": 1, "map": "standard", "phases": copy.deepcopy(data["phases"])}
    for one in ours["phases"]:
        one["state"] = {"units": one["state"]["units"], "centres": {}}
    ours["phases"][1]["state"] |= {"units": {"FRANCE": ["A MUN", "A RUH"]}, "dislodged": {"GERMANY": ["A MUN"]}}
    assert told(read_game(ours)) == expected
    del ours["phases"][0]["results"]
    assert told(read_game(ours)) == expected


def test_missing_results_stay_unknown_if_file_diverges(tmp_path):
    game = read_game(standoff({}, after=("A BUR", "A MUN")))
    assert told(game) == {"MUN": ["unknown"], "PAR": ["unknown"]}
    assert summary(game) == [
        "phases[0]: BUR: the file has FRANCE A BUR there afterwards, the adjudicator nothing",
        "phases[0]: PAR: the file has nothing there afterwards, the adjudicator FRANCE A PAR",
        "phases[0]: A MUN - BUR: the file gives no result; the adjudicator says bounced",
        "phases[0]: A PAR - BUR: the file gives no result; the adjudicator says bounced",
    ]
    assert summary(game, most=1)[1:] == ["... and 3 more, in the `notes` of the phases"]
    assert {outcome.note for outcome in order_outcomes(*phases_of(game))} == {"unknown"}
    assert not any(outcome.fine for outcome in order_outcomes(*phases_of(game)))
    save(tmp_path / "game.json", game)
    assert told(load(tmp_path / "game.json")) == told(game)


def test_contradicting_result_is_kept_and_reported():
    game = read_game(standoff({"A PAR": [], "A MUN": ["bounce"]}))
    assert told(game) == {"MUN": ["bounced"], "PAR": ["done"]}
    assert summary(game) == ["phases[0]: A PAR - BUR: the file says done; the adjudicator says bounced"]


BUILT = {"GERMANY": ["F DEN", "A HOL", "F KIE"]}


@pytest.mark.parametrize(
    ("orders", "results", "after"),
    [
        (["F KIE B", "A BER B"], {"F KIE": [""], "A BER": ["void"]}, BUILT),
        (["A BER B", "F KIE B"], {"A BER": ["void"], "F KIE": [""]}, BUILT),
        (["A KIE B", "F KIE B"], {"A KIE": ["void"], "F KIE": [""]}, BUILT),
        (["F KIE B", "A KIE B"], {"F KIE": [""], "A KIE": ["void"]}, BUILT),
        (["F KIE B", "F KIE B"], {"F KIE": ["", "void"]}, BUILT),
        (["A LON B", "F KIE B"], {"A LON": ["void"], "F KIE": [""]}, BUILT),
        (["F KIE B", "A BER B"], {}, BUILT),
        (["WAIVE"], {"WAIVE": [""]}, {"GERMANY": ["F DEN", "A HOL"]}),
        (["F KIE B", "WAIVE"], {"F KIE": ["void"]}, {"GERMANY": ["F DEN", "A HOL"]}),
    ],
)
def test_void_builds_are_dropped(orders, results, after):
    """With three centres and two units, only the build that the file made remains."""
    state = {"centers": {"GERMANY": ["BER", "KIE", "DEN"]}}
    winter = phase("W1901A", {"GERMANY": ["F DEN", "A HOL"]}, {"GERMANY": orders}, results, **state)
    check(read_game({"phases": [winter, phase("S1902M", after, **state)]}), after)


def test_void_disbands_are_dropped():
    state = {"centers": {"GERMANY": ["BER", "KIE"]}}
    units, after = {"GERMANY": ["A BER", "A KIE", "A MUN"]}, {"GERMANY": ["A BER", "A MUN"]}
    orders, results = {"GERMANY": ["A KIE D", "A BER D"]}, {"A KIE": [""], "A BER": ["void"]}
    for told_results in (results, {}):
        winter = phase("W1901A", units, orders, told_results, **state)
        check(read_game({"phases": [winter, phase("S1902M", after, **state)]}), after)


def test_void_retreats_are_dropped():
    units = {"FRANCE": ["A MUN"], "GERMANY": ["*A MUN"]}
    retreats = {"retreats": {"GERMANY": {"A MUN": ["BOH", "TYR"]}}}
    after = {"FRANCE": ["A MUN"]}
    first = phase("S1901R", units, {"GERMANY": ["A MUN R BOH"]}, {"A MUN": ["void", "disband"]}, **retreats)
    check(read_game({"phases": [first, phase("F1901M", after)]}), after)


def check(game, after):
    """Check that the game continues as in the file, without a note."""
    batch = DiplomacyBatch(1, threads=1)
    batch.set_position(0, game[0].position)
    batch.orders[0] = torch.from_numpy(game[0].orders)
    batch.process()
    units = write_phase(PhaseRecord(batch.snapshot()), "x")["state"]["units"]
    batch.close()
    assert {power: sorted(held) for power, held in units.items()} == {
        power: sorted(held) for power, held in after.items()
    }
    assert not summary(game)


def test_oversized_file_is_rejected_unread(tmp_path):
    path = tmp_path / "game.json"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(InputError, match=r"game\.json: has 16,777,217 bytes; a game has at most 16,777,216"):
        load(path)


def test_overlong_order_is_rejected_with_its_prefix():
    data = standoff({})
    data["phases"][0]["orders"]["FRANCE"] = ["A PAR - " + "B" * 1_000_000]
    with pytest.raises(InputError, match=r"orders\.FRANCE\[0\]: order 'A PAR - B+'\.\.\.: is 1000008 characters long"):
        read_game(data)
