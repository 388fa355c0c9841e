"""Collection into preallocated tensors, final observations, and advantages by hand, exact in binary."""

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.rollout import Rollout, gae
from sparring.configs.schema import NetworkConfig

D = 3


class ClockEnv:
    """Environment n's episodes last `limits[n]` steps and end as `endings[n]`; all tensors are overwritten each step.

    Observations are (environment, episode, step within it), so that every value can be recomputed outside.
    """

    rows = None

    def __init__(self, limits, endings):
        self.limits, self.num_envs = torch.tensor(limits), len(limits)
        self.lanes, self.longest_episode = len(limits), max(limits)
        self.truncates = torch.tensor([ending == "truncated" for ending in endings])
        self.clock, self.episode = torch.zeros(2, self.num_envs, dtype=torch.int64)
        self.obs, self.final_obs = torch.full((2, self.num_envs, D), float("nan"))
        self.reward = torch.zeros(self.num_envs)
        self.terminated, self.truncated = torch.zeros(2, self.num_envs, dtype=torch.bool)
        self._observe(self.obs)

    def _observe(self, out):
        out.copy_(torch.stack([torch.arange(self.num_envs), self.episode, self.clock], dim=1))

    def step(self, actions):
        self.clock += 1
        done = self.clock == self.limits
        self.final_obs.fill_(float("nan"))
        final = torch.stack([torch.arange(self.num_envs), self.episode, self.clock], dim=1).float()
        self.final_obs[done] = final[done]
        self.episode += done
        self.clock[done] = 0
        self._observe(self.obs)
        self.reward.copy_(actions[:, 0])
        self.terminated.copy_(done & ~self.truncates)
        self.truncated.copy_(done & self.truncates)
        return self.obs, self.reward, self.terminated, self.truncated


def network():
    return ActorCritic(D, 1, 1, NetworkConfig(hidden=8), seed=1)


def critic(obs, final_obs, _):
    return network().value(obs), network().value(final_obs)


def empty(env, steps, max_truncations):
    env.longest_episode = -(-steps // max_truncations)
    return Rollout(network(), steps, env)


def collected(env, steps, max_truncations, seed=0):
    rollout = empty(env, steps, max_truncations)
    rollout.collect(env, network(), torch.Generator().manual_seed(seed))
    return rollout


def test_rollout_stores_observations_and_actions_by_step():
    rollout = collected(ClockEnv([3, 10], ["terminated", "truncated"]), steps=5, max_truncations=1)
    assert rollout.obs[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    assert rollout.terminated[:, 0].tolist() == [False, False, True, False, False]
    assert not rollout.truncated.any()
    assert torch.equal(rollout.reward, rollout.actions[:, :, 0])
    assert len(rollout.reward.unique()) == 10
    for t in range(5):
        log_prob, _ = network().evaluate(rollout.obs[t], rollout.actions[t])
        torch.testing.assert_close(rollout.log_prob[t], log_prob)


def test_advantages_use_value_of_final_observation():
    env = ClockEnv([2, 3, 3, 100], ["truncated", "truncated", "terminated", "truncated"])
    rollout, net = collected(env, steps=7, max_truncations=3), network()
    rollout.finish(critic, 0.9, 0.8)
    values = net.value(rollout.obs).detach()
    truncation_value = torch.full((7, 4), float("nan"))
    for t, n in rollout.truncated.nonzero().tolist():
        episode, length = rollout.obs[t, n, 1], int(env.limits[n])
        truncation_value[t, n] = net.value(torch.tensor([[n, episode, length]])).item()
    assert rollout.truncated.sum(0).tolist() == [3, 2, 0, 0]
    flags = (rollout.terminated, rollout.truncated)
    advantage, returns = gae(rollout.reward, values[:-1], *flags, values[-1], truncation_value, gamma=0.9, lam=0.8)
    torch.testing.assert_close(rollout.value, values[:-1])
    torch.testing.assert_close(rollout.advantage, advantage)
    torch.testing.assert_close(rollout.returns, returns)
    assert rollout.advantage.isfinite().all()


def test_device_path_without_readback_matches():
    """On an accelerator every step scatters; emulate one."""
    limits, endings = [2, 3, 3, 100], ["truncated", "truncated", "terminated", "truncated"]
    plain = collected(ClockEnv(limits, endings), steps=7, max_truncations=3)
    plain.finish(critic, 0.9, 0.8)
    env = ClockEnv(limits, endings)
    other = empty(env, steps=7, max_truncations=3)
    other.device = torch.device("meta")
    other.collect(env, network(), torch.Generator().manual_seed(0))
    other.finish(critic, 0.9, 0.8)
    assert torch.equal(other.advantage, plain.advantage)


def test_early_truncations_fit_and_overflow_raises_after_rollout():
    limits, endings = [100, 2], ["truncated", "truncated"]
    wide, grown = (collected(ClockEnv(limits, endings), steps=6, max_truncations=most) for most in (3, 1))
    for rollout in (wide, grown):
        rollout.finish(critic, 0.9, 0.8)
    assert torch.equal(grown.advantage, wide.advantage)
    env = ClockEnv(limits, endings)
    other = empty(env, steps=6, max_truncations=2)
    other.device = torch.device("meta")
    with pytest.raises(RuntimeError, match=r"max_truncations=2 but .* 3 times in 6 steps; .* >= 3"):
        other.collect(env, network(), torch.Generator().manual_seed(0))


def test_second_rollout_starts_where_first_ended():
    env = ClockEnv([3], ["truncated"])
    rollout = collected(env, steps=4, max_truncations=2)
    rollout.collect(env, network(), torch.Generator().manual_seed(1))
    assert rollout.obs[:, 0].tolist() == [[0, 1, 1], [0, 1, 2], [0, 2, 0], [0, 2, 1], [0, 2, 2]]
    assert rollout.truncations.tolist() == [1]
    rollout.finish(critic, 0.9, 0.8)
    delta = rollout.reward[1] + 0.9 * network().value(torch.tensor([[0.0, 1, 3]])) - rollout.value[1]
    torch.testing.assert_close(rollout.advantage[1], delta.detach())


def test_flat_returns_views_in_step_order():
    rollout = collected(ClockEnv([3, 10], ["terminated", "truncated"]), steps=5, max_truncations=1)
    rollout.finish(critic, 0.9, 0.8)
    samples = rollout.flat()
    assert [len(tensor) for tensor in samples] == [10] * 6
    assert samples.obs[3].tolist() == [1, 0, 1]  # step 1 of environment 1
    assert samples.obs.data_ptr() == rollout.obs.data_ptr()
    assert samples.advantage[3] == rollout.advantage[1, 1]


NAN = float("nan")


def one(reward, value, *, terminated=(), truncated=(), last=0.0, final=None):
    """Run one environment's column; `final` maps a step to V(final observation), NaN elsewhere."""
    steps = len(reward)
    flags = torch.zeros(2, steps, 1, dtype=torch.bool)
    flags[0, list(terminated)] = True
    flags[1, list(truncated)] = True
    truncation_value = torch.full((steps, 1), NAN)
    for step, number in (final or {}).items():
        truncation_value[step] = number
    advantage, returns = gae(
        torch.tensor(reward).unsqueeze(1),
        torch.tensor(value).unsqueeze(1),
        flags[0],
        flags[1],
        torch.tensor([last]),
        truncation_value,
        gamma=0.5,
        lam=0.5,
    )
    return advantage.squeeze(1).tolist(), returns.squeeze(1).tolist()


def test_advantages_of_one_episode_by_hand():
    # delta = r + 0.5 V' - V: [1 + 2 - 2, 2 + 4 - 4, 3 + 8 - 8] = [1, 2, 3]; A = delta + 0.25 A'
    advantage, returns = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], last=16.0)
    assert advantage == [1 + 0.25 * 2.75, 2 + 0.25 * 3, 3.0]
    assert returns == [2 + 1.6875, 4 + 2.75, 8 + 3.0]


