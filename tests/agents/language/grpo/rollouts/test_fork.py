"""Play before the fork: by a bot in the kernels, by the base model, or by league players."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from sparring.agents.language.backend import PromptError
from sparring.agents.language.grpo.rollouts import rollout
from sparring.agents.language.grpo.rollouts.rollout import Rollouts, decide_all
from sparring.configs.core.errors import ConfigError
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import FALL, FALL_RETREATS, SPRING
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.rewards.scoring import Scorer, count_centres, first_influence
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask, warmed_up
from tests.agents.language.grpo.rollouts.small_games import plan_of, small_config, toy_backend

PHASES = (0, 2, 4)


class Noting:
    """Backends of a rollout that record requests, and reject a given number of prompts as unreadable."""

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


def groups(folder, seeds, phases):
    (group, *_) = plan_of(small_config()).groups
    return [replace(group, warmup_phases=phase, seed=seed) for phase, seed in zip(phases, seeds, strict=True)]


def warmed(folder, player=BASE_MODEL, backends=None, seeds=(1, 2, 3), phases=PHASES, last_year=1935):
    masters = DiplomacyBatch(len(PHASES), threads=1, last_year=last_year)
    decide = partial(decide_all, backends or Noting())
    found = warmed_up(masters, groups(folder, seeds, phases), player=player, rules=PromptRules(), decide=decide)
    masters.close()
    return found


def same(one, other):
    return [all(torch.equal(one[name][game], other[name][game]) for name in one) for game in range(len(PHASES))]


def test_base_model_plays_all_powers_until_fork(tmp_path):
    """Two games in spring and autumn of 1901, one of them longer; retreats and winters ask fewer powers."""
    backends = Noting()
    found = warmed(tmp_path, backends=backends)
    assert [name for name, _ in backends.asked] == [BASE_MODEL] * len(backends.asked)
    assert [requests for _, requests in backends.asked][:1] == [14]
    assert found.failed == {}
    assert found.positions["year"].tolist()[0] == 1901
    assert not same(found.positions, warmed(tmp_path, "dumbbot").positions)[1]


def test_group_start_depends_on_its_seed_only(tmp_path):
    """The seeds of other groups do not matter."""
    first, again, other = (warmed(tmp_path, seeds=seeds) for seeds in ((1, 2, 3), (1, 2, 3), (1, 9, 3)))
    assert same(first.positions, again.positions) == [True] * 3
    assert same(first.positions, other.positions) == [True, False, True]


def test_unreadable_prompt_fails_its_group_only(tmp_path):
    """In the second batch of decisions the first seat belongs to group 1."""
    whole, hurt = warmed(tmp_path), warmed(tmp_path, backends=Noting(unreadable=(2,)))
    assert hurt.failed == {1: "the prompt for RUSSIA has 3000 tokens"}
    assert same(whole.positions, hurt.positions)[2]


def test_fork_stays_before_last_year(tmp_path):
    """For any number of phases, one year is left to learn in."""
    found = warmed(tmp_path, "dumbbot", phases=(0, 500, 900), last_year=1904)
    assert found.positions["year"].tolist() == [1901, 1904, 1904]
    assert found.positions["phase"].tolist() == [SPRING] * 3
    assert not found.positions["done"].any()


def test_won_game_forks_from_position_before_win(tmp_path):
    """With these seeds DumbBots win in 1923, 1925 and 1922, after autumn's centre count."""
    found = warmed(tmp_path, "dumbbot", seeds=(18, 39, 40), phases=(160,) * 3, last_year=1930)
    centres = count_centres(found.positions["owner"])
    assert found.positions["year"].tolist() == [1923, 1925, 1922]
    assert set(found.positions["phase"].tolist()) == {FALL, FALL_RETREATS}
    assert (centres.max(1).values >= 12).all()
    assert not found.positions["done"].any()
    assert (found.positions["winner"] < 0).all()


def test_ownership_before_fork_is_kept(tmp_path, monkeypatch):
    """A power keeps provinces that its units left, so returning there is nothing new."""
    config, seen, begin = small_config(), [], Scorer.begin
    monkeypatch.setattr(rollout, "AT_OPENING", 0.0)

    def noting(scorer, state, influence=None):
        seen.append((state["units"].clone(), influence))
        begin(scorer, state, influence)

    monkeypatch.setattr(Scorer, "begin", noting)
    rollouts = Rollouts(DiplomacyTextTask(config), Noting())
    rollouts.play(plan_of(config))
    rollouts.close()
    ((units, influence),) = seen
    known = first_influence(units)
    assert (influence[units > 0] == known[units > 0]).all()
    assert ((influence >= 0) & (first_influence(units) < 0)).any()


def test_games_failed_before_fork_are_counted(monkeypatch):
    monkeypatch.setattr(rollout, "AT_OPENING", 0.0)
    config = small_config("grpo.rollout_warmup_player=base_model")
    backends = Noting(unreadable=(1,))
    rollouts = Rollouts(DiplomacyTextTask(config), backends)
    batch = rollouts.play(plan_of(config))
    rollouts.close()
    assert batch.failed == 2
    assert batch.alerts == ["a game failed: the prompt for RUSSIA has 3000 tokens"]
    assert {turn.game for turn in batch.turns} == {2, 3}
    assert {name for name, _ in backends.asked} == {BASE_MODEL, CHALLENGER}


def test_league_players_can_play_before_fork(tmp_path):
    """The learner plays the hero; bots have all other seats, and the base model is never asked."""
    config = small_config("grpo.rollout_warmup_player=players")
    plan = plan_of(config)
    masters = DiplomacyBatch(len(plan.groups), last_year=1910, threads=1)
    backends = Noting()
    played_on = tuple(replace(group, warmup_phases=3) for group in plan.groups)
    warmed_up(masters, played_on, player="players", rules=PromptRules(), decide=partial(decide_all, backends))
    masters.close()
    assert {name for name, _ in backends.asked} == {CHALLENGER}
    assert 3 <= sum(count for _, count in backends.asked) <= 3 * len(plan.groups)  # one power of each game


def test_player_before_fork_is_validated():
    with pytest.raises(ConfigError, match=r"grpo\.rollout_warmup_player=dumbot: choose from .*did you mean 'dumbbot'"):
        small_config("grpo.rollout_warmup_player=dumbot")
