"""Listed orders are exactly the legal ones: every writable order is tried against the adjudicator."""

from itertools import product

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import COAST, SEA, standard_board
from sparring.envs.diplomacy.board.state import board_tables
from sparring.envs.diplomacy.board.tensors import due
from sparring.envs.diplomacy.orders.listing import MAX_ORDERS, Lister, find
from sparring.envs.diplomacy.orders.notation import read_order, read_unit, write_order
from tests.envs.diplomacy.adjudicator import datc

BOARD = standard_board()
GAMES = 1024


@pytest.fixture(scope="module")
def batch():
    games = DiplomacyBatch(GAMES, threads=1)
    yield games
    games.close()


def placed(text, phase=codes.SPRING):
    """Return a position from lines such as "FRANCE A PAR, F BRE"."""
    units = np.zeros((1, 75), dtype=np.uint8)
    for line in filter(None, text.strip().splitlines()):
        power, _, names = line.strip().partition(" ")
        for name in names.split(","):
            province, code = read_unit(name, datc.POWERS.index(power))
            units[0, province] = code
    return position(units, np.full((1, 34), -1), year=1901, phase=phase)


def preferred(place, at_sea):
    """Put fleets at sea first, and armies on coasts first, where they can be convoyed."""
    return int((BOARD.terrain[BOARD.province_of[place]] == COAST) == at_sea)


def spread_out(seed, armies, fleets):
    """Return a position with units of random powers, armies on coasts and fleets at sea where possible."""
    random = np.random.default_rng(seed)
    units, board = np.zeros((1, 75), dtype=np.uint8), BOARD
    for letter, count in (("A", armies), ("F", fleets)):
        at_sea = letter == "F"
        places = [
            place
            for place, province in enumerate(board.province_of)
            if (board.fleet_next[place].any() if at_sea else place < 75 and board.terrain[place] != SEA)
        ]
        for place in sorted(random.permutation(places), key=lambda place: preferred(place, at_sea)):
            province = board.province_of[place]
            if count and not units[0, province]:
                name = f"{letter} {board.locations[place]}"
                units[0, province] = read_unit(name, int(random.integers(7)))[1]
                count -= 1
    return position(units, np.full((1, 34), -1), year=1901, phase=codes.SPRING)


def movement_space():
    """Return every order that can be written in spring: all places in all fields."""
    places = range(codes.NUM_LOCATIONS)
    orders = [codes.pack(codes.HOLD)]
    orders += [codes.pack(codes.MOVE, place, via=via) for place in places for via in (False, True)]
    orders += [codes.pack(codes.SUPPORT, place) for place in places]
    for kind in (codes.SUPPORT_MOVE, codes.CONVOY):
        orders += [codes.pack(kind, target, other) for target, other in product(places, places)]
    orders += [codes.pack(kind, 1) for kind in range(codes.RETREAT, 16)]
    off_the_board = ((127, 0), (codes.NUM_LOCATIONS, 0), (1, 127), (1, codes.NUM_LOCATIONS))
    return orders + [codes.pack(kind, *places) for kind in range(1, codes.RETREAT) for places in off_the_board]


def verdicts(batch, state, province, orders):
    """Return results of one unit's `orders`, each in its own game that starts from `state`."""
    found = []
    for start in range(0, len(orders), GAMES):
        some = torch.tensor(orders[start : start + GAMES], dtype=torch.int32)
        batch.load(state)
        batch.orders[: len(some), province] = some
        batch.process()
        found.append(batch.results[: len(some), province].clone())
    batch.check()
    return torch.cat(found).numpy() % codes.DISLODGED_FLAG


def compare(batch, state, province, orders):
    """Check that a unit's list has exactly the non-void orders, each once."""
    batch.load(state)
    listed = batch.legal_orders(0)[province]
    legal = verdicts(batch, state, province, orders) != codes.VOID
    keys = {key(order) for order in listed.tolist()}
    at = np.array([find(order, listed) if key(order) in keys else -1 for order in orders])
    wrong = [codes.unpack(orders[number]) for number in np.flatnonzero(legal != (at >= 0))]
    assert not wrong, (BOARD.provinces[province], wrong[:5])
    assert sorted(set(at.tolist()) - {-1}) == list(range(len(listed)))