def test_termination_does_not_bootstrap_and_ends_sum():
    # Step 1 ends: delta_1 = 2 + 0 - 4 = -2, and A_2 = 3 does not flow into it.
    advantage, _ = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], terminated=[1], last=16.0)
    assert advantage == [1 + 0.25 * -2, -2.0, 3.0]


def test_truncation_bootstraps_final_observation_and_ends_sum():
    # Step 1 runs out of time in a state worth 12: delta_1 = 2 + 0.5 * 12 - 4 = 4. The next episode's V (8) is not used.
    advantage, _ = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], truncated=[1], final={1: 12.0}, last=16.0)
    assert advantage == [1 + 0.25 * 4, 4.0, 3.0]


def test_time_out_treated_as_termination_differs():
    arguments = ([1.0, 2.0, 3.0], [2.0, 4.0, 8.0])
    right, _ = one(*arguments, truncated=[1], final={1: 12.0}, last=16.0)
    wrong, _ = one(*arguments, terminated=[1], last=16.0)
    assert right[:2] == [2.0, 4.0]
    assert wrong[:2] == [0.5, -2.0]


def test_episode_can_end_at_last_step():
    arguments = ([1.0, 2.0], [2.0, 4.0])
    assert one(*arguments, terminated=[1], last=16.0)[0][1] == -2.0
    assert one(*arguments, truncated=[1], final={1: 12.0}, last=16.0)[0][1] == 4.0


def test_terminated_takes_precedence_over_truncated():
    advantage, _ = one([2.0], [4.0], terminated=[0], truncated=[0], final={0: 12.0}, last=16.0)
    assert advantage == [-2.0]


def test_environments_do_not_mix():
    generator = torch.Generator().manual_seed(0)
    reward, value, truncation_value = torch.randn(3, 20, 6, generator=generator)
    terminated, truncated = torch.rand(2, 20, 6, generator=generator) < 0.15
    last = torch.randn(6, generator=generator)
    options = {"gamma": 0.99, "lam": 0.95}
    together, _ = gae(reward, value, terminated, truncated, last, truncation_value, **options)
    for n in range(6):
        column = [x[:, n : n + 1] for x in (reward, value, terminated, truncated)]
        alone, _ = gae(*column, last[n : n + 1], truncation_value[:, n : n + 1], **options)
        assert torch.equal(together[:, n : n + 1], alone)


def test_perfect_critic_gives_zero_advantage():
    # Reward 1 for ever with gamma 0.5 is worth 2, also across a time limit.
    advantage, returns = one([1.0] * 5, [2.0] * 5, truncated=[2], final={2: 2.0}, last=2.0)
    assert advantage == [0.0] * 5
    assert returns == [2.0] * 5
