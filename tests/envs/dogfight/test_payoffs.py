"""Results of every pair of scripted opponents against records of the original simulator.

Matches start at random (x = -+U(100, 300), y in [150, 450), any heading, 35 to 80 m/s), seats are exchanged in half of
them, and the physics are the default. Each pair's wins, draws and losses are shares of samples of two sizes, ours and
the recorded one; their difference must have 0 within its Agresti-Caffo interval. The intervals of a rule set hold
jointly with 99 % (Bonferroni), so each of the 35 has 99.97 %. A bot against itself wins as often as it loses, whatever
it does, so that only the draws of such a pair are compared.

The kernels and the NumPy peer play both rule sets, the peer, which is slow, fewer matches and in `make slow` only;
`recorded/` compares its single steps always.
"""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import norm

from benchmarks.numpy_dogfight.peer import NumpyDogfight
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.recorded.rows import array

PAIRS = list(itertools.combinations_with_replacement(range(len(rules.BOTS)), 2))
CONFIDENCE = 0.99
STEPS = rules.MAX_TICKS // rules.ACTION_REPEAT
ASK_EVERY = 20


def line_up(games):
    """Return bots [15 * games, 2] of every pair in turn; the second half of a pair's games swaps seats."""
    bots = np.repeat(np.array(PAIRS), games, axis=0)
    exchanged = np.arange(len(bots)) % games >= games // 2
    return np.where(exchanged[:, None], bots[:, ::-1], bots), exchanged


def shares(games, play):
    """Return wins, draws, losses [15, 3] of each pair's first bot; `play` returns outcomes 0, 1, 2."""
    bots, exchanged = line_up(games)
    outcome = play(bots).reshape(len(PAIRS), games)
    won = np.where(exchanged.reshape(outcome.shape), 2, 1)
    draws = (outcome == 0).sum(axis=1)
    wins = (outcome == won).sum(axis=1)
    return np.stack([wins, draws, games - wins - draws], axis=1)


def first_outcomes(matches, step):
    """Return each match's first result; `step` plays one step and returns outcomes, -1 while running."""
    first = np.full(matches, -1)
    for count in range(STEPS):
        now = step()
        first = np.where(first < 0, now, first)
        if count % ASK_EVERY == 0 and (first >= 0).all():
            break
    assert (first >= 0).all()
    return first


def kernels(rule_set):
    def play(bots):
        batch = DogfightBatch(len(bots), rules=rule_set, seed=5, threads=1)
        batch.assign(bots, restart=torch.ones(len(bots), dtype=torch.bool))
        idle = torch.zeros(len(bots), 2, 3)

        def step():
            batch.step(idle)
            return batch.outcome.numpy()

        return first_outcomes(len(bots), step)

    return play


def numpy_peer(rule_set):
    def play(bots):
        peer = NumpyDogfight(len(bots), rule_set=rule_set, seed=5)
        peer.bots[:] = bots
        idle = np.zeros((len(bots), 2, 3), np.float32)

        def step():
            peer.step(idle)
            return peer.outcome

        return first_outcomes(len(bots), step)

    return play


def outside(ours, recorded):
    """Return shares that differ significantly at the joint level, as readable lines."""
    compared = np.array([[left != right, True, left != right] for left, right in PAIRS])
    a, b = (counts.sum(axis=1, keepdims=True) for counts in (ours, recorded))
    p, q = (ours + 1) / (a + 2), (recorded + 1) / (b + 2)
    z = norm.isf((1.0 - CONFIDENCE) / 2.0 / compared.sum())
    far = np.abs(p - q) > z * np.sqrt(p * (1 - p) / (a + 2) + q * (1 - q) / (b + 2))
    return [
        f"{rules.BOTS[PAIRS[pair][0]]} - {rules.BOTS[PAIRS[pair][1]]}: {ours[pair]}, recorded {recorded[pair]}"
        for pair in np.flatnonzero((far & compared).any(axis=1))
    ]


def test_interval_is_neither_blind_nor_too_narrow():
    recorded = np.tile([128, 64, 64], (len(PAIRS), 1))
    assert not outside(np.tile([120, 60, 76], (len(PAIRS), 1)), recorded)
    assert len(outside(np.tile([80, 64, 112], (len(PAIRS), 1)), recorded)) == 10
    assert len(outside(np.tile([116, 24, 116], (len(PAIRS), 1)), recorded)) == len(PAIRS)


@pytest.mark.parametrize(
    ("play", "rule_set", "games"),
    [
        (kernels, "classic", 64),
        (kernels, "challenge", 64),
        pytest.param(kernels, "classic", 256, marks=pytest.mark.slow),
        pytest.param(kernels, "challenge", 256, marks=pytest.mark.slow),
        pytest.param(numpy_peer, "classic", 24, marks=pytest.mark.slow),
        pytest.param(numpy_peer, "challenge", 48, marks=pytest.mark.slow),
    ],
    ids=["classic", "challenge", "kernels-classic", "kernels-challenge", "numpy-classic", "numpy-challenge"],
)
def test_payoffs_match_records(play, rule_set, games):
    recorded = array(f"payoff_{rule_set}")[tuple(np.array(PAIRS).T)]
    assert not outside(shares(games, play(rule_set)), recorded)
