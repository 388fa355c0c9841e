"""Orders of a power as text, line by line: accepted orders and answers."""

import numpy as np
import pytest

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders import submit as orders_of_powers
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.diplomacy.orders.submit import submit
from tests.envs.diplomacy.scenes import owner_row, unit_row

BOARD = standard_board()
FRANCE = POWERS.index("FRANCE")


def hand_in(lines, *, phase, units=None, dislodged=None, owner=None, origin=None):
    """Return the orders from France's lines, by place, and each line's problem."""
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    standing, away = unit_row(units or {}), unit_row(dislodged or {})
    rows = {"units": standing, "dislodged": away, "owner": owner_row(owner), "origin": origin}
    answers = submit(orders, lines, power=FRANCE, phase=phase, **rows)
    unit, places = np.where(away > 0, away, standing), np.flatnonzero(orders).tolist()
    given = {location_name(place): write_order(int(orders[place]), place, int(unit[place])) for place in places}
    assert [line.text for line in answers] == lines
    return given, [line.problem for line in answers]


def test_invalid_line_does_not_affect_others():
    lines = ["A PAR - BUR", "A MUN H", "A MAR", "PAR S A MAR", "", "F BRE - ENG"]
    given, problems = hand_in(lines, phase=codes.SPRING, units={"France": "A PAR, A MAR, F BRE", "Germany": "A MUN"})
    assert given == {"PAR": "A PAR - BUR", "BRE": "F BRE - ENG"}
    assert problems == [
        "",
        "FRANCE cannot order a unit in MUN: none of its units stands there",
        "order 'A MAR': says nothing to do; add H, - and a place, S, C, R, D or B",
        "the unit in PAR has an order already; the first one counts",
        "an empty order: write one such as 'A PAR - BUR', or leave it out",
        "",
    ]


def test_dislodged_unit_retreats():
    standing = {"France": "A PAR", "Germany": "A BUR"}
    lines = ["A PAR R PIC", "A BUR R GAS"]
    given, problems = hand_in(lines, phase=codes.FALL_RETREATS, units=standing, dislodged={"France": "A BUR"})
    assert given == {"BUR": "A BUR R GAS"}
    assert problems == ["FRANCE cannot order a unit in PAR: none of its units stands there", ""]


def test_builds_follow_written_order_up_to_number_due():
    lines = ["WAIVE", "F BRE B", "A PAR B", "A MAR B"]
    given, problems = hand_in(lines, phase=codes.WINTER, units={"France": "A BUR"})
    assert given == {"BRE": "F BRE B", "PAR": "A PAR B"}
    assert problems == ["", "", "", "FRANCE has no further build to make"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("F PAR B", "unit 'F PAR B': a fleet stands at sea or on a coast; PAR is inland"),
        ("A BRE/NC B", "order 'A BRE/NC B': unknown coast 'BRE/NC': choose from BRE alone"),
        ("A BUR B", "BUR is not a free home centre of FRANCE"),
        ("A MAR B", "MAR is not a free home centre of FRANCE"),
        ("A LON B", "LON is not a free home centre of FRANCE"),
        ("A MAR D", "FRANCE has no disband to make"),
        ("A MAR - BUR", "order 'A MAR - BUR': winter has builds and disbands alone, as in A PAR B or A PAR D"),
    ],
)
def test_line_without_effect_uses_no_build(line, problem):
    given, problems = hand_in([line, "F BRE B"], phase=codes.WINTER, units={"France": "A MAR, A BUR"})
    assert given == {"BRE": "F BRE B"}
    assert problems == [problem, ""]


def test_winter_without_adjustments():
    """With five centres and units, a move is not a disband, and no disband is due."""
    rows = {"units": {"France": "A PAR, A MAR, F BRE"}, "owner": {"France": "PAR, MAR, BRE"}}
    lines = ["A PAR - BUR", "A PAR D", "A PAR B"]
    given, problems = hand_in(lines, phase=codes.WINTER, **rows)
    assert given == {}
    assert problems == [
        "order 'A PAR - BUR': winter has builds and disbands alone, as in A PAR B or A PAR D",
        "FRANCE has no disband to make",
        "FRANCE has no build to make",
    ]


def test_fleet_build_asks_for_coast():
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    rows = {"units": unit_row({}), "dislodged": unit_row({}), "owner": owner_row(None)}
    power = POWERS.index("RUSSIA")
    lines = submit(orders, ["F STP B", "F STP/SC B", "A STP/SC B"], power=power, phase=codes.WINTER, **rows)
    assert [line.problem for line in lines] == [
        "unit 'F STP B': say which coast, F STP/NC or F STP/SC",
        "",
        "STP is not a free home centre of RUSSIA",
    ]
    assert codes.unpack(int(orders[BOARD.provinces.index("STP")]))[:3] == (codes.BUILD, 80, 1)


@pytest.mark.parametrize("line", ["A PAR H", "A PAR - BUR", "A MUN D", "A PAR B"])
def test_line_without_effect_uses_no_disband(line):
    units = {"France": "A PAR, A MAR, F BRE, A GAS", "Germany": "A MUN"}
    given, problems = hand_in([line, "A MAR D", "A GAS D"], phase=codes.WINTER, units=units)
    assert given == {"MAR": "A MAR D"}
    assert problems[0] != ""
    assert problems[1:] == ["", "FRANCE has no further disband to make"]


def test_lines_beyond_limit_are_not_read(monkeypatch):
    monkeypatch.setattr(orders_of_powers, "MOST_LINES", 2)
    units = {"France": "A BUR, A MAR, A PAR"}
    given, problems = hand_in(["A PAR H", "A MAR H", "A BUR H"], phase=codes.SPRING, units=units)
    assert given == {"PAR": "A PAR H", "MAR": "A MAR H"}
    assert problems == ["", "", "line 3 or later; no more are read"]


