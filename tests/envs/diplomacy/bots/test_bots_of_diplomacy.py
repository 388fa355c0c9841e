"""The scripted bots: characteristic behaviour, legal orders, and randomness per game."""

from collections import Counter
from random import Random

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.notation import read_order, read_unit
from sparring.envs.diplomacy.orders.order_preferences import neutral_locations
from sparring.envs.diplomacy.rewards.scoring import count_centres
from tests.envs.diplomacy.bots.dumbbot_again import World
from tests.envs.diplomacy.bots.place_values import place_values

BOTS = {name: number for number, name in enumerate(codes.BOTS)}
MOVEMENT = (codes.SPRING, codes.FALL)
SUPPORTS = (codes.SUPPORT, codes.SUPPORT_MOVE)
FRANCE, ITALY = POWERS.index("FRANCE"), POWERS.index("ITALY")


@pytest.fixture(scope="module")
def games():
    made = []

    def make(num_games, **options):
        made.append(DiplomacyBatch(num_games, **{"threads": 1} | options))
        return made[-1]

    yield make
    for batch in made:
        batch.close()


def phases(batch, seed, count=10_000):
    """Let bots play; yield the orders [G, 75] of every phase before they are processed."""
    for _ in range(count):
        if batch.done.all():
            return
        batch.draw_orders(seed)
        yield batch.orders
        batch.process()


def all_play(batch, bot):
    batch.reset()
    batch.players.fill_(BOTS[bot])
    return batch


def movement_orders(batch, seed, count=60):
    """Return (game, province, kind, target, other) of every movement order."""
    for orders in phases(batch, seed, count):
        moving = (batch.phase == codes.SPRING) | (batch.phase == codes.FALL)
        for game, province in ((orders != 0) & moving[:, None]).nonzero().tolist():
            yield game, province, *codes.unpack(int(orders[game, province]))[:3]


def place(batch, units, centres, *, phase):
    """Set every game to a text position, power by power."""
    rows, owner = np.zeros((1, 75), dtype=np.uint8), np.full((1, 34), -1)
    for power, names in units.items():
        for name in names:
            province, code = read_unit(name, POWERS.index(power))
            rows[0, province] = code
    for power, names in centres.items():
        owner[0, [standard_board().centre_of[find_location(name)] for name in names]] = POWERS.index(power)
    batch.load(position(rows, owner, year=1905, phase=phase))


def seeds_give(batch, seeds, location):
    """Return the orders in one province of game 0, one per seed."""
    found = []
    for seed in range(seeds):
        batch.orders.zero_()
        batch.draw_orders(seed)
        found.append(int(batch.orders[0, find_location(location)]))
    return found


@pytest.mark.parametrize("bot", codes.BOTS)
def test_game_is_equal_in_other_batch(games, bot):
    many, few = all_play(games(5, last_year=1905, threads=2), bot), all_play(games(2, last_year=1905), bot)
    few.game_id.copy_(torch.tensor([3, 1]))
    list(phases(many, 7))
    list(phases(few, 7))
    for name in ("units", "owner", "year", "winner", "results"):
        assert torch.equal(getattr(many, name)[[3, 1]], getattr(few, name))
    few.reset()
    few.draw_orders(7)
    before = few.orders.clone()
    few.draw_orders(8)
    assert not torch.equal(before, few.orders)


def test_randomness_belongs_to_each_power(games):
    left, right = games(1), games(1)
    for bot in codes.BOTS:
        left.players.fill_(BOTS[bot])
        for other in codes.BOTS:
            right.players.fill_(BOTS[other])
            right.players[0, FRANCE] = BOTS[bot]
            left.draw_orders(3)
            right.draw_orders(3)
            own = codes.power_of(left.units[0].numpy()) == FRANCE
            assert np.array_equal(left.orders[0].numpy()[own], right.orders[0].numpy()[own])


def test_externally_played_powers_keep_orders(games):
    batch = games(2)
    order = read_order("A PAR - PIC")
    batch.orders[:, order.province] = order.order
    batch.players[:, FRANCE] = codes.ACTIONS
    batch.draw_orders(0)
    own = codes.power_of(batch.units.numpy()) == FRANCE
    assert (batch.orders[:, order.province] == order.order).all()
    assert (batch.orders.numpy() != 0).sum() == 2 * (22 - 3 + 1)
    assert (batch.orders.numpy()[own] != 0).sum() == 2


