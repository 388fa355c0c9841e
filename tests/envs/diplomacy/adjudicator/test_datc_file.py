"""`datc.txt` is well-formed and free of contradictions, so that a failing case points to the adjudicator."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from tests.envs.diplomacy.adjudicator import datc

# Cases of version 3.2 of the DATC, and those we added with a letter behind their number.
SIZES = {"6.A": 12, "6.B": 19, "6.C": 9, "6.D": 35, "6.E": 15, "6.F": 30, "6.G": 20, "6.H": 17, "6.I": 7, "6.J": 12}
ADDED = {"6.G.1b", "6.G.5b", "6.G.6b", "6.G.9b", "6.G.11b"}
PROVINCES = {
    "inland": "BOH BUD BUR GAL MOS MUN PAR RUH SER SIL TYR UKR VIE WAR",
    "sea": "ADR AEG BAL BAR BLA BOT EAS ENG HEL ION IRI LYO MAO NAO NTH NWG SKA TYS WES",
    "coast": "ALB ANK APU ARM BEL BER BRE BUL CLY CON DEN EDI FIN GAS GRE HOL KIE LON LVN LVP MAR NAF NAP NWY PIC PIE "
    "POR PRU ROM RUM SEV SMY SPA STP SWE SYR TRI TUN TUS VEN WAL YOR",
}
INLAND, SEA, COAST = (set(PROVINCES[kind].split()) for kind in ("inland", "sea", "coast"))
TWO_COASTS = {"STP/NC", "STP/SC", "SPA/NC", "SPA/SC", "BUL/EC", "BUL/SC"}
PLACE = r"[A-Z]{3}(?:/[ENS]C)?"
UNIT = rf"[AF] {PLACE}"
SYNTAX = {
    "M": rf"{UNIT} (H|- {PLACE}( VIA)?|S {UNIT}( - {PLACE})?|C A [A-Z]{{3}} - [A-Z]{{3}})",
    "R": rf"{UNIT} (R {PLACE}|D)",
    "A": rf"{UNIT} [BD]",
}
CASES = datc.load().cases
PHASES = [(f"{case.id} {phase.name}", phase) for case in CASES for phase in case.phases]
MOVES = [(name, phase) for name, phase in PHASES if phase.kind == "M"]
ADJUSTMENTS = [(name, phase) for name, phase in PHASES if phase.kind == "A"]


def flat(holdings):
    """Return pairs of a power and a unit or centre."""
    return [(power, held) for power in holdings for held in holdings[power]]


def province(unit):
    """The province of a unit such as F SPA/NC, or of an order, which begins with one."""
    return unit[2:5]


def numbers(identity):
    section, number, letter = re.fullmatch(r"6\.([A-J])\.(\d+)([a-z]?)", identity).groups()
    return section, int(number), letter


def test_every_section_has_the_cases_it_says():
    found = Counter(case.id[:3] for case in CASES)
    assert found == datc.load().sections
    assert {case.id for case in CASES if numbers(case.id)[2]} == ADDED
    assert Counter(case.id[:3] for case in CASES if case.id not in ADDED) == SIZES


def test_cases_are_in_order_and_nothing_is_missing():
    identities = [numbers(case.id) for case in CASES]
    assert identities == sorted(set(identities))
    for section, size in SIZES.items():
        assert {number for letter, number, _ in identities if letter == section[2]} == set(range(1, size + 1))


def test_the_board_has_exactly_75_provinces():
    assert len(INLAND) + len(SEA) + len(COAST) == len(INLAND | SEA | COAST) == 75
    named = set()
    for case in CASES:
        for phase in case.phases:
            orders = " ".join(order.text for order in phase.orders)
            units = [unit for holdings in (phase.units, phase.after, phase.dislodged) for _, unit in flat(holdings)]
            centres = [centre for _, centre in flat(phase.centres)]
            named.update(re.findall(r"[A-Z]{3}(?:/[A-Z]+)?", " ".join([orders, *units, *centres]).replace(" VIA", "")))
    assert {place for place in named if "/" in place} <= TWO_COASTS
    assert {place[:3] for place in named} <= INLAND | SEA | COAST


def test_units_stand_where_they_can_and_none_twice():
    for name, phase in PHASES:
        for holdings in (phase.units, phase.after, phase.dislodged):
            units = [unit for _, unit in flat(holdings)]
            assert len(units) == len({province(unit) for unit in units}), name
            for unit in units:
                assert re.fullmatch(UNIT, unit), name
                assert province(unit) not in (SEA if unit[0] == "A" else INLAND), name
                assert ("/" in unit) == (unit[0] == "F" and province(unit) in {"STP", "SPA", "BUL"}), name


def test_orders_are_those_of_their_phase():
    for name, phase in PHASES:
        for order in phase.orders:
            syntax = SYNTAX[phase.kind]
            if phase.kind == "R" and order.result == "void":
                syntax = f"{syntax}|{SYNTAX['M']}"  # what retreats do not have, and what is not read in them
            assert re.fullmatch(syntax, order.text), f"{name}, line {order.line}"


def test_only_adjustments_speak_of_centres_and_only_moves_dislodge():
    for case in CASES:
        kinds = "".join(phase.kind for phase in case.phases)
        assert kinds in ("M", "MR", "A"), case.id
        for phase in case.phases:
            assert bool(phase.centres) == (phase.kind == "A"), case.id
            assert phase.kind == "M" or not phase.dislodged, case.id


def test_moves_lose_no_unit_and_make_none():
    for name, phase in MOVES:
        before = Counter((power, unit[0]) for power, unit in flat(phase.units))
        assert before == Counter((power, unit[0]) for power, unit in flat(phase.after) + flat(phase.dislodged)), name
        assert set(flat(phase.dislodged)) <= set(flat(phase.units)), name


def test_every_unit_has_one_order_of_its_power():
    for name, phase in MOVES:
        owners = {province(unit): power for power, unit in flat(phase.units)}
        ordered = [province(order.text) for order in phase.orders]
        assert sorted(ordered) == sorted(owners), name
        for order in phase.orders:
            assert order.result == "void" or owners[province(order.text)] == order.power, f"{name}, line {order.line}"


def test_the_position_after_moves_is_the_one_their_results_say():
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


def test_who_retreats_was_dislodged_and_the_others_stay():
    for case in CASES:
        for moves, retreats in pairwise(case.phases):
            assert retreats.name == moves.name[:-1] + "R", case.id
            assert retreats.units == moves.after, case.id
            went = []
            for order in retreats.orders:
                kind, place, verb, *to = order.text.split()
                dislodged = (order.power, f"{kind} {place}") in flat(moves.dislodged)
                assert dislodged or order.result == "void", f"{case.id}, line {order.line}"
                if verb == "R" and order.result == "ok":
                    went.append((order.power, f"{kind} {to[0]}"))
            assert sorted(flat(retreats.after)) == sorted(flat(moves.after) + went), case.id


def test_adjustments_end_with_no_more_units_than_centres():
    for name, phase in ADJUSTMENTS:
        before, after = set(flat(phase.units)), set(flat(phase.after))
        done = {(order.power, order.text[:-2], order.text[-1]) for order in phase.orders if order.result == "ok"}
        assert after - before == {(power, unit) for power, unit, verb in done if verb == "B"}, name
        assert before - after >= {(power, unit) for power, unit, verb in done if verb == "D"}, name
        for power, centres in phase.centres.items():
            had, kept = len(phase.units.get(power, ())), len(phase.after.get(power, ()))
            assert kept == len(centres) if had > len(centres) else had <= kept <= len(centres), name


CASE = "section 6.A 1  words\ncase 6.A.1  a title\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense\n", r"datc.txt:1: expected section, case, phase"),
        ("section 6.K 3  words\n", r"datc.txt:1: expected a section"),
        ("# a comment\n\ncase 6.A.1\n", r"datc.txt:3: expected a number and a title"),
        ("FRANCE\n", r"datc.txt:1: this belongs to no case"),
        (CASE, r"datc.txt:2: case 6.A.1 has no phase"),
        (CASE + "phase S01M\n", r"datc.txt:3: expected a phase"),
        (CASE + "  A PAR H\n", r"datc.txt:3: 'A PAR H' belongs to nothing"),
        (CASE + "FRANCE\n  A PAR H\n", r"datc.txt:4: .* begins at line 3 ends without its outcome"),
        (CASE + "FRANCE\n  A PAR H\nFRANCE\n", r"datc.txt:5: FRANCE for the second time"),
        (CASE + "FRANCE\n  A Paris H\n", r"datc.txt:4: expected an order"),
        (CASE + "FRANCE\n  A PAR H => fine\n", r"datc.txt:4: expected a result among ok, .*, got 'fine'"),
        (CASE + "FRANCE\n  A PAR H =>\n", r"datc.txt:4: expected a result"),
        (CASE + "FRANCE\n  A PAR H\nafter\n  PARIS  A PAR\n", r"datc.txt:6: expected a power, once"),
        (CASE + "units\n  FRANCE  A PAR\n  FRANCE  A BRE\n", r"datc.txt:5: expected a power, once"),
    ],
)
def test_an_error_names_its_line(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        datc.parse(text)


def test_orders_and_positions_are_read_as_written():
    text = CASE + "RUSSIA  \n  F STP/SC - BOT   => ok  # by the south\n  A MOS H\nafter\n  RUSSIA   F BOT, A MOS\n"
    (case,) = datc.parse(text).cases
    assert (case.id, case.title, len(case.phases)) == ("6.A.1", "a title", 1)
    (phase,) = case.phases
    assert (phase.name, phase.kind, phase.dislodged) == ("S1901M", "M", {})
    assert phase.orders == [datc.Order("RUSSIA", "F STP/SC - BOT", "ok", 4), datc.Order("RUSSIA", "A MOS H", None, 5)]
    assert (phase.units, phase.after) == ({"RUSSIA": ("F STP/SC", "A MOS")}, {"RUSSIA": ("F BOT", "A MOS")})