@pytest.mark.parametrize(
    "line", ["F MAO - IRI", "F MAO R IRI", "Fleet Mid-Atlantic Ocean moves to Irish Sea", "mao -> iri", "F MAO R - IRI"]
)
def test_move_in_retreat_phase_is_retreat(line):
    """DATC 6.H writes retreats as moves."""
    given, problems = hand_in([line], phase=codes.FALL_RETREATS, dislodged={"France": "F MAO"})
    assert (given, problems) == ({"MAO": "F MAO R IRI"}, [""])


ONLY = {
    codes.SPRING: "order '{}': spring and fall have holds, moves, supports and convoys alone, as in A PAR - BUR",
    codes.SPRING_RETREATS: "order '{}': a retreat phase has retreats and disbands alone, as in A PAR R BUR or A PAR D",
    codes.WINTER: "order '{}': winter has builds and disbands alone, as in A PAR B or A PAR D",
}


@pytest.mark.parametrize(
    ("phase", "lines"),
    [
        (codes.SPRING, ["A PAR B", "A PAR D", "A PAR R BUR"]),
        (codes.SPRING_RETREATS, ["A PAR H", "A PAR S A BUR", "A PAR B", "A PAR S BUR - MUN"]),
        (codes.WINTER, ["A PAR H", "A PAR - BUR", "A PAR R BUR"]),
    ],
)
def test_order_of_other_phase_is_named(phase, lines):
    """The unit would otherwise silently hold, or be disbanded in a retreat phase."""
    units = {"dislodged": {"France": "A PAR"}} if phase == codes.SPRING_RETREATS else {"units": {"France": "A PAR"}}
    for line in lines:
        given, problems = hand_in([line], phase=phase, **units)
        assert (given, problems) == ({}, [ONLY[phase].format(line)])


@pytest.mark.parametrize("phase", [codes.SPRING, codes.FALL_RETREATS])
def test_only_builds_can_be_waived(phase):
    _, problems = hand_in(["WAIVE"], phase=phase, units={"France": "A PAR"})
    assert problems == ["order 'WAIVE': only builds can be waived, and none is due"]


@pytest.mark.parametrize(
    ("line", "legal"),
    [
        *(("F MAO R IRI", True), ("F MAO - SPA/NC", True), ("mao r por", True), ("F MAO D", True)),
        ("F MAO R PAR", False),  # inland
        ("F MAO R ENG", False),  # from where the attacker came
        ("F MAO R BRE", False),  # occupied
        ("F MAO R GAS", False),  # contested
        ("F MAO - SPA", False),  # both coasts are in reach
        ("F MAO R NTH", False),  # out of reach
    ],
)
def test_illegal_retreat_is_rejected_and_next_line_counts(line, legal):
    origin = np.full(codes.NUM_PROVINCES, codes.NOTHING, dtype=np.uint8)
    origin[BOARD.provinces.index("MAO")] = BOARD.provinces.index("ENG")
    origin[BOARD.provinces.index("GAS")] = codes.CONTESTED
    units, dislodged = {"Germany": "F MAO, A BRE"}, {"France": "F MAO"}
    given, problems = hand_in(
        [line, "F MAO R WES"], phase=codes.SPRING_RETREATS, units=units, dislodged=dislodged, origin=origin
    )
    retreats = "F MAO R IRI, F MAO R NAF, F MAO R NAO, F MAO R POR, F MAO R WES, F MAO R SPA/NC, F MAO R SPA/SC"
    refused = f"order {line!r} is not legal now; legal there: F MAO D, {retreats}"
    assert problems[0] == ("" if legal else refused)
    assert (given == {"MAO": "F MAO R WES"}) is not legal


def test_unlisted_retreats_and_builds_are_rejected():
    """In 60 random games: every retreat to every location and every build in every home."""
    batch = DiplomacyBatch(60, threads=1, last_year=1906)
    tried = {True: 0, False: 0}
    while not batch.done.all():
        for game in range(batch.num_games):
            row = {name: tensor[game].numpy() for name, tensor in batch.state.items()}
            if batch.done[game] or int(row["phase"]) in (codes.SPRING, codes.FALL):
                continue
            listed = batch.legal_orders(game)
            homes = np.flatnonzero(BOARD.home >= 0).tolist() if int(row["phase"]) == codes.WINTER else []
            for province in listed.keys() | homes:
                for order in orders_at(province, row):
                    tried[agrees(order, province, row, listed.get(province, np.zeros(0, dtype=np.int32)))] += 1
        batch.draw_orders(5)
        batch.process()
    assert tried[False] == 0
    assert tried[True] > 3000


def orders_at(province, row):
    if int(row["phase"]) in codes.RETREATS:
        return [codes.pack(codes.RETREAT, goal) for goal in range(codes.NUM_LOCATIONS)]
    coasts = BOARD.coasts_of[province] or (province,)
    builds = [codes.pack(codes.BUILD, province, 0), *(codes.pack(codes.BUILD, coast, 1) for coast in coasts)]
    return builds if not row["units"][province] else []


def agrees(order, province, row, legal):
    """Return whether an order's text is rejected exactly if its list does not contain it."""
    unit = int(row["dislodged"][province])
    power = int(BOARD.home[province]) if not unit else (unit - 1) % codes.NUM_POWERS
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    arrays = {name: row[name] for name in ("units", "dislodged", "owner", "origin")}
    [line] = submit(orders, [write_order(order, province, unit)], power=power, phase=int(row["phase"]), **arrays)
    return (line.problem == "") == (find(order, legal) >= 0)
