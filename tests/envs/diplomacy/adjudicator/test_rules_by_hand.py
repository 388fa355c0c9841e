"""Rules that no DATC case decides, as positions worked out by hand."""

import numpy as np
import pytest

from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.notation import Order, read_order
from tests.envs.diplomacy.scenes import unit_row

GERMANY, TURKEY = POWERS.index("GERMANY"), POWERS.index("TURKEY")
BOARD = standard_board()
CENTRES = [BOARD.provinces[province] for province in BOARD.centres]


@pytest.fixture(scope="module")
def batch():
    games = DiplomacyBatch(1, threads=1)
    yield games
    games.close()


def process(batch, units, *orders, owner=None, phase=codes.SPRING):
    """Process one phase; `units` are {power: "A PAR, F BRE"}, `owner` is {power: centres}, orders lines or `Order`s."""
    centres = np.full((1, codes.NUM_CENTRES), -1)
    for power, names in (owner or {}).items():
        centres[0, [BOARD.centre_of[find_location(name)] for name in names]] = power
    batch.load(position(unit_row(units)[None], centres, year=1901, phase=phase))
    for line in orders:
        read = line if isinstance(line, Order) else read_order(line)
        batch.orders[0, read.province] = read.order
    batch.process()


def standing(batch):
    return {BOARD.provinces[place] for place in batch.units[0].nonzero().flatten()}


def result(batch, name):
    return int(batch.results[0, find_location(name)])


def test_foreign_support_cannot_dislodge_own_unit(batch):
    """With Russia's support the attack is 2 against 1, and would dislodge any foreign army."""
    orders = ("A KIE - BER", "A BER H", "A PRU S A KIE - BER")
    process(batch, {"germany": "A KIE, A BER", "russia": "A PRU"}, *orders)
    assert standing(batch) == {"KIE", "BER", "PRU"}
    assert not batch.dislodged.any()
    process(batch, {"germany": "A KIE", "france": "A BER", "russia": "A PRU"}, *orders)
    assert standing(batch) == {"BER", "PRU"}
    assert int(batch.dislodged[0, find_location("BER")]) == 1 + POWERS.index("FRANCE")


def with_support(mover, target, supporter, supported):
    """Return a move and its support as packed orders, which keep their coasts."""
    origin = find_location(mover)
    move = Order(origin, "", codes.pack(codes.MOVE, find_location(target)))
    support = codes.pack(codes.SUPPORT_MOVE, find_location(supported), origin)
    return move, Order(find_location(supporter), "", support)


@pytest.mark.parametrize("supported", ["STP/NC", "STP/SC", "STP"])
@pytest.mark.parametrize("ordered", ["STP/NC", "STP"])
def test_coast_in_army_order_is_ignored(batch, ordered, supported):
    """The army and its support are two against one for any coast they name (DATC 4.B.6)."""
    orders = with_support("FIN", ordered, "BAR", supported)
    process(batch, {"england": "A FIN, F BAR", "russia": "A STP"}, *orders)
    assert standing(batch) == {"STP", "BAR"}
    assert (result(batch, "FIN"), result(batch, "BAR")) == (codes.DONE, codes.DONE)


@pytest.mark.parametrize(("supported", "moves"), [("STP/NC", True), ("STP/SC", False), ("STP", True)])
def test_coast_in_fleet_support_counts(batch, supported, moves):
    """Only the support for the north coast gives the fleet two against one."""
    orders = with_support("BAR", "STP/NC", "FIN", supported)
    process(batch, {"england": "F BAR, A FIN", "russia": "A STP"}, *orders)
    assert (result(batch, "BAR") == codes.DONE) is moves


def test_power_builds_exactly_its_missing_units(batch):
    """Three centres and two units: the first of two builds in province order is carried out."""
    homes = {GERMANY: ["BER", "KIE", "MUN"]}
    process(batch, {"germany": "A RUH, A BUR"}, "A BER B", "A KIE B", owner=homes, phase=codes.WINTER)
    assert standing(batch) == {"RUH", "BUR", "BER"}
    assert (result(batch, "BER"), result(batch, "KIE")) == (codes.DONE, codes.VOID)


@pytest.mark.parametrize(("owned", "winner"), [(17, TURKEY), (16, -1)])
def test_eighteenth_centre_wins_after_fall(batch, owned, winner):
    """A unit stands in one centre more than the power owns."""
    process(batch, {"turkey": f"A {CENTRES[owned]}"}, owner={TURKEY: CENTRES[:owned]}, phase=codes.FALL)
    assert (int(batch.winner[0]), bool(batch.done[0])) == (winner, winner == TURKEY)
