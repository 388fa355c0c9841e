"""Recurrent policies in the dogfight: one memory per match and seat, reset on the first step."""

import copy
from operator import attrgetter

import numpy as np
import pytest
import torch

from sparring.agents.distributed.processes import Processes
from sparring.agents.opponents.duelists import PythonPolicy
from sparring.agents.play.duel_matches import _Table
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.array_actor import actor_of
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.agents.ppo.rollout import Rollout
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import DogfightRunConfig
from sparring.envs.dogfight.interfaces.gymnasium_env import DogfightEnv
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.envs.dogfight.training.opponents.planner import DisturbedActions, PlannerPlayer
from sparring.envs.dogfight.training.task import DogfightTask

N, LONGEST, H = 8, 5, 8
"""Matches, decisions in one, and the width of the networks."""
BOTS = ("do_nothing", "ace")
SLOT = len(BOTS) + 1


def make_env(kind="gru", *, seed=3):
    """Return an environment with two bots, a recurrent policy and a snapshot slot, with hidden physics."""
    batch = DogfightBatch(N, seed=seed, threads=1, max_ticks=10 * LONGEST, observe_physics=False)
    shape = shape_for(batch.contract, NetworkConfig(hidden=H, memory=kind))
    player = Policy(scattered(shape, 11), batch.contract | {"mirror": False})
    options = {"players": {"policy": player}, "slots": 1, "network_shape": shape, "seed": 5}
    return LearnerEnv(batch, bots=BOTS, **options), shape


