"""One learner's view of two seats: who sits where, whose observation is whose, what counts and what is thrown away."""

import numpy as np
import pytest
import torch

from sparring.agents.play.duel import FIRST_SLOT, Duel
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.mirror import Mirror
from sparring.envs.dogfight.rules import ACTIONS, BOTS

N = 8
SEAT = np.arange(N) % 2
STILL = NetworkConfig(hidden=8, log_std_init=-20.0, log_std_min=-20.0)
"""Exploration too small to see, so that sampled turn and throttle are the mean."""


def network(seed=0):
    net = ActorCritic(59, 2, 1, STILL, seed=seed)
    with torch.no_grad():
        net.actor[-1].weight.mul_(100.0)  # the head starts near zero; make observations matter
        net.actor[-1].bias[2] = 1000.0  # and the coin certain
    return net


@pytest.fixture
def batch():
    batch = DogfightBatch(N, threads=1, seed=3)
    yield batch
    batch.close()


def make_duel(batch, slots=3):
    duel = Duel(batch, slots=slots, network_shape=network().shape, seed=5)
    for slot in range(slots):
        duel.load_slot(slot, network(slot).state_dict())
    return duel


def random_actions(seed=0):
    return torch.rand(N, 3, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def ticks(batch):
    return batch.snapshot()["clock"]["tick"]


def spy(batch, monkeypatch):
    """Keep what the batch was shown before and told at each step."""
    seen = []
    step = batch.step
    monkeypatch.setattr(
        batch, "step", lambda actions: seen.append((batch.obs.clone(), actions.clone())) or step(actions)
    )
    return seen


def test_the_learner_sits_on_alternating_seats(batch):
    duel = make_duel(batch)
    assert torch.equal(duel.obs, batch.obs[np.arange(N), SEAT])
    actions = random_actions()
    obs, reward, terminated, truncated = duel.step(actions)
    assert torch.equal(obs, batch.obs[np.arange(N), SEAT])
    assert torch.equal(duel.obs, obs)
    assert torch.equal(duel.final_obs, batch.final_obs[np.arange(N), SEAT])
    assert torch.equal(reward, batch.reward[np.arange(N), SEAT])
    assert reward.unique().numel() > 1
    assert torch.equal(terminated, batch.terminated)
    assert torch.equal(truncated, batch.truncated)


def test_in_the_mirror_everyone_sees_their_opponent_on_the_right_and_turns_back(batch, monkeypatch):
    duel = Duel(batch, slots=1, network_shape=network().shape, seed=5, mirror=True)
    duel.load_slot(0, network().state_dict())
    duel.assign(np.full(N, FIRST_SLOT))
    for _ in range(20):
        duel.step(random_actions())
    mirror, told = Mirror("classic", 59), spy(batch, monkeypatch)
    mine = batch.obs[np.arange(N), SEAT]
    seen, side = mirror.show(mine)
    assert set(side.tolist()) == {-1.0, 1.0}
    assert torch.equal(duel.obs, seen)
    duel.step(random_actions())
    ((before, actions),) = told
    chosen = random_actions()
    assert torch.equal(actions[np.arange(N), SEAT, 0], chosen[:, 0] * side)
    assert torch.equal(actions[np.arange(N), SEAT, 1:], chosen[:, 1:])
    shown, other_side = mirror.show(before[np.arange(N), 1 - SEAT])
    answer, _ = network().act(shown, deterministic=True)
    torch.testing.assert_close(actions[np.arange(N), 1 - SEAT, 0], answer[:, 0] * other_side, rtol=0, atol=1e-5)
    assert torch.equal(duel.final_obs, mirror.show(batch.final_obs[np.arange(N), SEAT])[0])
    assert duel.contract == batch.contract | {"mirror": True}


def test_opponents_sit_opposite(batch):
    duel = make_duel(batch)
    duel.assign(np.array([0, 1, 2, 3, 4, FIRST_SLOT, FIRST_SLOT + 1, FIRST_SLOT + 2]))
    bots = batch.bots.numpy()
    assert bots[np.arange(N), SEAT].tolist() == [ACTIONS] * N
    assert bots[np.arange(N), 1 - SEAT].tolist() == [0, 1, 2, 3, 4, ACTIONS, ACTIONS, ACTIONS]


def test_every_snapshot_acts_in_its_own_matches_on_what_its_seat_sees(batch, monkeypatch):
    """Slots of 3, 1 and 0 matches, so that padding is at work."""
    duel = make_duel(batch)
    duel.assign(np.array([FIRST_SLOT, 2, FIRST_SLOT, FIRST_SLOT + 1, 0, FIRST_SLOT, 4, 4]))
    seen = spy(batch, monkeypatch)
    for step in range(3):
        mine = random_actions(step)
        duel.step(mine)
        obs, actions = seen[-1]
        assert torch.equal(actions[np.arange(N), SEAT], mine)
        for match, slot in {0: 0, 2: 0, 5: 0, 3: 1}.items():
            expected, _ = network(slot).act(obs[match, 1 - SEAT[match]], deterministic=True)
            torch.testing.assert_close(actions[match, 1 - SEAT[match]], expected, atol=1e-4, rtol=1e-4)
    first, other = network(0).act(obs[0, 1])[0], network(1).act(obs[0, 1])[0]
    assert (first - other).abs().max() > 0.01


def test_only_matches_that_change_opponent_are_restarted(batch):
    duel = make_duel(batch)
    start = np.array([0, 1, 2, 3, 4, FIRST_SLOT, FIRST_SLOT, FIRST_SLOT + 1])
    duel.assign(start)
    duel.step(random_actions())
    before = batch.obs.clone()
    changed = start.copy()
    changed[[1, 6]] = [3, 0]
    duel.assign(changed)
    assert ticks(batch).tolist() == [10, 0, 10, 10, 10, 10, 0, 10]
    assert torch.equal(duel.obs, batch.obs[np.arange(N), SEAT])
    assert (duel.obs != before[np.arange(N), SEAT]).any(dim=1).tolist() == [False, True, *[False] * 4, True, False]
    duel.assign(changed)
    assert (ticks(batch) == 0).sum() == 2


def test_new_weights_restart_their_slot(batch):
    duel = make_duel(batch)
    duel.assign(np.array([0, 1, 2, 3, 4, FIRST_SLOT, FIRST_SLOT, FIRST_SLOT + 1]))
    duel.step(random_actions())
    duel.load_slot(0, network(9).state_dict())
    assert ticks(batch).tolist() == [10, 10, 10, 10, 10, 0, 0, 10]


def test_what_is_no_opponent_is_refused(batch):
    duel = make_duel(batch, slots=2)
    for wrong in ([0] * (N - 1), [-1] + [0] * (N - 1), [FIRST_SLOT + 2] + [0] * (N - 1)):
        with pytest.raises(ValueError, match=r"8 indices in 0\.\.6"):
            duel.assign(np.array(wrong))
    with pytest.raises(ValueError, match=r"slot=2"):
        duel.load_slot(2, network().state_dict())


class Script:
    """Four matches that end as written: one (outcome, length, hp per seat, reward per seat) list per step."""

    num_envs, obs_dim, device = 4, 5, torch.device("cpu")

    def __init__(self, steps):
        self.steps = iter(steps)
        self.obs, self.final_obs = torch.zeros(2, 4, 2, 5)
        self.terminated, self.truncated = torch.zeros(2, 4, dtype=torch.bool)
        self.restarts = []

    def assign(self, bots, restart):
        self.restarts.append(restart.tolist())

    def step(self, actions):
        outcome, length, hp, reward = next(self.steps)
        self.outcome = torch.tensor(outcome, dtype=torch.int32)
        self.length = torch.tensor(length, dtype=torch.int32)
        self.final_hp = torch.tensor(hp, dtype=torch.int32)
        self.reward = torch.tensor(reward)


def script_duel(steps):
    shape = ActorCritic(5, 2, 1, STILL).shape
    return Duel(Script(steps), slots=1, network_shape=shape, seed=0)


OPEN = [-1, -1, -1, -1]
HP = [[5, 1], [2, 4], [3, 0], [0, 3]]
REWARD = [[1.0, -1.0], [0.5, 2.0], [0.25, 8.0], [16.0, 4.0]]


def test_results_are_counted_by_opponent_from_the_learners_seat():
    """Matches 0 and 2 have the learner on seat 0, matches 1 and 3 on seat 1."""
    duel = script_duel(
        [
            (OPEN, [99] * 4, HP, REWARD),
            ([1, 1, 0, 2], [100, 200, 300, 400], HP, REWARD),
            ([2, -1, 2, -1], [10, 99, 20, 99], HP, REWARD),
        ]
    )
    duel.assign(np.array([1, 1, FIRST_SLOT, 4]))
    for _ in range(3):
        duel.step(torch.zeros(4, 3))
    tally = duel.harvest()
    assert tally.wins.tolist() == [0, 1, 0, 0, 1, 0]
    assert tally.draws.tolist() == [0, 0, 0, 0, 0, 1]
    assert tally.losses.tolist() == [0, 2, 0, 0, 0, 1]
    assert tally.length.tolist() == [0, 100 + 200 + 10, 0, 0, 400, 300 + 20]
    assert tally.hp.tolist() == [0, 5 + 4 + 5, 0, 0, 3, 3 + 3]
    assert tally.returns.tolist() == [0, 2 * 1.0 + 2 * 2.0 + 1.0, 0, 0, 8.0, 0.5 + 0.25]
    assert tally.games.tolist() == [0, 3, 0, 0, 1, 2]
    assert tally.result(1) == (1, 0, 2)
    assert duel.harvest().games.sum() == 0


def test_a_restarted_match_is_not_counted_and_its_return_forgotten():
    duel = script_duel([(OPEN, [0] * 4, HP, REWARD), ([1, 2, 1, 2], [10] * 4, HP, REWARD)])
    duel.step(torch.zeros(4, 3))
    duel.assign(np.array([2, 0, 0, 0]))
    assert duel.batch.restarts[-1] == [True, False, False, False]
    duel.step(torch.zeros(4, 3))
    tally = duel.harvest()
    assert tally.wins.tolist() == [3, 0, 1, 0, 0, 0]
    assert tally.returns.tolist() == [2 * 2.0 + 2 * 0.25 + 2 * 4.0, 0, 1.0, 0, 0, 0]


def test_the_same_seed_plays_the_same(batch):
    opponents = np.array([0, FIRST_SLOT, 2, FIRST_SLOT + 1, 4, FIRST_SLOT, 1, FIRST_SLOT + 2])
    shape = NetworkConfig(hidden=8)

    def course():
        batch.reset(3)
        net = ActorCritic(59, 2, 1, shape, seed=1)
        duel = Duel(batch, slots=3, network_shape=net.shape, seed=5)
        duel.assign(opponents)
        for step in range(20):
            duel.step(random_actions(step))
        return duel.obs.clone()

    assert torch.equal(course(), course())
    assert len(BOTS) == FIRST_SLOT
