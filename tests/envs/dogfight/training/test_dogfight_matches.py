"""Matches between two contestants: seat pairs, first results, and incompatible policies."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch, Mirror
from sparring.envs.dogfight.rules import bot_id, ranges
from sparring.envs.dogfight.training.matches import MatchResults, MatchSettings, play

QUICK = MatchSettings(threads=1, ranges=ranges("glass_cannon"))
SHORT = replace(QUICK, max_ticks=1500)


def policy(*, physics=True, seed=1, mirror=False, **options):
    batch = DogfightBatch(1, threads=1, observe_physics=physics)
    net = ActorCritic(batch.obs_dim, 2, 1, NetworkConfig(hidden=8), seed=seed)
    with torch.no_grad():
        net.actor[-1].weight.mul_(100.0)
    return Policy(net, batch.contract | {"mirror": mirror}, name="pupil", **options)


def assert_mirrored(results, others):
    """Check that the games are equal from the other side."""
    half = results.games // 2
    assert np.roll(others.outcome, half).tolist() == (-results.outcome).tolist()
    assert np.roll(others.length, half).tolist() == results.length.tolist()
    assert np.roll(others.left_hp, half).tolist() == results.right_hp.tolist()
    assert np.roll(others.right_hp, half).tolist() == results.left_hp.tolist()


def alone(match_id, bots, seed):
    """Play one match alone to its end: outcome and length."""
    batch = DogfightBatch(1, threads=1)
    batch.set_ranges(QUICK.ranges)
    batch.match_id.fill_(match_id)
    batch.assign(np.array([bots]))
    batch.reset(seed)
    while batch.outcome.item() < 0 or batch.length.item() == 0:
        batch.step(torch.zeros(1, 2, 3))
    return batch.outcome.item(), batch.length.item()


def test_each_game_is_first_match_of_its_slot():
    results = play("brawler", "chaser", games=6, seed=4, setting=QUICK)
    brawler, chaser = bot_id("brawler"), bot_id("chaser")
    for game in range(6):
        seat = int(game >= 3)
        winner, length = alone(game % 3, [brawler, chaser][:: 1 - 2 * seat], seed=4)
        assert results.left_seat[game] == seat
        assert results.outcome[game] == (0 if winner == 0 else 1 if winner - 1 == seat else -1)
        assert results.length[game] == length
    assert results.length.min() < results.length.max()  # so that some places began a second match


def test_swapping_contestants_mirrors_results():
    results = play("brawler", "ace", games=20, seed=1, setting=QUICK)
    assert_mirrored(results, play("ace", "brawler", games=20, seed=1, setting=QUICK))
    assert results.wins > 0
    assert results.wins + results.draws + results.losses == results.games == 20
    assert results.win_rate == results.wins / 20


def test_winners_have_more_hp_than_losers():
    results = play("brawler", "ace", games=20, seed=1, setting=QUICK)
    assert (np.sign(results.left_hp - results.right_hp) == results.outcome).all()
    assert results.left_hp.max() <= 3


def differ(results, others):
    return results.left_hp.tolist() + results.right_hp.tolist() != others.left_hp.tolist() + others.right_hp.tolist()


def test_policies_act_for_own_seat():
    pupil = policy()
    results = play(pupil, "chaser", games=20, seed=2, setting=SHORT)
    assert_mirrored(results, play("chaser", pupil, games=20, seed=2, setting=SHORT))
    assert differ(results, play(policy(seed=7), "chaser", games=20, seed=2, setting=SHORT))


def test_two_policies():
    left, right = policy(seed=1), policy(seed=7)
    results = play(left, right, games=20, seed=2, setting=SHORT)
    assert_mirrored(results, play(right, left, games=20, seed=2, setting=SHORT))


def test_sampled_actions_depend_on_seed_only():
    pupil = policy(deterministic=False)
    first, again, other = (play(pupil, "chaser", games=20, seed=seed, setting=SHORT) for seed in (2, 2, 3))
    assert not differ(first, again)
    assert differ(first, other)


def test_mirrored_policy_acts_in_original_match():
    plain, mirrored = policy(), policy(mirror=True)
    obs = torch.randn(20, 59, generator=torch.Generator().manual_seed(3))
    left = obs[:, 6] < 0
    assert 5 < left.sum() < 15
    expected = plain.act(Mirror("classic", 59).show(obs)[0])
    expected[left, 0] *= -1.0
    assert torch.equal(mirrored.act(obs), expected)
    assert torch.equal(mirrored.act(obs)[~left], plain.act(obs)[~left])


def test_policy_without_physics_plays_equally_if_observed():
    blind = policy(physics=False)
    shown = play(blind, "chaser", games=4, seed=2, setting=SHORT)
    hidden = play(blind, "chaser", games=4, seed=2, setting=replace(SHORT, observe_physics=False))
    assert (shown.length.tolist(), differ(shown, hidden)) == (hidden.length.tolist(), False)
    with pytest.raises(PolicyError, match="pupil observes 59 floats and cannot play matches with 46"):
        play(policy(), blind, games=2, seed=2, setting=MatchSettings(threads=1, observe_physics=False))


def test_policy_of_other_rules_is_rejected():
    with pytest.raises(PolicyError, match="pupil was trained with rules=classic and cannot play with rules=challenge"):
        play(policy(), "ace", games=2, seed=0, setting=MatchSettings(threads=1, rules="challenge"))
    with pytest.raises(PolicyError, match="action_repeat=10 and cannot play with action_repeat=1"):
        play("ace", policy(), games=2, seed=0, setting=MatchSettings(threads=1, action_repeat=1))


def test_bad_input_is_rejected():
    for games in (0, 3, -2):
        with pytest.raises(ValueError, match=f"games={games}: must be even"):
            play("ace", "ace", games=games, seed=0)
    with pytest.raises(UnknownNameError, match="did you mean 'brawler'"):
        play("brawlr", "ace", games=2, seed=0, setting=QUICK)


def test_recorder_sees_every_step_until_time_limit():
    steps = []
    setting = MatchSettings(threads=1, max_ticks=95, trace=1)
    results = play(
        "do_nothing",
        "do_nothing",
        games=2,
        seed=0,
        setting=setting,
        recorder=lambda b, s: steps.append((s, b.trace[0, 0, -1].item())),
    )
    assert steps == [(step, 10.0 * step + 1) for step in range(10)]
    assert results.length.tolist() == [95, 95]
    assert results.draws == 2


def test_non_finite_actions_are_counted():
    broken = policy()
    with torch.no_grad():
        broken.network.actor[-1].bias[0] = float("nan")
    results = play(broken, "do_nothing", games=2, seed=0, setting=MatchSettings(threads=1, max_ticks=50))
    assert isinstance(results, MatchResults)
    assert results.invalid_actions == 2 * 5
