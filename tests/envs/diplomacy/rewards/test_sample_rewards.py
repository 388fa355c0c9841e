"""Rewards of language-model decisions and final scores, against hand calculations."""

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.rewards.sample_rewards import (
    balance_bonus,
    discounted,
    elo_reward,
    expected_ranks,
    final_scores,
    leader_gap,
    ranks,
    sample_rewards,
    sole_leader,
)
from tests.envs.diplomacy.scenes import unit_row

OWNER = torch.tensor([[0] * 10 + [1] * 7 + [2] * 6 + [3] * 1 + [-1] * 10])
NO_UNITS = torch.zeros((1, 75), dtype=torch.uint8)
END = {"units": NO_UNITS, "dislodged": NO_UNITS, "owner": OWNER}
# Of 10, 7, 6 and 1 centres the mean is 6 and the standard deviation sqrt((16 + 1 + 0 + 25) / 4).
BALANCE = 1 - 10.5**0.5 / 6
# Alive with 0.5, 2 for a centre, and by place 50, 25, 15, 10; three are eliminated.
SCORES = [70.5, 39.5, 27.5, 12.5, -30.0, -30.0, -30.0]
GAPS = [0.0, 0.0, -1 / 18, -6 / 18, -7 / 18, -7 / 18, -7 / 18]
TERMS = [0.3 * gap + 0.2 * (BALANCE if power else 0.0) for power, gap in enumerate(GAPS)]
EQUAL = torch.full((1, 7), 1000.0)


def earned(*phases):
    """Return step rewards [T, 1, 7] with the given values for the first power, doubled for the second."""
    steps = torch.zeros(len(phases), 1, 7, dtype=torch.float64)
    steps[:, 0, 0], steps[:, 0, 1] = torch.tensor(phases), 2 * torch.tensor(phases)
    return steps


def test_trailing_leader_by_over_three_centres_costs():
    assert leader_gap(OWNER)[0].tolist() == pytest.approx(GAPS)
    assert (leader_gap(OWNER) <= 0).all()


def test_balance_is_paid_to_non_leaders():
    assert balance_bonus(OWNER)[0].tolist() == pytest.approx([0.0] + [BALANCE] * 6)
    tied = torch.tensor([[0] * 5 + [1] * 5 + [2] * 2 + [-1] * 22])
    assert balance_bonus(tied)[0].tolist() == pytest.approx([0, 0] + [1 - 2**0.5 / 4] * 5)


@pytest.mark.parametrize(
    ("gamma", "expected"), [(0.0, [1.0, 2.0, 4.0]), (0.5, [1 + 1 + 1, 2 + 2, 4]), (1.0, [7.0, 6.0, 4.0])]
)
def test_later_steps_are_discounted_by_phase(gamma, expected):
    steps = earned(1.0, 2.0, 4.0)
    assert discounted(steps, gamma)[:, 0, 0].tolist() == pytest.approx(expected)
    assert steps[:, 0, 0].tolist() == [1.0, 2.0, 4.0]


def test_dense_rewards_by_hand():
    steps = earned(1.0, -2.0)
    found = sample_rewards(steps, END, GRPOConfig(reward_discount_gamma=0.9))
    late = [0.2 * score + terms for score, terms in zip(SCORES, TERMS, strict=True)]
    assert found[0, 0].tolist() == pytest.approx([late[0] + 0.8 * -0.8, late[1] + 0.8 * -1.6, *late[2:]])
    assert found[1, 0].tolist() == pytest.approx([late[0] - 0.8 * 2.0, late[1] - 0.8 * 4.0, *late[2:]])
    # The immediate step alone, unless told otherwise.
    assert sample_rewards(steps, END, GRPOConfig())[0, 0, 0] == pytest.approx(late[0] + 0.8 * 1.0)


def test_sparse_rewards_are_equal_for_every_decision():
    rules = GRPOConfig(use_trajectory_level_rewards=True)
    found = sample_rewards(earned(1.0, -2.0, 5.0), END, rules)
    assert found.shape == (3, 1, 7)
    for phase in found:
        expected = [score + terms for score, terms in zip(SCORES, TERMS, strict=True)]
        assert phase[0].tolist() == pytest.approx(expected)


