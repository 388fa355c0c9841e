"""Properties of every phase under any orders: random games and crowded seas."""

import numpy as np
import pytest
import torch

from benchmarks.diplomacy_peers.crowds import crowds
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import COAST, INLAND, SEA, standard_board
from sparring.envs.diplomacy.board.tensors import form_of

GAMES, PHASES = 96, 40
BOARD = standard_board()
MOVEMENT = (codes.SPRING, codes.FALL)
SPRING = (codes.SPRING, codes.SPRING_RETREATS)
EVERYTHING = (*STATE, "orders", "results")


def copies(batch, names=EVERYTHING):
    return {name: getattr(batch, name).clone() for name in names}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def play(batch, phases, seed=0):
    """Play random phases; yield the position before, with orders, and the one after."""
    for phase in range(phases):
        batch.draw_orders(seed + phase)
        before = copies(batch)
        batch.process()
        batch.check()
        yield before, copies(batch)


@pytest.fixture(scope="module")
def course():
    """Return every phase of random games, some of which end."""
    batch = DiplomacyBatch(GAMES, last_year=1909, threads=1)
    yield list(play(batch, PHASES))
    batch.close()


@pytest.fixture(scope="module")
def crowd():
    """Return movement phases of crowds with interacting orders, before and after."""
    units, orders = crowds(300, seed=5)
    batch = DiplomacyBatch(300, threads=1)
    batch.load(position(units, np.full((300, codes.NUM_CENTRES), -1), year=1901, phase=codes.SPRING))
    batch.orders.copy_(torch.as_tensor(orders))
    before = copies(batch)
    batch.process()
    batch.check()
    yield before, copies(batch)
    batch.close()


def number(units):
    return (units > 0).sum(dim=1)


def in_phase(before, phases):
    """Return which games are in one of these phases and running, bool [G]."""
    return torch.isin(before["phase"], torch.tensor(phases, dtype=torch.int8)) & (before["done"] == 0)


def test_random_game_visits_every_phase_and_ends(course):
    for phase in range(5):
        assert any(in_phase(before, (phase,)).any() for before, _ in course)
    assert course[-1][1]["done"].any()
    assert sum(int((before["done"] == 0).sum()) for before, _ in course) > 2000


def test_drawn_orders_are_never_void(course):
    for before, after in course:
        ordered = (before["orders"] != 0) & (before["done"] == 0)[:, None]
        assert not (ordered & (after["results"] % codes.DISLODGED_FLAG == codes.VOID)).any()


def test_every_able_unit_has_drawn_order(course):
    for before, _ in course:
        moving = in_phase(before, MOVEMENT)
        assert torch.equal(before["orders"][moving] != 0, before["units"][moving] != 0)
        leaving = in_phase(before, (codes.SPRING_RETREATS, codes.FALL_RETREATS))
        assert torch.equal(before["orders"][leaving] != 0, before["dislodged"][leaving] != 0)


def check_conserved(before, after):
    """Check that each power keeps its number of units, except for dislodged ones that were destroyed."""
    lost = torch.where(after["results"] >= codes.DISLODGED_FLAG, before["units"], 0)
    moving = in_phase(before, MOVEMENT)
    for power in range(codes.NUM_POWERS):
        stood, gone, stands = (
            torch.as_tensor(codes.power_of(rows.numpy()) == power).sum(dim=1)
            for rows in (before["units"], lost, after["units"])
        )
        assert torch.equal((stood - gone)[moving], stands[moving])
    assert (number(after["dislodged"]) <= number(lost))[moving].all()


def test_movement_conserves_units(course, crowd):
    for before, after in (*course, crowd):
        check_conserved(before, after)


def test_retreats_add_at_most_dislodged_units(course):
    for before, after in course:
        left = in_phase(before, (codes.SPRING_RETREATS, codes.FALL_RETREATS))
        arrived = number(after["units"]) - number(before["units"])
        assert ((arrived >= 0) & (arrived <= number(before["dislodged"])))[left].all()
        kept = before["units"] == after["units"]
        assert (kept | (before["units"] == 0))[left].all()


def test_units_stand_on_valid_locations(course, crowd):
    terrain = torch.as_tensor(BOARD.terrain.copy())
    split = torch.tensor([bool(coasts) for coasts in BOARD.coasts_of])
    for _, after in (*course, crowd):
        for rows in (after["units"], after["dislodged"]):
            form = form_of(rows)
            assert not ((form >= codes.FLEET_FORM) & (terrain == INLAND)).any()
            assert not ((form == codes.ARMY_FORM) & (terrain == SEA)).any()
            assert not ((form > codes.FLEET_FORM) & ~(split & (terrain == COAST))).any()
            assert not ((form == codes.FLEET_FORM) & split).any()


