"""What is played before the fork: by a bot in the kernels, or by the base model, which is asked like anybody else."""

from dataclasses import replace

import pytest
import torch

from agents.grpo.fork import Warmup, warmed_up
from agents.grpo.rollout import Rollouts
from agents.llm.backend import PromptError
from configs.names import ConfigError
from curriculum.league import BASE_MODEL, CHALLENGER
from envs.diplomacy.batch import DiplomacyBatch
from envs.diplomacy.prompts import PromptRules
from tests.agents.grpo.small_games import plan_of, small_config, toy_backend

PHASES = (0, 2, 4)


class Noting:
    """The backends of a rollout: who was asked, when, and how often for prompts that it says it cannot read."""

    def __init__(self, unreadable=()):
        self.asked, self._unreadable, self._backend = [], unreadable, toy_backend()

    def __call__(self, name):
        self.asked.append((name, 0))
        return self

    def decide(self, requests):
        self.asked[-1] = (self.asked[-1][0], len(requests))
        if len(self.asked) in self._unreadable:
            raise PromptError("the prompt for RUSSIA has 3000 tokens", [0])
        return self._backend.decide(requests)


def groups(folder, seeds=(1, 2, 3)):
    (group, *_) = plan_of(small_config(), folder=folder).groups
    return [replace(group, warmup_phases=phases, seed=seed) for phases, seed in zip(PHASES, seeds, strict=True)]


def warmed(folder, player=BASE_MODEL, backends=None, seeds=(1, 2, 3)):
    masters = DiplomacyBatch(len(PHASES), threads=1)
    found = warmed_up(masters, groups(folder, seeds), Warmup(player, PromptRules(), backends or Noting()))
    masters.close()
    return found


def same(one, other):
    return [all(torch.equal(one[name][game], other[name][game]) for name in one) for game in range(len(PHASES))]


def test_the_base_model_is_asked_for_all_seven_powers_as_long_as_a_group_has_phases_left(tmp_path):
    """Two games in spring and autumn of 1901, one of them beyond; retreats and winters ask fewer."""
    backends = Noting()
    found = warmed(tmp_path, backends=backends)
    assert [name for name, _ in backends.asked] == [BASE_MODEL] * len(backends.asked)
    assert [requests for _, requests in backends.asked][:1] == [14]
    assert found.failed == {}
    assert found.positions["year"].tolist()[0] == 1901
    assert not same(found.positions, warmed(tmp_path, "dumbbot").positions)[1]


def test_bots_ask_nobody(tmp_path):
    backends = Noting()
    warmed(tmp_path, "chaos", backends)
    assert backends.asked == []


def test_a_group_begins_where_its_seed_leads(tmp_path):
    """Whatever the other groups' seeds are."""
    first, again, other = (warmed(tmp_path, seeds=seeds) for seeds in ((1, 2, 3), (1, 2, 3), (1, 9, 3)))
    assert same(first.positions, again.positions) == [True] * 3
    assert same(first.positions, other.positions) == [True, False, True]


def test_a_prompt_that_cannot_be_read_fails_its_group_and_no_other(tmp_path):
    """The second time that somebody is asked, the first seat belongs to group 1."""
    whole, hurt = warmed(tmp_path), warmed(tmp_path, backends=Noting(unreadable=(2,)))
    assert hurt.failed == {1: "the prompt for RUSSIA has 3000 tokens"}
    assert same(whole.positions, hurt.positions)[2]


def test_games_of_a_group_that_failed_before_the_fork_are_counted(tmp_path):
    config = small_config("grpo.rollout_warmup_player=base_model", "grpo.rollout_no_warmup_chance=0")
    backends = Noting(unreadable=(1,))
    rollouts = Rollouts(config, backends)
    batch = rollouts.play(plan_of(config, folder=tmp_path))
    rollouts.close()
    assert batch.failed == 2
    assert batch.alerts == ["a game failed: the prompt for RUSSIA has 3000 tokens"]
    assert {turn.game for turn in batch.turns} == {2, 3}
    assert {name for name, _ in backends.asked} == {BASE_MODEL, CHALLENGER}


def test_who_plays_before_the_fork_is_checked():
    with pytest.raises(ConfigError, match=r"grpo\.rollout_warmup_player=dumbot: choose from .*did you mean 'dumbbot'"):
        small_config("grpo.rollout_warmup_player=dumbot")
