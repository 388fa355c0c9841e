"""Order notation: accepted spellings, round trips, and errors."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import ARMY, FLEET, POWERS, find_location, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import (
    OrderError,
    read_order,
    read_unit,
    unit_location,
    unit_name,
    without_army_coasts,
    write_order,
    write_unit,
)

WORDS = [
    *("A", "F", "PAR", "BUR", "STP/SC", "STP(NC)", "SPAIN", "Mid-Atlantic", "-", "->", "to", "S", "H", "C", "R", "D"),
    *("B", "VIA", "convoy", "holds", "WAIVE", "(", "/", ".", ";", "*", "7"),
]


def packed(kind, target="", other="", *, via=False):
    """Return an order from the names of its places."""
    places = (find_location(name) if name else 0 for name in (target, other))
    return codes.pack(kind, *places, via=via)


@pytest.mark.parametrize(
    ("text", "place", "order"),
    [
        ("A PAR H", "PAR", packed(codes.HOLD)),
        ("army Paris holds.", "PAR", packed(codes.HOLD)),
        ("PAR stand", "PAR", packed(codes.HOLD)),
        ("A PAR - BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("a par-bur", "PAR", packed(codes.MOVE, "BUR")),
        ("A Paris -> Burgundy", "PAR", packed(codes.MOVE, "BUR")),
        ("A Paris→Burgundy", "PAR", packed(codes.MOVE, "BUR")),
        ("A PAR – BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("A PAR \N{MINUS SIGN} BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("A PAR\N{NON-BREAKING HYPHEN}BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("A PAR => BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("Army Paris moves to Burgundy", "PAR", packed(codes.MOVE, "BUR")),
        ("A PAR to BUR", "PAR", packed(codes.MOVE, "BUR")),
        ("A LON - NWY VIA", "LON", packed(codes.MOVE, "NWY", via=True)),
        ("A LON - NWY via convoy", "LON", packed(codes.MOVE, "NWY", via=True)),
        ("F STP/SC-BOT", "STP/SC", packed(codes.MOVE, "BOT")),
        ("F St. Petersburg (south coast) - Gulf of Bothnia", "STP/SC", packed(codes.MOVE, "BOT")),
        ("F Mid-Atlantic Ocean - Spain (sc)", "MAO", packed(codes.MOVE, "SPA/SC")),
        ("A PAR S A MAR", "PAR", packed(codes.SUPPORT, "MAR")),
        ("A PAR S MAR H", "PAR", packed(codes.SUPPORT, "MAR")),
        ("A PAR supports army Marseilles moves to Burgundy", "PAR", packed(codes.SUPPORT_MOVE, "BUR", "MAR")),
        ("A PAR S MAR-BUR", "PAR", packed(codes.SUPPORT_MOVE, "BUR", "MAR")),
        ("F NTH C A LON - NWY", "NTH", packed(codes.CONVOY, "NWY", "LON")),
        ("F North Sea convoys London to Norway", "NTH", packed(codes.CONVOY, "NWY", "LON")),
        ("A MUN R BER", "MUN", packed(codes.RETREAT, "BER")),
        ("A MUN retreats to BER", "MUN", packed(codes.RETREAT, "BER")),
        ("A MUN D", "MUN", packed(codes.DISBAND)),
        ("remove A MUN", "MUN", packed(codes.DISBAND)),
        ("A PAR B", "PAR", codes.pack(codes.BUILD, find_location("PAR"), 0)),
        ("build F STP/NC", "STP/NC", codes.pack(codes.BUILD, find_location("STP/NC"), 1)),
    ],
)
def test_orders_are_read_in_common_notations(text, place, order):
    read = read_order(text)
    assert (location_name(read.location), codes.unpack(read.order)) == (place, codes.unpack(order))


@pytest.mark.parametrize("text", ["WAIVE", "waive", " Pass "])
def test_waive_is_not_parsed_as_order(text):
    assert read_order(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty order: write one such as 'A PAR - BUR', or leave it out"),
        (" . ", "an empty order: write one such as 'A PAR - BUR', or leave it out"),
        ("A PAR", "order 'A PAR': says nothing to do; add H, - and a place, S, C, R, D or B"),
        ("A PAR -", "order 'A PAR -': breaks off where a place should be"),
        ("A PAR S A", "order 'A PAR S A': breaks off where a place should be"),
        ("F NTH C A LON", "order 'F NTH C A LON': says no destination; write F NTH C A LON - NWY"),
        ("PAR B", "order 'PAR B': does not say what to build; write A or F, as in A PAR B"),
        ("A PAR H A MAR H", "order 'A PAR H A MAR H': cannot be read from 'A MAR H' on"),
        ("A LON - NTH - NWY", "order 'A LON - NTH - NWY': cannot be read from '- NWY' on"),
        (
            "A PARR H",
            "order 'A PARR H': unknown province 'PARR': write a code or a name, as in PAR, STP/NC, North Sea; "
            "did you mean 'PAR'?",
        ),
        ("F STP/EC - BOT", "order 'F STP/EC - BOT': unknown coast 'STP/EC': choose from STP/NC, STP/SC"),
    ],
)
def test_unreadable_orders_give_one_line_error(text, said):
    with pytest.raises(OrderError) as caught:
        read_order(text)
    assert str(caught.value) == said


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)))
def test_any_text_is_order_or_one_line_error(text):
    read, problem = None, ""
    try:
        read = read_order(text)
    except OrderError as error:
        problem = str(error)
    assert problem.isprintable()
    assert read is None or 0 <= read.province < codes.NUM_PROVINCES


def test_every_listed_order_round_trips():
    """Covers all legal orders of a game in every kind of phase."""
    batch, kinds = DiplomacyBatch(1, threads=1, last_year=1907), set()
    batch.players[0, ::2] = codes.BOTS.index("dumbbot")
    for step in range(40):
        standing = batch.units[0] if not bool(batch.dislodged.any()) else batch.dislodged[0]
        for province, listed in batch.legal_orders(0).items():
            for order in listed[listed != codes.NO_ORDER].tolist():
                read = read_order(write_order(order, province, int(standing[province])))
                assert (read.province, read.order) == (province, order)
                kinds.add(order & codes.KIND_MASK)
        batch.draw_orders(step)
        batch.process()
    batch.close()
    assert kinds == set(range(codes.HOLD, codes.KINDS))


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("PAR", "unit 'PAR': write A or F and a place, as in A PAR or F STP/SC"),
        ("A NTH", "unit 'A NTH': an army stands on land, as in A PAR or A STP"),
        ("F MUN", "unit 'F MUN': a fleet stands at sea or on a coast; MUN is inland"),
        ("F SPA", "unit 'F SPA': say which coast, F SPA/NC or F SPA/SC"),
    ],
)
def test_units_on_impossible_locations_are_rejected(unit, said):
    with pytest.raises(OrderError) as caught:
        read_unit(unit, POWERS.index("FRANCE"))
    assert str(caught.value) == said


def test_coast_of_army_is_ignored():
    """DATC 4.B.6, wherever an army is named: units, moves, supports, convoys and builds."""
    russia, stp = POWERS.index("RUSSIA"), find_location("STP")
    assert read_unit("A STP/NC", russia) == (stp, codes.unit_code(russia, codes.ARMY_FORM))
    assert read_order("F BAR S A FIN - STP/NC").order == packed(codes.SUPPORT_MOVE, "STP", "FIN")
    assert read_order("F WES C A TUN - SPA/SC").order == packed(codes.CONVOY, "SPA", "TUN")
    assert read_order("A STP/NC B").order == codes.pack(codes.BUILD, stp, ARMY)
    units = np.zeros(codes.NUM_PROVINCES, dtype=np.uint8)
    for place, code in (read_unit(unit, russia) for unit in ("A FIN", "F GAS")):
        units[place] = code
    for named, kept in (
        ("FIN - STP/NC", "FIN - STP"),
        ("FIN R STP/NC", "FIN R STP"),
        ("BAR S FIN - STP/NC", "BAR S FIN - STP"),
        ("GAS - SPA/NC", "GAS - SPA/NC"),
        ("MAO S GAS - SPA/NC", "MAO S GAS - SPA/NC"),
    ):
        order = read_order(named)
        assert without_army_coasts(order.order, order.province, units) == read_order(kept).order


def test_unit_name_is_consistent():
    """Every unit: named by kind and place, from its code, in its order, and in its build."""
    board, written = standard_board(), 0
    for kind, location in product((ARMY, FLEET), range(codes.NUM_LOCATIONS)):
        province, name = int(board.province_of[location]), unit_name(kind, location)
        try:
            assert read_unit(name, 0)[0] == province
        except OrderError:
            continue
        if kind == ARMY and location != province:  # An army's coast is read, and not written.
            assert read_unit(name, 0) == read_unit(unit_name(kind, province), 0)
            continue
        unit = read_unit(name, 0)[1]
        assert (write_unit(unit, province), unit_location(unit, province)) == (name, location)
        assert write_order(codes.pack(codes.HOLD), province, unit) == f"{name} H"
        assert write_order(codes.pack(codes.BUILD, location, kind), province, 0) == f"{name} B"
        written += 1
    assert written == 56 + 19 + 39 + 6  # armies on land; fleets at sea, on whole coasts, and on coasts of split ones