@pytest.mark.parametrize("bot", codes.BOTS)
def test_orders_are_legal(games, bot):
    batch = all_play(games(24, last_year=1908), bot)
    while not batch.done.all():
        batch.draw_orders(1)
        given, before = batch.orders.clone(), batch.units.clone()
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
        batch.process()
        batch.check()
        assert (given[moving][before[moving] != 0] != 0).all()
        going = batch.done[:, None] == 0
        assert not (going & (given != 0) & (batch.results % codes.DISLODGED_FLAG == codes.VOID)).any()


def test_random_gives_every_kind_of_order(games):
    batch = all_play(games(8), "random")
    kinds = {kind for _, _, kind, _, _ in movement_orders(batch, 0)}
    assert kinds == {codes.HOLD, codes.MOVE, codes.SUPPORT, codes.SUPPORT_MOVE, codes.CONVOY}


def test_chaos_always_moves(games):
    batch = all_play(games(4), "chaos")
    assert {kind for _, _, kind, _, _ in movement_orders(batch, 0)} == {codes.MOVE}


def test_defensive_supports_or_holds(games):
    batch = all_play(games(4), "defensive")
    assert {kind for _, _, kind, _, _ in movement_orders(batch, 0)} == set(SUPPORTS)
    place(batch, {"FRANCE": ["A PAR"], "TURKEY": ["A SMY"]}, {}, phase=codes.SPRING)
    assert {kind for _, _, kind, _, _ in movement_orders(batch, 0, 1)} == {codes.HOLD}


def test_territorial_targets_neutral_centre_or_moves(games):
    batch = all_play(games(4), "territorial")
    neutral = neutral_locations(standard_board())
    assert (
        " ".join(np.array(standard_board().provinces)[neutral[:75]])
        == "BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN"
    )
    seen = set()
    for _, province, kind, target, other in movement_orders(batch, 0):
        named = neutral[[province, target, other]].any()
        seen.add((bool(named), kind))
        assert named or kind == codes.MOVE
    assert (True, codes.SUPPORT_MOVE) in seen
    assert (False, codes.MOVE) in seen


def test_coordinated_attacks_with_one_unit_and_support(games):
    batch = all_play(games(6), "coordinated")
    helped = 0
    for orders in phases(batch, 0, 40):
        for game in range(6):
            if int(batch.phase[game]) not in MOVEMENT:
                continue
            owners = codes.power_of(batch.units[game].numpy())
            for power in set(owners.tolist()) - {-1}:
                own = {place: codes.unpack(int(orders[game, place])) for place in np.flatnonzero(owners == power)}
                movers = [place for place, (kind, *_) in own.items() if kind == codes.MOVE]
                assert len(movers) == 1
                goal = own[movers[0]][1]
                backing = [order for order in own.values() if order[:3] == (codes.SUPPORT_MOVE, goal, movers[0])]
                helped += len(backing)
    assert helped > 20


@pytest.mark.parametrize("phase", [codes.SPRING, codes.FALL, codes.WINTER])
def test_dumbbot_place_values_match_formula(games, phase):
    batch = all_play(games(1, last_year=1910), "dumbbot")
    for moment in range(2):
        if moment:
            batch.players[0, ::2] = BOTS["chaos"]
            list(phases(batch, 5, 25))
            assert len(batch.owner.unique()) > 5
        batch.phase.fill_(phase)
        world = World(batch.units[0], batch.owner[0])
        for power in range(7):
            found = place_values(batch, power)[0].numpy()
            expected = np.zeros_like(found)
            for (kind, location), value in world.values(power, phase).items():
                expected[location + (codes.NUM_LOCATIONS if kind == "F" else 0)] = value
            np.testing.assert_allclose(found, expected, rtol=2e-6)


def order_of(words):
    """Return the packed order of `World.move`."""
    if words[0] == "hold":
        return codes.pack(codes.HOLD)
    if words[0] == "move":
        return codes.pack(codes.MOVE, words[2])
    goal, mover = words[1:]
    return codes.pack(codes.SUPPORT, goal) if mover is None else codes.pack(codes.SUPPORT_MOVE, goal, mover)


