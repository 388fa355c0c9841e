"""Advantages by hand, with gamma 0.5 and lambda 0.5 so that every number is exact in binary."""

import torch

from sparring.agents.ppo.rollout import gae

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


def test_a_plain_run():
    # delta = r + 0.5 V' - V: [1 + 2 - 2, 2 + 4 - 4, 3 + 8 - 8] = [1, 2, 3]; A = delta + 0.25 A'
    advantage, returns = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], last=16.0)
    assert advantage == [1 + 0.25 * 2.75, 2 + 0.25 * 3, 3.0]
    assert returns == [2 + 1.6875, 4 + 2.75, 8 + 3.0]


def test_a_termination_bootstraps_nothing_and_cuts_the_sum():
    # Step 1 ends: delta_1 = 2 + 0 - 4 = -2, and A_2 = 3 does not flow into it.
    advantage, _ = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], terminated=[1], last=16.0)
    assert advantage == [1 + 0.25 * -2, -2.0, 3.0]


def test_a_truncation_in_the_middle_bootstraps_its_final_observation_and_cuts_the_sum():
    # Step 1 runs out of time in a state worth 12: delta_1 = 2 + 0.5 * 12 - 4 = 4. The next episode's V (8) is not used.
    advantage, _ = one([1.0, 2.0, 3.0], [2.0, 4.0, 8.0], truncated=[1], final={1: 12.0}, last=16.0)
    assert advantage == [1 + 0.25 * 4, 4.0, 3.0]


def test_a_time_out_taken_for_a_termination_gives_a_wrong_number():
    arguments = ([1.0, 2.0, 3.0], [2.0, 4.0, 8.0])
    right, _ = one(*arguments, truncated=[1], final={1: 12.0}, last=16.0)
    wrong, _ = one(*arguments, terminated=[1], last=16.0)
    assert right[:2] == [2.0, 4.0]
    assert wrong[:2] == [0.5, -2.0]


def test_ends_at_the_last_step():
    arguments = ([1.0, 2.0], [2.0, 4.0])
    assert one(*arguments, terminated=[1], last=16.0)[0][1] == -2.0
    assert one(*arguments, truncated=[1], final={1: 12.0}, last=16.0)[0][1] == 4.0


def test_terminated_wins_over_truncated():
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


def test_a_perfect_critic_leaves_no_advantage():
    # Reward 1 for ever with gamma 0.5 is worth 2, also across a time limit.
    advantage, returns = one([1.0] * 5, [2.0] * 5, truncated=[2], final={2: 2.0}, last=2.0)
    assert advantage == [0.0] * 5
    assert returns == [2.0] * 5