def test_expected_places_by_hand():
    assert expected_ranks(EQUAL)[0].tolist() == pytest.approx([4.0] * 7)
    # 400 points are odds of ten to one: against six such opponents 7 - 6 * 10 / 11, and 7 - 1 / 11 - 5 / 2 for them.
    ahead = torch.tensor([[1400.0, 1000, 1000, 1000, 1000, 1000, 1000]])
    assert expected_ranks(ahead)[0].tolist() == pytest.approx([7 - 60 / 11] + [4.5 - 1 / 11] * 6)
    assert expected_ranks(torch.tensor([[900.0, 1234, 1000, 555, 1001, 2000, 1e9]])).sum() == pytest.approx(28.0)


def test_elo_conditioning_pays_for_better_than_expected_places():
    ratings = torch.tensor([[1400.0, 1000, 1000, 1000, 1000, 1000, 1000]])
    places = [1, 2, 3, 4, 5, 5, 5]
    expected = [7 - 60 / 11] + [4.5 - 1 / 11] * 6
    for scale in (0.5, 2.0):
        worth = [2 * scale * (hoped - place) for hoped, place in zip(expected, places, strict=True)]
        assert elo_reward(OWNER, ratings, scale)[0].tolist() == pytest.approx(worth)
    for sparse in (False, True):
        without = sample_rewards(earned(1.0, 2.0), END, GRPOConfig(use_trajectory_level_rewards=sparse))
        rules = GRPOConfig(use_elo_conditioned_rewards=True, use_trajectory_level_rewards=sparse)
        change = sample_rewards(earned(1.0, 2.0), END, rules, ratings=ratings) - without
        assert [phase[0].tolist() for phase in change] == [pytest.approx([part / 4 for part in worth])] * 2


def test_stronger_opponents_raise_value_of_same_place():
    stronger, weaker = EQUAL.clone(), EQUAL.clone()
    stronger[0, 1:], weaker[0, 1:] = 1200.0, 800.0
    found = [float(elo_reward(OWNER, ratings, 0.5)[0, 0]) for ratings in (weaker, EQUAL, stronger)]
    assert found == sorted(found)
    assert found[2] - found[0] > 2.0


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (None, r"ratings: missing; Elo-conditioned rewards need one per power, \(1, 7\)"),
        (torch.full((7,), 1000.0), r"ratings: of shape \(7,\); .* need one per power, \(1, 7\)"),
        (torch.full((1, 7), float("nan")), "ratings: not all are finite; give Elo points"),
    ],
)
def test_unusable_ratings_are_rejected(ratings, message):
    with pytest.raises(InputError, match=message):
        sample_rewards(earned(1.0), END, GRPOConfig(use_elo_conditioned_rewards=True), ratings=ratings)


def test_own_decision_discount_skips_other_phases():
    """The second of three phases is not the first power's: 1 + 0.5 * 4, and 4."""
    steps = earned(1.0, 2.0, 4.0)
    decided = torch.ones(3, 1, 7, dtype=torch.bool)
    decided[1, 0, 0] = False
    rules = {"reward_discount_gamma": 0.5, "final_reward_weight": 0.0, "balance_bonus_weight": 0.0}
    rules |= {"leader_gap_penalty_weight": 0.0, "step_reward_weight": 1.0}
    own = sample_rewards(steps, END, GRPOConfig(reward_discount_per="decision", **rules), decided=decided)
    assert own[[0, 2], 0, 0].tolist() == [3.0, 4.0]
    assert own[:, 0, 1].tolist() == [2 + 2 + 2, 4 + 4, 8]
    whole = sample_rewards(steps, END, GRPOConfig(**rules), decided=decided)
    assert whole[:, 0, 0].tolist() == [1 + 1 + 1, 2 + 2, 4]


def test_score_weights_are_options():
    rules = GRPOConfig(
        step_reward_weight=0.2, final_reward_weight=0.8, leader_gap_penalty_weight=0.0, balance_bonus_weight=0.0
    )
    assert sample_rewards(earned(5.0), END, rules)[0, 0, :2].tolist() == pytest.approx(
        [0.2 * 5 + 0.8 * SCORES[0], 0.2 * 10 + 0.8 * SCORES[1]]
    )


