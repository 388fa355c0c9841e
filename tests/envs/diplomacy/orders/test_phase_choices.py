"""Choices in all phases against the engine's lists of legal orders, in games between bots."""

import pytest
import torch

from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import due
from sparring.envs.diplomacy.observation import AT, observe
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES, units_of
from sparring.envs.diplomacy.orders.phase_choices import deciding_rows, due_of, may_decide, write_decisions
from sparring.envs.diplomacy.training.order_network import OrderNetwork

GAMES, PHASES = 14, 22
SEATS = GAMES * codes.NUM_POWERS
MOVING = [AT["phase"].start + phase for phase in (codes.SPRING, codes.FALL)]
WINTER = AT["phase"].start + codes.WINTER
EVERY = torch.arange(SEATS) // codes.NUM_POWERS, torch.arange(SEATS) % codes.NUM_POWERS


def seen_by_all(batch):
    """Return observations of all powers of all games [G * 7, 75, 74]."""
    state = {name: values[EVERY[0]] for name, values in batch.state.items()}
    return observe(state, EVERY[1], last_year=batch.last_year, retreats=True)


@pytest.fixture(scope="module")
def network():
    return OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=True), seed=1)


@pytest.fixture(scope="module")
def positions(network):
    """Return positions of all phases: observations, legal orders by game and province, deciding powers, `written`."""
    batch = DiplomacyBatch(GAMES, last_year=1910, threads=1)
    batch.players[:] = torch.arange(codes.NUM_POWERS) % 2  # random and chaos, under which many are dislodged
    kept = []
    for phase in range(PHASES):
        if phase % 4 == 1:
            seen = seen_by_all(batch)
            listed = [
                {at: sorted(one.tolist()) for at, one in batch.legal_orders(game).items()} for game in range(GAMES)
            ]
            kept.append((seen, listed, may_decide(batch.state).flatten(), written(network, seen)))
        batch.draw_orders(phase)
        batch.process()
    batch.close()
    return kept


def written(network, seen):
    """Return every legal choice: power, province, choice and order, in lists."""
    units = network._units(seen.flatten(1))
    row, unit, choice = (units.legal & units.present.unsqueeze(-1)).nonzero().unbind(1)
    choices = torch.zeros(len(row), codes.SLOTS, dtype=torch.int64)
    choices[torch.arange(len(row)), unit] = choice
    orders = torch.zeros(len(row), codes.NUM_PROVINCES, dtype=torch.int32)
    write_decisions(choices, seen[row], orders)
    place = units.places[row, unit]
    order = orders[torch.arange(len(row)), place]
    return list(zip(*(values.tolist() for values in (row, place, choice, order)), strict=True))


def test_choices_in_retreats_and_winter_are_all_legal_orders(positions):
    """Each of the engine's orders is exactly one choice."""
    kinds = set()
    for seen, listed, _, orders in positions:
        resting = (~seen[:: codes.NUM_POWERS, 0, MOVING].any(1)).nonzero().flatten().tolist()
        ours = {game: dict[int, list[int]]() for game in range(GAMES)}
        for row, place, _, order in orders:
            ours[row // codes.NUM_POWERS].setdefault(place, []).append(order)
        for game in resting:
            own = {place: sorted(values) for place, values in ours[game].items()}
            assert own == listed[game]
            kinds |= {value & codes.KIND_MASK for values in own.values() for value in values}
    assert kinds == {codes.NO_ORDER, codes.RETREAT, codes.DISBAND, codes.BUILD}


def test_choices_in_movement_are_legal(positions):
    """Moves and holds; supports depend on other units (`test_sampled_policy_orders_are_carried_out`)."""
    moves = 0
    for seen, listed, _, orders in positions:
        moving = seen[:, 0, MOVING].any(1).tolist()
        for row, place, choice, order in orders:
            if moving[row] and choice <= SIDES:
                assert order in listed[row // codes.NUM_POWERS][place]
                moves += 1
    assert moves > 1000


def test_power_decides_where_it_has_entries(network, positions):
    for seen, _, decides, _ in positions:
        rows = deciding_rows(seen)
        assert torch.equal((rows >= 0).any(1), decides)
        places, present = units_of(rows)
        assert torch.equal(network._units(seen.flatten(1)).present, present)
        assert places.shape == (SEATS, codes.SLOTS)


def test_sampled_policy_orders_are_carried_out(network):
    """In games where all powers use the policy, no order is void, and adjustments do not exceed what is due."""
    batch, generator = DiplomacyBatch(GAMES, last_year=1904, threads=1), torch.Generator().manual_seed(2)
    batch.players.fill_(codes.ACTIONS)
    seen_phases, adjusted = set(), 0
    while not bool(batch.done.all()):
        phase, over, seen = batch.phase.clone(), batch.done.clone(), seen_by_all(batch)
        before, owed = batch.units.clone(), due(batch.units, batch.owner)
        choices, _ = network.act(seen.flatten(1), generator=generator)
        for power in range(codes.NUM_POWERS):
            own = slice(power, None, codes.NUM_POWERS)
            write_decisions(choices[own].long(), seen[own], batch.orders)
        given = batch.orders.clone()
        batch.process()
        assert not ((batch.results == codes.VOID) & (given != 0)).any()
        winter = (phase == codes.WINTER) & (over == 0)
        change = (batch.units > 0).sum(1) - (before > 0).sum(1)
        disbands = owed.clamp(max=0).sum(1)
        kinds = given & codes.KIND_MASK
        assert torch.equal((kinds == codes.DISBAND).sum(1)[winter], -disbands[winter]), "none by civil disorder"
        assert torch.equal(change[winter], (disbands + (kinds == codes.BUILD).sum(1))[winter])
        adjusted += int((kinds == codes.BUILD).sum())
        seen_phases |= set(phase.tolist())
    batch.close()
    assert seen_phases == set(range(5))
    assert adjusted > 0


def test_due_adjustments_are_read_from_observation(positions):
    for seen, *_ in positions:
        number, exact = due_of(seen)
        winter = seen[:, 0, WINTER] > 0
        assert (number[~winter] == -1).all()
        assert not exact[~winter].any()
        assert ((number >= 0) == winter).all()


def test_illegal_choices_become_valid_orders(positions):
    """A random choice of 37 never writes an order for another entry, nor without an entry."""
    generator = torch.Generator().manual_seed(0)
    for seen, *_ in positions:
        choices = torch.randint(CHOICES, (SEATS, codes.SLOTS), generator=generator)
        orders = torch.zeros(SEATS, codes.NUM_PROVINCES, dtype=torch.int32)
        write_decisions(choices, seen, orders)
        assert not (orders[deciding_rows(seen) < 0]).any()