def key(order):
    """Return the key shared by equivalent orders; `find` is slow over all orders."""
    kind, target, other, _ = codes.unpack(order)
    return (kind, *(BOARD.province_of[place] if place < codes.NUM_LOCATIONS else -1 for place in (target, other)))


POSITIONS = {
    "opening": None,
    "a fleet needed for the convoy it would support": placed("TURKEY A ARM, F BLA, F ANK\nRUSSIA F SEV, A RUM, F AEG"),
    "two seas that touch one army and not each other": placed("FRANCE A SPA, F MAO, F WES\nITALY F TYS, A GRE, F AEG"),
    "split coasts": placed("FRANCE F MAO, F GAS, F POR, F WES\nRUSSIA F BOT, F NWY, F CON\nTURKEY A SEV, F BLA, F AEG"),
    "crowded": spread_out(1, 17, 17),
    "at sea": spread_out(2, 8, 19),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_listed_moves_match_adjudicator(batch, name):
    state, space = POSITIONS[name] or opening(), movement_space()
    provinces = np.flatnonzero(state["units"][0].numpy()).tolist()
    batch.load(state)
    assert sorted(batch.legal_orders(0)) == provinces
    for province in np.random.default_rng(3).permutation(provinces)[:7].tolist():
        compare(batch, state, province, space)


def standoff():
    """Return a spring with three dislodged units and contested or attacker-occupied retreats."""
    state = placed("""
        FRANCE A BUR, A RUH, A PIC, F HOL
        GERMANY A MUN, A KIE, F BEL, A BOH
        ITALY A TYR, A VEN
        AUSTRIA F TRI, A BUD, F ADR
    """)
    moves = "A BUR - MUN, A RUH S A BUR - MUN, A TYR - TRI, A VEN S A TYR - TRI, A BOH - TYR"
    orders = f"{moves}, A PIC - BEL, F HOL S A PIC - BEL, A BUD - VIE".split(", ")
    return state, orders


def test_listed_retreats_match_adjudicator(batch):
    state, orders = standoff()
    batch.load(state)
    for text in orders:
        read = read_order(text)
        batch.orders[:, read.province] = read.order
    batch.process()
    assert int(batch.phase[0]) == codes.SPRING_RETREATS
    state = {name: values[:1] for name, values in batch.snapshot().items()}
    lost = np.flatnonzero(state["dislodged"][0].numpy()).tolist()
    assert [BOARD.provinces[province] for province in lost] == ["BEL", "MUN", "TRI"]
    places = range(codes.NUM_LOCATIONS)
    space = [codes.pack(kind, place) for kind in (*range(7), *range(9, 16)) for place in places if kind]
    space += [codes.pack(codes.DISBAND), codes.pack(codes.RETREAT, 127), codes.pack(codes.BUILD, 50)]
    for province in lost:
        compare(batch, state, province, space)


def winter():
    """Return a winter: England builds, France has no free home, Russia may build fewer than due, Italy disbands."""
    state = placed(
        "ENGLAND A NWY\nFRANCE A PAR, A BRE, F MAR\nRUSSIA F STP/SC, A MOS\nITALY A ROM, F NAP, A PIE", codes.WINTER
    )
    for power, names in {1: "EDI LON LVP", 2: "PAR BRE MAR SPA POR", 4: "ROM", 5: "STP MOS SEV WAR RUM BUL"}.items():
        state["owner"][0, [BOARD.centre_of[BOARD.provinces.index(name)] for name in names.split()]] = power
    return state


def test_listed_builds_and_disbands_match_adjudicator(batch):
    state = winter()
    batch.load(state)
    listed = batch.legal_orders(0)
    assert " ".join(BOARD.provinces[province] for province in sorted(listed)) == "EDI LON LVP NAP PIE ROM SEV WAR"
    assert due(state["units"][:1], state["owner"][:1]).tolist() == [[0, 2, 0, 0, -2, 2, 0]]
    places = range(codes.NUM_LOCATIONS)
    space = [codes.pack(kind, place) for kind in range(1, 7) for place in places]
    space += [codes.pack(codes.BUILD, place, unit) for place in range(128) for unit in (0, 1, 2, 127)]
    space += [codes.NO_ORDER, codes.pack(codes.DISBAND), 9, 15]
    for province in range(75):
        if province in listed:
            compare(batch, state, province, space)
        else:
            assert (verdicts(batch, state, province, space[:-4]) == codes.VOID).all()


def test_fleet_can_be_built_on_either_coast(batch):
    state = placed("RUSSIA A MOS", codes.WINTER)
    state["owner"][0, [BOARD.centre_of[BOARD.provinces.index(name)] for name in ("STP", "MOS")]] = 5
    batch.load(state)
    (province, listed), *others = batch.legal_orders(0).items()
    assert (BOARD.provinces[province], others) == ("STP", [])
    words = [write_order(order, province, 0) for order in listed[1:].tolist()]
    assert words == ["A STP B", "F STP/NC B", "F STP/SC B"]
    space = [codes.pack(codes.BUILD, place, unit) for place in range(128) for unit in (0, 1)]
    compare(batch, state, province, [codes.NO_ORDER, *space])


def test_every_listed_order_in_played_games_is_accepted(batch):
    """In random games, the adjudicator never calls a listed order void."""
    games = DiplomacyBatch(1, threads=1)
    for step in range(40):
        listed = games.legal_orders(0)
        state = games.snapshot()
        for province, orders in list(listed.items())[:: 1 + len(listed) // 6]:
            assert (verdicts(batch, state, province, orders.tolist()) != codes.VOID).all()
        games.draw_orders(step)
        drawn = games.orders[0].numpy()
        assert all(order in listed[province] for province, order in enumerate(drawn) if order)
        games.process()
    games.close()


def test_random_orders_are_uniform(batch):
    batch.reset()
    listed = batch.legal_orders(0)
    counts = {province: np.zeros(len(orders)) for province, orders in listed.items()}
    for seed in range(20):
        batch.draw_orders(seed)
        for province, orders in listed.items():
            drawn = batch.orders[:, province].numpy()
            counts[province] += (drawn[:, None] == orders).sum(axis=0)
    for province, found in counts.items():
        expected = found.sum() / len(found)
        assert found.sum() == 20 * GAMES
        chi = ((found - expected) ** 2 / expected).sum()
        assert chi < len(found) + 6 * (2 * len(found)) ** 0.5, BOARD.provinces[province]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A BEL - NWY", "A BEL - NWY VIA"),
        ("A BEL - HOL VIA", "A BEL - HOL VIA"),
        ("A BEL - BUR VIA", "A BEL - BUR"),
        ("A BEL - STP/NC", "A BEL - STP VIA"),
        ("F MAO - SPA/NC", "F MAO - SPA/NC"),
        ("F MAO - SPA", None),
        ("F WES - SPA", "F WES - SPA/SC"),
        ("F WES - SPA/NC", None),
        ("F GAS S F MAO - SPA/SC", "F GAS S MAO - SPA"),
        ("F NTH C A BEL - STP/SC", "F NTH C A BEL - STP"),
    ],
)
def test_equivalent_orders_are_found(batch, written, meant):
    state = placed("ENGLAND F NTH, F BAR, F NWG, F HOL\nFRANCE A BEL, F MAO, F WES, F GAS")
    batch.load(state)
    read = read_order(written)
    listed = batch.legal_orders(0)[read.province]
    at = find(read.order, listed)
    unit = int(state["units"][0, read.province])
    assert (write_order(int(listed[at]), read.province, unit) if at >= 0 else None) == meant