@pytest.mark.parametrize("moment", ["opening", "later"])
def test_dumbbot_move_frequencies_match_rules(games, moment):
    """Joint orders of each power, drawn 1500 times by the kernel and 500 times by plain Python."""
    batch = all_play(games(1500), "dumbbot")
    if moment == "later":
        first = games(1, last_year=1910)
        for _ in phases(all_play(first, "dumbbot"), 5):
            if int(first.phase[0]) in MOVEMENT and int(first.year[0]) == 1906:
                break
        batch.load(first.snapshot())
    world, phase = World(batch.units[0], batch.owner[0]), int(batch.phase[0])
    batch.draw_orders(0)
    owners, rng = codes.power_of(batch.units[0].numpy()), Random(0)
    kinds = set()
    for power in set(owners.tolist()) - {-1}:
        own = np.flatnonzero(owners == power)
        drawn = Counter(map(tuple, batch.orders[:, own].tolist()))
        again = Counter()
        for _ in range(500):
            words = world.move(power, phase, rng)
            again[tuple(order_of(words[place]) for place in own.tolist())] += 1
        kinds |= {codes.unpack(order)[0] for orders in drawn for order in orders}
        for orders in drawn | again:
            here, there = drawn[orders] / 1500, again[orders] / 500
            share = (drawn[orders] + again[orders]) / 2000
            assert abs(here - there) < 5 * np.sqrt(share * (1 - share) * (1 / 1500 + 1 / 500)) + 1e-9, orders
    assert moment == "opening" or kinds == {codes.HOLD, codes.MOVE, *SUPPORTS}


def test_dumbbot_never_blocks_itself(games):
    batch = all_play(games(16, last_year=1906), "dumbbot")
    for orders in phases(batch, 2):
        for game in ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)).nonzero().flatten().tolist():
            owners = codes.power_of(batch.units[game].numpy())
            goals, stays = set(), set()
            for province in np.flatnonzero(owners >= 0).tolist():
                kind, target, _, _ = codes.unpack(int(orders[game, province]))
                goal = int(standard_board().province_of[target])
                if kind == codes.MOVE:
                    assert (owners[province], goal) not in goals
                    goals.add((owners[province], goal))
                else:
                    stays.add((owners[province], province))
            assert not goals & stays


def test_dumbbot_builds_and_disbands_by_value(games):
    batch = games(1)
    batch.players.fill_(BOTS["dumbbot"])
    units = {"FRANCE": ["A PAR", "A MOS", "F BAR"], "RUSSIA": ["A STP"]}
    place(batch, units, {"FRANCE": ["PAR", "BRE"], "RUSSIA": ["MOS"]}, phase=codes.WINTER)
    values = place_values(batch, FRANCE)[0]
    nodes = {"PAR": find_location("PAR"), "MOS": find_location("MOS"), "BAR": find_location("BAR") + 81}
    worth = {name: float(values[node]) for name, node in nodes.items()}
    batch.draw_orders(0)
    given = [name for name in nodes if int(batch.orders[0, find_location(name)]) == codes.DISBAND]
    assert len(given) == 1
    gone = [seeds_give(batch, 40, name).count(codes.DISBAND) for name in nodes]
    assert sum(gone) == 40
    assert gone[min(range(3), key=lambda n: list(worth.values())[n])] == max(gone)
    place(batch, {}, {"FRANCE": ["PAR", "BRE", "MAR", "SPA"]}, phase=codes.WINTER)
    batch.draw_orders(0)
    assert sorted(codes.unpack(order)[0] for order in batch.orders[0].tolist() if order) == [codes.BUILD] * 3


def test_ladder_has_expected_order(games):
    """Approximate centres of one against six random: dumbbot, chaos, territorial, and defensive, which takes none."""
    batch = games(70, last_year=1915)
    seats, centres = torch.arange(70) % 7, {}
    for bot in ("dumbbot", "chaos", "territorial", "defensive"):
        all_play(batch, "random").players[torch.arange(70), seats] = BOTS[bot]
        list(phases(batch, 0))
        centres[bot] = float(count_centres(batch.owner)[torch.arange(70), seats].float().mean())
    assert centres["dumbbot"] > centres["chaos"] + 4
    assert centres["chaos"] > centres["territorial"] + 1
    assert centres["territorial"] > centres["defensive"] + 1
    assert centres["defensive"] > 1
