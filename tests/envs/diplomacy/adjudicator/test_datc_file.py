"""`datc.txt` contains all cases, with positions that follow from the results of their orders."""

import re
from collections import Counter

from tests.envs.diplomacy.adjudicator import datc

# Cases of version 3.2 of the DATC, and those we added with a letter behind their number.
SIZES = {"6.A": 12, "6.B": 19, "6.C": 9, "6.D": 35, "6.E": 15, "6.F": 30, "6.G": 20, "6.H": 17, "6.I": 7, "6.J": 12}
ADDED = {"6.G.1b", "6.G.5b", "6.G.6b", "6.G.9b", "6.G.11b"}
UNIT = r"[AF] [A-Z]{3}(?:/[ENS]C)?"
CASES = datc.load().cases
PHASES = [(f"{case.id} {phase.name}", phase) for case in CASES for phase in case.phases]
MOVES = [(name, phase) for name, phase in PHASES if phase.kind == "M"]


def flat(holdings):
    """Return pairs of a power and a unit or centre."""
    return [(power, held) for power in holdings for held in holdings[power]]


def province(unit):
    """Return the province of a unit such as F SPA/NC, or of an order that starts with one."""
    return unit[2:5]


def numbers(identity):
    section, number, letter = re.fullmatch(r"6\.([A-J])\.(\d+)([a-z]?)", identity).groups()
    return section, int(number), letter


def test_every_section_has_its_number_of_cases():
    found = Counter(case.id[:3] for case in CASES)
    assert found == datc.load().sections
    assert {case.id for case in CASES if numbers(case.id)[2]} == ADDED
    assert Counter(case.id[:3] for case in CASES if case.id not in ADDED) == SIZES


def test_position_after_moves_follows_from_results():
    for name, phase in MOVES:
        owners = {province(unit): power for power, unit in flat(phase.units)}
        expected, entered = set(), set()
        for order in phase.orders:
            place, move = province(order.text), re.fullmatch(rf"{UNIT} - ([A-Z]{{3}})(/.C)?( VIA)?", order.text)
            assert not move or order.result in ("ok", "fails", "void"), f"{name}, line {order.line}"
            if move and order.result == "ok":
                place = move[1]
                entered.add(place)
            expected.add((owners[province(order.text)], order.text[0], place))
        found = flat(phase.after) + flat(phase.dislodged)
        assert {(power, unit[0], province(unit)) for power, unit in found} == expected, name
        assert {province(unit) for _, unit in flat(phase.dislodged)} <= entered, name


CASE = "section 6.A 1  words\ncase 6.A.1  a title\n"


def test_orders_and_positions_are_parsed_as_written():
    text = CASE + "RUSSIA  \n  F STP/SC - BOT   => ok  # by the south\n  A MOS H\nafter\n  RUSSIA   F BOT, A MOS\n"
    (case,) = datc.parse(text).cases
    assert (case.id, case.title, len(case.phases)) == ("6.A.1", "a title", 1)
    (phase,) = case.phases
    assert (phase.name, phase.kind, phase.dislodged) == ("S1901M", "M", {})
    assert phase.orders == [datc.Order("RUSSIA", "F STP/SC - BOT", "ok", 4), datc.Order("RUSSIA", "A MOS H", None, 5)]
    assert (phase.units, phase.after) == ({"RUSSIA": ("F STP/SC", "A MOS")}, {"RUSSIA": ("F BOT", "A MOS")})