def test_buffer_grows_without_truncation():
    batch = DiplomacyBatch(2, threads=1)
    batch.load(spread_out(2, 15, 19))
    whole = batch.legal_orders(1)
    lister = Lister(batch._launcher, batch._games, batch._tables, room=1)
    small = lister(1)
    assert {province: orders.tolist() for province, orders in small.items()} == {
        province: orders.tolist() for province, orders in whole.items()
    }
    assert max(map(len, whole.values())) > 300
    batch.close()


def test_batch_listing_equals_single_listing():
    games = DiplomacyBatch(9, last_year=1902, threads=2)
    games.load(spread_out(2, 15, 19))
    lister = Lister(games._launcher, games._games, games._tables, room=1)
    numbers = torch.zeros(9, codes.NUM_PROVINCES, dtype=torch.int64)
    places = torch.arange(codes.NUM_PROVINCES).expand(9, -1)
    phases = set()
    while not games.done.all():
        phases |= set(games.phase.tolist())
        together = lister.all()
        counts, legal = together.counts, together.mask(places)
        assert torch.equal(legal.sum(2), counts)
        chosen = together.take(torch.where(counts > 0, (counts - 1).clamp_min(0), numbers))
        for game in range(9):
            alone, starts = games.legal_orders(game), together.starts[game].tolist()
            assert alone.keys() == set(counts[game].nonzero().flatten().tolist())
            for place, orders in alone.items():
                assert together.orders[game, starts[place] : starts[place + 1]].tolist() == orders.tolist()
                assert chosen[game, place] == orders[-1]
            assert not chosen[game, counts[game] == 0].any()
        games.draw_orders(len(phases))
        games.process()
    assert {codes.SPRING, codes.FALL, codes.WINTER} <= phases
    assert not lister.all().counts.any()
    games.close()