def held(*counts):
    """Return owners [1, 34] with this many centres each; the rest are unowned."""
    powers = [power for power, count in enumerate(counts) for _ in range(count)]
    return torch.tensor([powers + [-1] * (34 - len(powers))])


def ended(owner, dislodged=None, **units):
    rows = {"units": torch.tensor(unit_row(units)).unsqueeze(0), "owner": owner}
    return rows | {"dislodged": torch.tensor(unit_row(dislodged or {})).unsqueeze(0)}


def by_power(scores):
    return dict(zip((power.lower() for power in POWERS), scores[0].tolist(), strict=True))


MIDDLE = ended(
    held(3, 0, 1, 0, 3), {"germany": "A MUN"}, austria="A VIE, A TYR, F ADR", italy="A VEN, F ION", england="F NTH"
)
# Austria 3 centres, 3 units, 2 of them abroad; Italy 3, 2 and 1. Both are first, and France third with one centre.
# England has a unit abroad and Germany one that has to retreat: both live, fourth with no centre. Two are gone.


def test_places_and_holdings_by_hand():
    found = by_power(final_scores(MIDDLE, GRPOConfig()))
    assert found == pytest.approx(
        {
            "austria": 6 + 0.6 + 0.2 + 0.5 + 50,
            "italy": 6 + 0.4 + 0.1 + 0.5 + 50,
            "france": 2 + 0.5 + 15,
            "england": 0.2 + 0.1 + 0.5 + 10,
            "germany": 0.5 + 10,
            "russia": -30,
            "turkey": -30,
        }
    )


def test_without_position_scoring_places_do_not_count():
    found = by_power(final_scores(MIDDLE, GRPOConfig(use_position_scoring=False, winner_threshold_sc=3)))
    assert [found[name] for name in ("austria", "italy", "france")] == pytest.approx([7.3, 7.0, 2.5])
    assert [found[name] for name in ("england", "germany", "russia", "turkey")] == pytest.approx([0.8, 0.5, -1, -1])


def test_ties_share_better_place():
    assert ranks(held(5, 5, 3, 3, 3, 1, 0)).tolist() == [[1, 1, 3, 3, 3, 6, 7]]
    assert ranks(held(1, 2, 3, 4, 5, 6, 7)).tolist() == [[7, 6, 5, 4, 3, 2, 1]]
    found = final_scores(ended(held(5, 5, 3, 3, 3, 1, 0)), GRPOConfig())[0]
    centres = torch.tensor([5, 5, 3, 3, 3, 1])
    assert (found[:6] - 2 * centres - 0.5).tolist() == pytest.approx([50, 50, 15, 15, 15, 2])
    assert found[6] == -30  # neither unit nor centre


@pytest.mark.parametrize(("centres", "bonus"), [(17, 0.0), (18, 20.0), (20, 20.0)])
def test_position_scoring_requires_solo_to_win(centres, bonus):
    rules = GRPOConfig(win_bonus=20.0, winner_threshold_sc=5)
    found = final_scores(ended(held(2, centres, 10)), rules)[0]
    assert found[:3].tolist() == pytest.approx([4.5 + 15, 2 * centres + 0.5 + 50 + bonus, 20.5 + 25])


@pytest.mark.parametrize(
    ("counts", "winner"),
    [((3, 7, 6), 1), ((3, 6, 5), None), ((7, 3, 7), None), ((0, 0, 0, 0, 0, 0, 8), 6), ((20, 3), 0)],
)
def test_sole_leader_with_enough_centres_wins_otherwise(counts, winner):
    assert sole_leader(held(*counts), 7).tolist() == [[power == winner for power in range(7)]]
    rules = GRPOConfig(use_position_scoring=False, winner_threshold_sc=7)
    found = final_scores(ended(held(*counts)), rules)[0]
    for power, count in enumerate(counts):
        alone = 2.0 * count + 0.5 if count else -1.0
        assert found[power] == pytest.approx(alone + 50.0 * (power == winner))


def test_many_games_are_scored_like_each_alone():
    games = [MIDDLE, ended(held(18, 3, 3), russia="A MOS"), ended(held(4, 4))]
    together = final_scores({name: torch.cat([game[name] for game in games]) for name in MIDDLE}, GRPOConfig())
    assert together.dtype == torch.float64
    assert torch.equal(together, torch.cat([final_scores(game, GRPOConfig()) for game in games]))
