"""The kernels against `benchmarks.diplomacy_peers.plain_adjudicator` for convoys, rings and paradoxes."""

import numpy as np
import pytest
import torch

from benchmarks.diplomacy_peers.crowds import crowds
from benchmarks.diplomacy_peers.plain_adjudicator import Outcome, Phase
from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.orders.notation import write_order

POSITIONS = 1500


@pytest.fixture(scope="module")
def sample():
    """Return positions, orders, the batch after them, and the plain adjudicator's outcomes."""
    units, orders = crowds(POSITIONS, seed=1)
    batch = DiplomacyBatch(POSITIONS, threads=1)
    batch.load(position(units, np.full((POSITIONS, codes.NUM_CENTRES), -1), year=1901, phase=codes.SPRING))
    batch.orders.copy_(torch.as_tensor(orders))
    batch.process()
    batch.check()
    outcomes = [Phase(*rows).outcome() for rows in zip(units, orders, strict=True)]
    yield units, orders, batch, outcomes
    batch.close()


def marked(row, mark):
    return frozenset(map(int, np.flatnonzero(row == mark)))


def seen(batch, game):
    """Return the part of an `Outcome` that the batch shows after the phase."""
    results, origin = batch.results[game].numpy(), batch.origin[game].numpy()
    return {
        "units": {int(place): unit(batch.units[game], int(place)) for place in batch.units[game].nonzero()},
        "dislodged": marked(results // codes.DISLODGED_FLAG, 1),
        "contested": marked(origin, codes.CONTESTED),
        "cut": marked(results % codes.DISLODGED_FLAG, codes.CUT),
    }


def unit(row, place):
    power, form = (int(row[place]) - 1) % codes.NUM_POWERS, (int(row[place]) - 1) // codes.NUM_POWERS
    return power, form > 0, place if form < 2 else standard_board().coasts_of[place][form - 2]


def said(outcome: Outcome):
    return {
        "units": outcome.units,
        "dislodged": frozenset(outcome.dislodged),
        "contested": outcome.contested,
        "cut": outcome.cut,
    }


def told(units, orders):
    """Return a readable position."""
    places = map(int, np.flatnonzero(units))
    return [f"{(units[p] - 1) % 7}: {write_order(int(orders[p]), p, int(units[p]))}" for p in places]


def test_both_adjudicators_agree(sample):
    units, orders, batch, outcomes = sample
    for game, outcome in enumerate(outcomes):
        assert seen(batch, game) == said(outcome), told(units[game], orders[game])


def test_both_report_same_attack_origins(sample):
    _, _, batch, outcomes = sample
    for game, outcome in enumerate(outcomes):
        for place in map(int, batch.dislodged[game].nonzero()):  # those with a retreat; the others are gone
            came_from = outcome.dislodged[place]
            assert int(batch.origin[game, place]) == (codes.CAME_BY_CONVOY if came_from is None else came_from)


def test_both_report_same_paradoxes(sample):
    _, orders, batch, outcomes = sample
    convoys = torch.as_tensor(orders & codes.KIND_MASK == codes.CONVOY)
    broken = (convoys & (batch.results % codes.DISLODGED_FLAG == codes.DISRUPTED)).any(dim=1)
    assert broken.tolist() == [outcome.paradoxes > 0 for outcome in outcomes]


def test_sample_covers_rare_cases(sample):
    _, orders, batch, outcomes = sample
    assert sum(outcome.paradoxes > 0 for outcome in outcomes) >= 15
    assert sum(outcome.rings for outcome in outcomes) >= 100
    assert sum(len(outcome.dislodged) for outcome in outcomes) >= 1000
    assert sum(len(outcome.cut) for outcome in outcomes) >= 1000
    assert sum(len(outcome.stranded) for outcome in outcomes) >= 200
    convoyed = (orders & codes.KIND_MASK == codes.MOVE) & (orders >> codes.VIA_SHIFT & 1 == 1)
    assert (torch.as_tensor(convoyed) & (batch.results % codes.DISLODGED_FLAG == codes.DONE)).sum() >= 200
