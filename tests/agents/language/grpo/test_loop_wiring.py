"""From rollout to learner: rewards become advantages within the configured groups."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparring.agents.language.backend import Decision
from sparring.agents.language.grpo.rollouts.rollout import DecisionRecord, RolloutBatch
from sparring.agents.language.grpo.step import learn_from
from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy.rollouts.task import stratum
from sparring.envs.text import GroupFacts


class Noting:
    """A learner that records its input."""

    version = 0
    role_baseline = None

    def learn(self, samples, *, rate_scale):
        self.samples, self.rate_scale = samples, rate_scale
        self.version += 1
        return {}


def turn(game, fork, step=0, *, power=2, centres=3):
    known = GroupFacts(fork=fork, seat=power, step=step, stratum=stratum(centres, 1901), position=fork)
    return DecisionRecord(Decision(()), game, power, step, known, 1)


def learned(turns, rewards, *, rate_scale=1.0, **options):
    """Return the learner and what it received, as {turn index: advantage}."""
    learner = Noting()
    plan = SimpleNamespace(policy_version=0, groups=())
    batch = RolloutBatch(plan, turns, np.array(rewards), endings=[], failed=0, years=0.0, seconds=0.0)
    metrics = learn_from(batch, learner, GRPOConfig(**options), rate_scale=rate_scale)
    whose = {id(one.decision): number for number, one in enumerate(turns)}
    return {whose[id(sample.decision)]: sample.advantage for sample in learner.samples}, learner, metrics


TWO_FORKS = [turn(0, 0), turn(1, 0), turn(2, 1), turn(3, 1)]
"""Two games from each of two positions, a decision each, by the same power with as many centres."""


def test_above_group_mean_is_raised_and_below_is_lowered():
    """The means are 2 and 7, the standard deviations 1 and 2."""
    found, _, _ = learned(TWO_FORKS, [1.0, 3.0, 9.0, 5.0])
    assert found == pytest.approx({0: -1.0, 1: 1.0, 2: 1.0, 3: -1.0})


def test_advantages_follow_options():
    """Advantages are not divided by the standard deviation, and are clipped at 1.5."""
    found, _, _ = learned(TWO_FORKS, [1.0, 3.0, 9.0, 5.0], scale_advantages=False, advantage_clip=1.5)
    assert found == pytest.approx({0: -1.0, 1: 1.0, 2: 1.5, 3: -1.5})


def test_position_groups_compare_games_of_two_forks():
    """Combined, the mean is 4.5 and the variance (3.5^2 + 1.5^2 + 4.5^2 + 0.5^2) / 4 = 8.75."""
    found, _, _ = learned(TWO_FORKS, [1.0, 3.0, 9.0, 5.0], use_state_stratified_groups=True)
    deviations = {0: -3.5, 1: -1.5, 2: 4.5, 3: 0.5}
    assert found == pytest.approx({number: value / 8.75**0.5 for number, value in deviations.items()})


def test_uninformative_decisions_are_dropped():
    """Rewards are equal in one fork and differ in the other."""
    found, _, metrics = learned(TWO_FORKS, [2.0, 2.0, 9.0, 5.0])
    assert found == pytest.approx({2: 1.0, 3: -1.0})
    assert metrics["processing/skipped_zero_variance"] == 2


def test_guard_lowers_learning_rate():
    _, learner, metrics = learned(TWO_FORKS, [1.0, 3.0, 9.0, 5.0], rate_scale=0.25, learning_rate=0.01)
    assert learner.rate_scale == 0.25
    assert metrics["train/learning_rate"] == 0.0025