def test_centres_change_owner_only_in_fall(course):
    for before, after in course:
        other = (before["owner"] != after["owner"]).any(dim=1)
        assert not (other & in_phase(before, (*SPRING, codes.WINTER))).any()
        fresh = after["owner"][before["owner"] != after["owner"]]
        assert (fresh >= 0).all()


def test_centre_belongs_to_occupier_after_fall(course):
    centres = torch.as_tensor(BOARD.centres.copy()).long()
    for before, after in course:
        over = in_phase(before, (codes.FALL, codes.FALL_RETREATS)) & (after["phase"] != codes.FALL_RETREATS)
        holder = torch.as_tensor(codes.power_of(after["units"][:, centres].numpy())).to(torch.int8)
        right = torch.where(holder >= 0, holder, before["owner"])
        assert torch.equal(after["owner"][over], right[over])


def test_after_winter_units_do_not_exceed_centres(course):
    for before, after in course:
        winter = in_phase(before, (codes.WINTER,))
        for power in range(codes.NUM_POWERS):
            units = torch.as_tensor(codes.power_of(after["units"].numpy()) == power).sum(dim=1)
            assert (units <= (after["owner"] == power).sum(dim=1))[winter].all()


def test_phase_clears_its_orders(course):
    for before, after in course:
        assert not after["orders"][before["done"] == 0].any()


def test_finished_game_is_frozen(course):
    for before, after in course:
        over = before["done"] == 1
        assert all(torch.equal(before[name][over], after[name][over]) for name in EVERYTHING)


def again(before, rows, threads):
    """Process the phases of some games again in another batch."""
    batch = DiplomacyBatch(len(rows), last_year=1909, threads=threads)
    batch.load({name: before[name][rows] for name in STATE})
    batch.orders.copy_(before["orders"][rows])
    batch.process()
    found = copies(batch)
    batch.close()
    return found


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_neighbours_index_and_threads_do_not_matter(course, threads):
    shuffled = torch.randperm(GAMES, generator=torch.Generator().manual_seed(threads))
    for before, after in course[::5]:
        if not before["done"].any():
            assert same(again(before, shuffled, threads), {name: after[name][shuffled] for name in EVERYTHING})


def test_draws_depend_on_batch_index_and_seed_only(course):
    small, large = DiplomacyBatch(3, last_year=1909, threads=1), DiplomacyBatch(GAMES, last_year=1909, threads=3)
    for (_, left), (_, right), (_, first) in zip(play(small, 10), play(large, 10), course, strict=False):
        assert same(right, first)
        assert same(left, {name: right[name][:3] for name in EVERYTHING})
    small.close()
    large.close()


def renamed(units, names):
    """Return unit codes with all powers permuted."""
    power, form = codes.power_of(units.numpy()), form_of(units).numpy()
    return torch.as_tensor(np.where(power < 0, 0, 1 + names[power] + codes.NUM_POWERS * form)).to(torch.uint8)


def rename_owners(owner, names):
    return torch.as_tensor(np.where(owner.numpy() < 0, -1, names[owner.numpy()])).to(torch.int8)


def test_powers_are_equal(course, crowd):
    """Movement and retreats do not depend on power names; winter depends on home centres."""
    chance = np.random.default_rng(3)
    for before, after in (*course, crowd):
        if (before["phase"] == codes.WINTER).all() or before["done"].any():
            continue
        names = chance.permutation(codes.NUM_POWERS)
        other = dict(before)
        for rows in ("units", "dislodged"):
            other[rows] = renamed(before[rows], names)
        other["owner"] = rename_owners(before["owner"], names)
        found = again(other, torch.arange(len(before["phase"])), 1)
        peaceful = before["phase"] != codes.WINTER
        assert torch.equal(found["units"][peaceful], renamed(after["units"], names)[peaceful])
        assert torch.equal(found["dislodged"][peaceful], renamed(after["dislodged"], names)[peaceful])
        assert torch.equal(found["owner"][peaceful], rename_owners(after["owner"], names)[peaceful])
        assert torch.equal(found["results"][peaceful], after["results"][peaceful])