def scattered(shape, seed):
    """Return a network whose decisions depend on its memory."""
    network = build_network(shape, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return network


def act(env, step):
    """Steer as drawn, and count the learner's decisions in its memory."""
    env.memory += 1.0
    env.step(torch.rand(env.num_envs, 3, generator=torch.Generator().manual_seed(step)))


def test_memory_is_reset_on_first_step_of_match():
    env, shape = make_env()
    snapshot = scattered(shape, 7)
    env.assign(np.arange(N) % (SLOT + 1))
    env.load_slot(0, snapshot.state_dict())
    opponents = {index: scattered(shape, seed) for index, seed in ((SLOT - 1, 11), (SLOT, 7))}
    remembered = torch.zeros(N, 4 * H // 2)
    for step in range(2 * LONGEST + 2):
        obs = env.batch.obs.clone()
        act(env, step)
        for index, network in opponents.items():
            match = torch.arange(N)[torch.from_numpy(env.opponents == index)]
            seen = obs[match, 1 - match % 2]
            remembered[match] = network.step(seen, remembered[match], critic=False)[2]
        first = (step + 1) % LONGEST == 0
        if first:
            remembered.zero_()
        assert (env.memory == (step + 1) % LONGEST).all()
        assert (env.fresh == first).all()
        torch.testing.assert_close(env.opponent_seats.memory[:N, :H], remembered[:, :H], atol=1e-6, rtol=0)
    assert remembered[torch.from_numpy(env.opponents >= SLOT - 1)].abs().max() > 0.1
    env.close()


@pytest.mark.parametrize("change", ["another opponent", "another snapshot"])
def test_new_opponent_starts_with_empty_memory(change):
    env, shape = make_env()
    env.load_slot(0, scattered(shape, 7).state_dict())
    env.assign(np.full(N, SLOT) - (np.arange(N) < 4))  # a policy in four, the snapshot in the others
    for step in range(2):
        act(env, step)
    before = env.opponent_seats.memory.clone()
    if change == "another opponent":
        env.assign(np.full(N, SLOT))
        new = torch.arange(N) < 4
    else:
        env.load_slot(0, scattered(shape, 8).state_dict())
        new = torch.arange(N) >= 4
    assert (env.opponent_seats.memory[:N][new] == 0).all()
    assert (env.memory[new] == 0).all()
    assert env.fresh[new].all()
    assert torch.equal(env.opponent_seats.memory[:N][~new], before[:N][~new])
    assert before[:N].abs().sum(1).min() > 0.1
    assert (env.memory[~new] == 2).all()
    assert not env.fresh[~new].any()
    env.close()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_rollout_log_probs_match_sequence_replay(kind):
    """Twelve decisions with two endings, in sequences that start and end within matches."""
    env, shape = make_env(kind)
    network = scattered(shape, 1)
    rollout = Rollout(network, 12, env, sequence_length=4)
    for _ in range(2):  # the second begins within a match
        rollout.collect(env, network, torch.Generator().manual_seed(0))
    rollout.finish(network.values, 0.99, 0.95)
    whole = Sequences(rollout.obs, rollout.memory[0], rollout.fresh, torch.arange(12 * N))
    log_prob, _ = network.evaluate(whole, rollout.actions.flatten(0, 1))
    torch.testing.assert_close(rollout.log_prob.flatten(), log_prob.detach(), atol=1e-5, rtol=0)
    assert rollout.fresh.any(1).nonzero().flatten().tolist() == [3, 8]  # after 12 decisions, in matches of 5
    assert rollout.memory[0].abs().min(1).values.min() > 0
    samples = rollout.flat()
    assert len(samples.position) == 12 * N
    env.close()


def test_state_resumes_bit_for_bit():
    env, shape = make_env("lstm")
    env.load_slot(0, scattered(shape, 7).state_dict())
    env.assign(np.arange(N) % (SLOT + 1))
    for step in range(7):
        act(env, step)
    state = copy.deepcopy(env.state_dict())
    other, _ = make_env("lstm", seed=9)
    other.load_state_dict(state)
    for step in range(4):
        act(env, step)
        act(other, step)
        for name in ("obs", "memory", "fresh", "opponent_seats.memory"):
            assert torch.equal(attrgetter(name)(other), attrgetter(name)(env)), name
    env.close()
    other.close()


def test_evaluation_matches_keep_and_reset_memory_per_player():
    setting = MatchSettings(max_ticks=10 * LONGEST, threads=1, observe_physics=True)
    batch = setting.batch(4)
    contract = batch.contract | {"mirror": True, "observe_physics": False, "obs_dim": 46}
    shape = shape_for(contract, NetworkConfig(hidden=H, memory="gru"))
    left, right = (Policy(scattered(shape, seed), contract) for seed in (1, 2))
    table, seen = _Table(batch, left, right, seed=3), []
    for policy in (left, right):
        plain = policy.step
        policy.step = lambda obs, memory, plain=plain: seen.append(memory.clone()) or plain(obs, memory)
    for step in range(LONGEST + 2):
        before = [memory.clone() for memory in table.memory]
        table.step()
        assert all(map(torch.equal, before, seen[-2:]))
        assert all((memory == 0).all() == (step + 1 == LONGEST) for memory in table.memory)
    assert not torch.equal(*table.memory)
    batch.close()


@pytest.mark.parametrize("noise", [None, 0.0])
def test_plan_against_recurrent_policy_holds_to_last_observation(monkeypatch, noise):
    """Planned with one rollout: the policy observes in the match what it observed in the plan."""
    env, _ = make_env()
    (policy,) = env.opponent_seats._players
    setting = MatchSettings(threads=1, max_ticks=10 * LONGEST, observe_physics=False)
    plain, observed = Policy.step, []

    def step(player, obs, memory, **options):
        if player is policy:
            observed.append(obs.clone())
        return plain(player, obs, memory, **options)

    monkeypatch.setattr(Policy, "step", step)
    planned = PlannerPlayer(1, name="planner:k=1").against(policy, games=2, seed=0, setting=setting)
    rollout = observed.copy()
    observed.clear()
    disturbed = PythonPolicy(DisturbedActions(policy, noise or 0.0), name="disturbed", device="cpu")
    play(planned, policy if noise is None else disturbed, games=2, seed=0, setting=setting)
    assert len(rollout) == LONGEST
    assert all(map(torch.equal, rollout, observed))
    env.close()


def test_caller_without_memory_support_rejects_recurrent_policy():
    env, _ = make_env()
    (policy,) = env.opponent_seats._players
    with pytest.raises(PolicyError, match=r"has a memory \(network.memory=gru\), which is not supported here; name"):
        policy.act(env.obs)
    assert policy.value(env.obs) is None
    with pytest.raises(PolicyError, match="which an environment does not carry for an opponent"):
        DogfightEnv(opponent=policy, observe_physics=False).reset(seed=0)
    with pytest.raises(InputError, match="a network with memory plays with torch only"):
        actor_of(policy.name, policy.contract, policy.network.shape, {})
    env.close()


def test_several_processes_and_gsde_are_rejected():
    """The runs report it before they start."""
    config = DogfightRunConfig(network=NetworkConfig(memory="gru"))
    with pytest.raises(ConfigError, match=r"network\.memory=gru: requires a single process; start it without torchrun"):
        DogfightTask(config, torch.device("cpu"), 1, seeds={}, processes=Processes(0, 2))
    contract = {"id": "sparring/Dogfight-v1", "obs_dim": 46, "continuous": 2, "binary": 1}
    with pytest.raises(ConfigError, match=r"network\.gsde=true: is not available for a network with memory \(lstm\);"):
        shape_for(contract, NetworkConfig(memory="lstm", gsde=True))
