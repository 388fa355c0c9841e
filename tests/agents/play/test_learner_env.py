"""The learner's view of a batch: seats, observations, and which results count."""

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.play.turn_seats import TurnSeats
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.configs.schema import NetworkConfig
from sparring.envs import batched
from sparring.envs.diplomacy.board import codes
from sparring.envs.dogfight.batch import DogfightBatch, Mirror
from sparring.envs.dogfight.rules import ACTIONS, BOTS

N = 8
FIRST_SLOT = len(BOTS)
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


def make_env(batch, slots=3):
    env = LearnerEnv(batch, bots=BOTS, slots=slots, network_shape=network().shape, seed=5)
    for slot in range(slots):
        env.load_slot(slot, network(slot).state_dict())
    return env


def random_actions(seed=0):
    return torch.rand(N, 3, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def ticks(batch):
    return batch.snapshot()["clock"]["tick"]


def spy(batch, monkeypatch):
    """Record what the batch was shown and told at each step."""
    seen = []
    step = batch.step
    monkeypatch.setattr(
        batch, "step", lambda actions: seen.append((batch.obs.clone(), actions.clone())) or step(actions)
    )
    return seen


def test_learner_sits_on_alternating_seats(batch):
    env = make_env(batch)
    assert torch.equal(env.obs, batch.obs[np.arange(N), SEAT])
    actions = random_actions()
    obs, reward, terminated, truncated = env.step(actions)
    assert torch.equal(obs, batch.obs[np.arange(N), SEAT])
    assert torch.equal(env.obs, obs)
    assert torch.equal(reward, batch.reward[np.arange(N), SEAT])
    assert reward.unique().numel() > 1
    assert torch.equal(terminated, batch.terminated)
    assert torch.equal(truncated, batch.truncated)


def test_mirror_puts_opponent_on_right_and_reverses_turn(batch, monkeypatch):
    env = LearnerEnv(
        batch,
        bots=BOTS,
        slots=1,
        network_shape=network().shape,
        seed=5,
        view=Mirror("classic", 59),
        contract=batch.contract | {"mirror": True},
    )
    env.load_slot(0, network().state_dict())
    env.assign(np.full(N, FIRST_SLOT))
    for _ in range(20):
        env.step(random_actions())
    mirror, told = Mirror("classic", 59), spy(batch, monkeypatch)
    mine = batch.obs[np.arange(N), SEAT]
    seen, side = mirror.show(mine)
    assert set(side.tolist()) == {-1.0, 1.0}
    assert torch.equal(env.obs, seen)
    env.step(random_actions())
    ((before, actions),) = told
    chosen = random_actions()
    assert torch.equal(actions[np.arange(N), SEAT, 0], chosen[:, 0] * side)
    assert torch.equal(actions[np.arange(N), SEAT, 1:], chosen[:, 1:])
    shown, other_side = mirror.show(before[np.arange(N), 1 - SEAT])
    answer, _ = network().act(shown, deterministic=True)
    torch.testing.assert_close(actions[np.arange(N), 1 - SEAT, 0], answer[:, 0] * other_side, rtol=0, atol=1e-5)
    assert env.contract == batch.contract | {"mirror": True}


@pytest.mark.parametrize("view", [None, Mirror("classic", 59)])
def test_final_observations_belong_to_learner_and_ended_match(view):
    """The reference is a twin without the time limit; only the clock differs."""
    short, long = (
        LearnerEnv(DogfightBatch(N, threads=1, seed=3, max_ticks=ticks), bots=BOTS, seed=5, view=view)
        for ticks in (20, 10_800)
    )
    for _ in range(2):
        assert not short.final_obs.any()
        for env in (short, long):
            *_, truncated = env.step(random_actions())
    assert truncated.tolist() == [False] * N
    assert short.batch.truncated.all()
    clock = 45
    assert (short.final_obs[:, clock] == 0.0).all()
    short.final_obs[:, clock] = long.obs[:, clock]
    assert torch.equal(short.final_obs, long.obs)
    assert not torch.equal(short.final_obs, short.obs)


@pytest.mark.parametrize("view", [None, Mirror("classic", 59)])
def test_styles_are_learner_columns_and_results_are_split_by_style(view):
    """The reference is a twin without styles, with equal seeds and restarts."""
    options = {"bots": BOTS, "slots": 1, "network_shape": network().shape, "seed": 5, "view": view}
    plain, styled = (
        LearnerEnv(DogfightBatch(N, threads=1, seed=3, max_ticks=400), styles=styles, **options) for styles in (0, 3)
    )
    opponents, styles = np.arange(N) % (len(BOTS) + 1), np.arange(N) % 3
    for env in (plain, styled):
        env.load_slot(0, network(1).state_dict())
        env.assign(opponents)
    styled.assign(opponents, styles)
    plain._seat_opponents(styles != 0)
    expected = np.zeros((3, len(BOTS) + 1))
    for step in range(90):
        results = [env.step(random_actions(step)) for env in (plain, styled)]
        for ours, theirs in list(zip(*results, strict=True))[1:]:
            assert torch.equal(ours, theirs)
        over = (plain.batch.outcome >= 0).numpy()
        np.add.at(expected, (styles[over], opponents[over]), 1)
        assert torch.equal(styled.obs[:, :-3], plain.obs)
        assert torch.equal(styled.final_obs[:, :-3], plain.final_obs)
        assert torch.equal(styled.obs[:, -3:], torch.eye(3)[styles])
    tally, reference = styled.harvest(), plain.harvest()
    assert expected.sum() > N
    assert tally.by_style.sum(-1).tolist() == expected.tolist()
    assert tally.by_style.sum(0).tolist() == np.stack([reference.wins, reference.draws, reference.losses], -1).tolist()


def test_snapshots_act_in_own_matches_on_own_observations(batch, monkeypatch):
    """Slots have 3, 1 and 0 matches, so padding is covered."""
    env = make_env(batch)
    env.assign(np.array([FIRST_SLOT, 2, FIRST_SLOT, FIRST_SLOT + 1, 0, FIRST_SLOT, 4, 4]))
    seen = spy(batch, monkeypatch)
    for step in range(3):
        mine = random_actions(step)
        env.step(mine)
        obs, actions = seen[-1]
        assert torch.equal(actions[np.arange(N), SEAT], mine)
        for match, slot in {0: 0, 2: 0, 5: 0, 3: 1}.items():
            expected, _ = network(slot).act(obs[match, 1 - SEAT[match]], deterministic=True)
            torch.testing.assert_close(actions[match, 1 - SEAT[match]], expected, atol=1e-4, rtol=1e-4)
    first, other = network(0).act(obs[0, 1])[0], network(1).act(obs[0, 1])[0]
    assert (first - other).abs().max() > 0.01


def test_only_matches_with_changed_opponent_restart(batch):
    env = make_env(batch)
    start = np.array([0, 1, 2, 3, 4, FIRST_SLOT, FIRST_SLOT, FIRST_SLOT + 1])
    env.assign(start)
    env.step(random_actions())
    before = batch.obs.clone()
    changed = start.copy()
    changed[[1, 6]] = [3, 0]
    env.assign(changed)
    assert ticks(batch).tolist() == [10, 0, 10, 10, 10, 10, 0, 10]
    assert torch.equal(env.obs, batch.obs[np.arange(N), SEAT])
    assert (env.obs != before[np.arange(N), SEAT]).any(dim=1).tolist() == [False, True, *[False] * 4, True, False]
    env.assign(changed)
    assert (ticks(batch) == 0).sum() == 2


def test_new_weights_restart_their_slot(batch):
    env = make_env(batch)
    env.assign(np.array([0, 1, 2, 3, 4, FIRST_SLOT, FIRST_SLOT, FIRST_SLOT + 1]))
    env.step(random_actions())
    env.load_slot(0, network(9).state_dict())
    assert ticks(batch).tolist() == [10, 10, 10, 10, 10, 0, 0, 10]


def test_invalid_opponent_is_rejected(batch):
    env = make_env(batch, slots=2)
    for wrong in ([0] * (N - 1), [-1] + [0] * (N - 1), [FIRST_SLOT + 2] + [0] * (N - 1)):
        with pytest.raises(ValueError, match=r"8 indices in 0\.\.6"):
            env.assign(np.array(wrong))
    for outside in (-1, 2):
        with pytest.raises(ValueError, match=rf"slot={outside}: must be in 0\.\.1"):
            env.load_slot(outside, network().state_dict())


class Script:
    """Four scripted matches: one (outcome, length, hp per seat, reward per seat) list per step."""

    num_envs, action_size, device = 4, 3, torch.device("cpu")
    stat_names, contract = ("length", "hp"), {}

    def __init__(self, steps):
        self.steps = iter(steps)
        self.obs = torch.zeros(4, 2, 5)
        self.terminated, self.truncated = torch.zeros(2, 4, dtype=torch.bool)
        self.restarts = []

    def assign(self, bots, restart):
        self.restarts.append(restart.tolist())

    def final_reader(self, rows, out):
        return lambda: None

    def step(self, actions):
        outcome, length, hp, reward = next(self.steps)
        self.outcome = torch.tensor(outcome, dtype=torch.int32)
        self.length = torch.tensor(length, dtype=torch.int32)
        self.final_hp = torch.tensor(hp, dtype=torch.int32)
        self.reward = torch.tensor(reward)

    def seat_stats(self, rows):
        return torch.stack([self.length[rows // 2], self.final_hp.flatten()[rows]], dim=1).double()


def script_env(steps):
    shape = ActorCritic(5, 2, 1, STILL).shape
    return LearnerEnv(Script(steps), bots=BOTS, slots=1, network_shape=shape, seed=0)


OPEN = [-1, -1, -1, -1]
HP = [[5, 1], [2, 4], [3, 0], [0, 3]]
REWARD = [[1.0, -1.0], [0.5, 2.0], [0.25, 8.0], [16.0, 4.0]]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_results_are_counted_by_opponent_from_learner_seat(device):
    """Matches 0 and 2 have the learner on seat 0, 1 and 3 on seat 1. "meta": as on a GPU, without readback."""
    env = script_env(
        [
            (OPEN, [99] * 4, HP, REWARD),
            ([1, 1, 0, 2], [100, 200, 300, 400], HP, REWARD),
            ([2, -1, 2, -1], [10, 99, 20, 99], HP, REWARD),
        ]
    )
    env.assign(np.array([1, 1, FIRST_SLOT, 4]))
    env.device = torch.device(device)
    for _ in range(3):
        env.step(torch.zeros(4, 3))
    tally = env.harvest()
    assert tally.wins.tolist() == [0, 1, 0, 0, 1, 0]
    assert tally.draws.tolist() == [0, 0, 0, 0, 0, 1]
    assert tally.losses.tolist() == [0, 2, 0, 0, 0, 1]
    assert tally.stats["length"].tolist() == [0, 100 + 200 + 10, 0, 0, 400, 300 + 20]
    assert tally.stats["hp"].tolist() == [0, 5 + 4 + 5, 0, 0, 3, 3 + 3]
    assert tally.returns.tolist() == [0, 2 * 1.0 + 2 * 2.0 + 1.0, 0, 0, 8.0, 0.5 + 0.25]
    assert tally.games.tolist() == [0, 3, 0, 0, 1, 2]
    assert env.harvest().games.sum() == 0


class Deciding(Script):
    """The same matches in a batch that reports all seats as deciding in every step."""

    def __init__(self, steps):
        super().__init__(steps)
        self.deciding, self.final_obs = torch.ones(4, 2, dtype=torch.bool), torch.zeros_like(self.obs)
        self.length = torch.zeros(4)

    def restart(self, mask):
        self.restarts.append(mask.tolist())


class Still:
    """A player that does nothing and counts its rows."""

    memory_size, rows = 0, 0

    def act(self, obs, memory):
        self.rows += len(obs)
        return torch.zeros(len(obs), 3), memory


def test_results_are_equal_for_match_and_seat_lanes():
    """Lanes are matches in one and seats in the other; both agree on opponents, seats, results and restarts."""
    steps = [
        (OPEN, [99] * 4, HP, REWARD),
        ([1, 1, 0, 2], [100, 200, 300, 400], HP, REWARD),
        ([2, -1, 2, -1], [10, 99, 20, 99], HP, REWARD),
    ]
    players = {"one": Still(), "two": Still()}
    together = LearnerEnv(Script(steps), bots=list(players), seed=0)
    in_turn = LearnerEnv(Deciding(steps), players=players, seed=0, seating=TurnSeats)
    for env in (together, in_turn):
        env.assign(np.array([1, 1, 0, 0]))
    assert in_turn.rows.tolist() == together.seat_rows.tolist() == [0, 3, 4, 7]
    for _ in steps:
        _, reward, *_ = together.step(torch.zeros(4, 3))
        _, rewards, *_ = in_turn.step(torch.zeros(4, 3))
        assert torch.equal(rewards[in_turn.seat_rows], reward)
        assert torch.equal(rewards, in_turn.batch.reward.flatten())
    assert (players["one"].rows, players["two"].rows) == (6, 6)
    assert together.batch.restarts == in_turn.batch.restarts == [[True] * 4, [True, True, False, False]]
    tally, other = together.harvest(), in_turn.harvest()
    assert tally.games.tolist() == [3, 3]
    for name in ("wins", "draws", "losses", "returns"):
        assert getattr(other, name).tolist() == [*getattr(tally, name).tolist(), 0.0], name
    assert {name: sums.tolist()[:2] for name, sums in other.stats.items()} == {
        name: sums.tolist() for name, sums in tally.stats.items()
    }
    with pytest.raises(ValueError, match=r"4 indices in 0\.\.1"):
        together.assign(np.full(4, together.itself))
    in_turn.assign(np.full(4, in_turn.itself))  # all seats are the learner's
    assert in_turn.rows.tolist() == [*range(8)]


def test_restarted_match_is_not_counted_and_return_resets():
    env = script_env([(OPEN, [0] * 4, HP, REWARD), ([1, 2, 1, 2], [10] * 4, HP, REWARD)])
    env.step(torch.zeros(4, 3))
    env.assign(np.array([2, 0, 0, 0]))
    assert env.batch.restarts[-1] == [True, False, False, False]
    env.step(torch.zeros(4, 3))
    tally = env.harvest()
    assert tally.wins.tolist() == [3, 0, 1, 0, 0, 0]
    assert tally.returns.tolist() == [2 * 2.0 + 2 * 0.25 + 2 * 4.0, 0, 1.0, 0, 0, 0]


class Trio(Script):
    """Three matches of three seats that end at once, with one outcome each."""

    num_envs, action_size, device = 3, 1, torch.device("cpu")
    stat_names, contract = (), {}

    def __init__(self, outcome):
        self.obs = torch.arange(9.0).view(3, 3, 1)
        self.restarts, self.seats = [], []
        self.outcome, self.reward = torch.tensor(outcome), torch.arange(9.0).view(3, 3)
        self.terminated, self.truncated = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)

    def assign(self, bots, restart):
        self.seats.append(bots.tolist())

    def step(self, actions):
        self.actions = actions.clone()

    def seat_stats(self, rows):
        return torch.zeros(len(rows), 0, dtype=torch.float64)


def test_three_seats_rotate_and_leader_bits_decide_result():
    """The learner, in seat i of match i, wins alone, shares the lead, and trails two others."""
    game = Trio([0b001, 0b110, 0b011])
    env = LearnerEnv(game, bots=("easy", "hard"), seed=0)
    env.assign(np.array([0, 1, 1]))
    assert game.seats[-1] == [[ACTIONS, 0, 0], [1, ACTIONS, 1], [1, 1, ACTIONS]]
    assert env.obs.tolist() == [[0.0], [4.0], [8.0]]
    _, reward, *_ = env.step(torch.tensor([[1.0], [2.0], [3.0]]))
    assert reward.tolist() == [0.0, 4.0, 8.0]
    assert game.actions[..., 0].tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    tally = env.harvest()
    assert np.stack([tally.wins, tally.draws, tally.losses], axis=1).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert tally.returns.tolist() == [0.0, 12.0]


def test_snapshots_require_two_seats():
    with pytest.raises(ValueError, match=r"slots=1: snapshots play two-seat games only, this one has 3 seats"):
        LearnerEnv(Trio([0, 0, 0]), bots=("easy",), slots=1, network_shape=network().shape, seed=0)
    with pytest.raises(ValueError, match=r"slot=0: there are no slots"):
        LearnerEnv(Trio([0, 0, 0]), bots=("easy",), seed=0).load_slot(0, {})


def test_open_seat_code_is_equal_in_all_games():
    assert batched.ACTIONS == ACTIONS == codes.ACTIONS
