"""Trap 18: ratings reach the reward in Elo points, and conditioning matters only where opponents differ."""

import torch

from sparring.agents.language.grpo.objective.advantages import advantages
from sparring.agents.language.grpo.rollouts.rollout import draw_plan
from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.league import CHALLENGER, new_league, record
from sparring.curriculum.ratings import GameResult
from sparring.envs.diplomacy.rewards.sample_rewards import elo_reward
from tests.agents.language.grpo.rollouts.small_games import bots_everywhere

HERO = 0


def owners(*counts):
    """Return centres int32 [G, 34] of games that ended with `counts` for the first power, the rest shared."""
    rest = torch.arange(34) % 6 + 1
    return torch.stack([torch.where(torch.arange(34) < count, HERO, rest) for count in counts])


def compared(ratings):
    """Return the first power's advantages in four games of one group, by placement with ratings [4, 7]."""
    paid = elo_reward(owners(1, 4, 8, 20), ratings, 0.5)[:, HERO]
    return advantages(paid, torch.zeros(4, dtype=torch.int64), GRPOConfig()).values


def test_trap_18_only_rating_difference_within_group_matters():
    equal = torch.full((4, 7), 1000.0)
    stronger, mixed = equal.clone(), equal.clone()
    stronger[:, 1:] += 300
    mixed[0, 1:] += 300
    assert torch.allclose(compared(stronger), compared(equal), atol=1e-9)
    change = compared(mixed) - compared(equal)
    assert change[0] > 0.1  # the same last place was the better one to get
    assert (change[1:] < 0).all()


def test_trap_18_plan_has_elo_by_seat(tmp_path):
    """Bayesian ratings are about 25 for every player, so every expected place would be the fourth."""
    league = new_league(("random", "chaos", "dumbbot"), "toy")
    for _ in range(20):
        league = record(league, [GameResult(("dumbbot", CHALLENGER, "random"), (1, 2, 3))])
    draw = {"draw": bots_everywhere, "league": league, "seed": 1}
    (group, *_) = draw_plan(GRPOConfig(), seats=7, step=0, policy_version=0, **draw).groups
    assert group.ratings == tuple(league[name].elo for name in group.players)
    assert max(group.ratings) - min(group.ratings) > 100