def test_maximum_orders_per_unit_is_never_exceeded():
    """The best chain of fleets of every length, by trying all connected chains of seas."""
    tables = board_tables(BOARD)
    shore = tables["shore"][BOARD.terrain == COAST].astype(int)
    nearby = [int(seas) for seas in tables["sea_next"]]
    chains = found = {1 << sea for sea in range(19)}
    while found:
        found = {chain | 1 << sea for chain in found for sea in range(19) if _next(chain, nearby) >> sea & 1} - chains
        chains = chains | found
    convoys = 0
    for chain in chains:
        coasts = int((shore & chain > 0).sum())
        convoys = max(convoys, min(codes.MAX_UNITS - chain.bit_count(), coasts) * (coasts - 1))
    sides = [(tables[name] >= 0).sum(axis=1)[codes.NUM_LOCATIONS :] for name in ("landings", "reach")]
    others = (1 + sides[0] + sides[1] * codes.MAX_UNITS)[:75][BOARD.terrain == SEA].max()
    assert (convoys, int(others), convoys + int(others)) == (696, 386, MAX_ORDERS)


def _next(chain, nearby):
    seas = 0
    for sea in range(19):
        seas |= nearby[sea] if chain >> sea & 1 else 0
    return seas & ~chain


def test_finished_games_list_nothing_and_unknown_are_rejected():
    batch = DiplomacyBatch(2, threads=1)
    batch.done[1] = 1
    assert batch.legal_orders(1) == {}
    for game in (-1, 2):
        with pytest.raises(InputError, match=rf"game={game}: must be a whole number in \[0, 1\]"):
            batch.legal_orders(game)
    batch.close()


def test_games_are_copied_completely():
    batch = DiplomacyBatch(6, threads=1)
    for step in range(9):
        batch.draw_orders(step)
        batch.process()
    batch.draw_orders(9)
    before = {name: getattr(batch, name).clone() for name in (*batch.snapshot(), "orders", "results")}
    batch.copy([0, 1, 5], torch.tensor([1, 0, 3]))
    for name, values in before.items():
        assert torch.equal(getattr(batch, name), values[[1, 0, 2, 5, 4, 5]]), name
    batch.process()
    after = batch.snapshot()
    batch.load(
        {name: values[[5, 5, 5, 5, 5, 5]] for name, values in before.items() if name not in ("orders", "results")}
    )
    batch.orders.copy_(before["orders"][[5] * 6])
    batch.process()
    for name, values in batch.snapshot().items():
        assert torch.equal(values[0], after[name][3]), name
    batch.close()


@pytest.mark.parametrize(
    ("origin", "goal", "message"),
    [
        ([0], [1, 2], "from_games has 1 games, to_games has 2: give as many"),
        ([4], [1], r"from_games holds 4: must be in \[0, 3\]"),
        ([0], [-1], r"to_games holds -1: must be in \[0, 3\]"),
        ([0, 1], [2, 2], "to_games holds a game twice"),
    ],
)
def test_invalid_copies_are_rejected(origin, goal, message):
    batch = DiplomacyBatch(4, threads=1)
    with pytest.raises(InputError, match=message):
        batch.copy(origin, goal)
    batch.close()
