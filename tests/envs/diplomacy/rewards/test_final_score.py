"""Score of a position at the end of a trajectory, against sums done by hand."""

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.rewards.sample_rewards import RewardRules, final_scores, ranks, sole_leader
from tests.envs.diplomacy.scenes import unit_row


def held(*counts):
    """Return owners [1, 34] with so many centres each; the others are unowned."""
    powers = [power for power, count in enumerate(counts) for _ in range(count)]
    return torch.tensor([powers + [-1] * (34 - len(powers))])


def ended(owner, dislodged=None, **units):
    rows = {"units": torch.tensor(unit_row(units)).unsqueeze(0), "owner": owner}
    return rows | {"dislodged": torch.tensor(unit_row(dislodged or {})).unsqueeze(0)}


def by_power(scores):
    return dict(zip((power.lower() for power in POWERS), scores[0].tolist(), strict=True))


MIDDLE = ended(
    held(3, 0, 1, 0, 3),
    {"germany": "A MUN"},
    austria="A VIE, A TYR, F ADR",
    italy="A VEN, F ION",
    england="F NTH",
)
# Austria 3 centres, 3 units, 2 of them abroad; Italy 3, 2 and 1. Both are first, and France third with one centre.
# England has a unit abroad and Germany one that has to retreat: both live, fourth with no centre. Two are gone.


def test_places_and_holdings_by_hand():
    found = by_power(final_scores(MIDDLE, RewardRules()))
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


def test_without_position_scoring_the_same_without_places_and_a_smaller_loss():
    found = by_power(final_scores(MIDDLE, RewardRules(use_position_scoring=False, winner_threshold_sc=3)))
    assert [found[name] for name in ("austria", "italy", "france")] == pytest.approx([7.3, 7.0, 2.5])
    assert [found[name] for name in ("england", "germany", "russia", "turkey")] == pytest.approx([0.8, 0.5, -1, -1])


def test_ties_share_the_better_place():
    assert ranks(held(5, 5, 3, 3, 3, 1, 0)).tolist() == [[1, 1, 3, 3, 3, 6, 7]]
    assert ranks(held(1, 2, 3, 4, 5, 6, 7)).tolist() == [[7, 6, 5, 4, 3, 2, 1]]
    found = final_scores(ended(held(5, 5, 3, 3, 3, 1, 0)), RewardRules())[0]
    centres = torch.tensor([5, 5, 3, 3, 3, 1])
    assert (found[:6] - 2 * centres - 0.5).tolist() == pytest.approx([50, 50, 15, 15, 15, 2])
    assert found[6] == -30  # neither unit nor centre


@pytest.mark.parametrize(("centres", "bonus"), [(17, 0.0), (18, 20.0), (20, 20.0)])
def test_with_position_scoring_it_takes_a_solo_to_win(centres, bonus):
    rules = RewardRules(win_bonus=20.0, winner_threshold_sc=5)
    found = final_scores(ended(held(2, centres, 10)), rules)[0]
    assert found[:3].tolist() == pytest.approx([4.5 + 15, 2 * centres + 0.5 + 50 + bonus, 20.5 + 25])


@pytest.mark.parametrize(
    ("counts", "winner"),
    [((3, 7, 6), 1), ((3, 6, 5), None), ((7, 3, 7), None), ((0, 0, 0, 0, 0, 0, 8), 6), ((20, 3), 0)],
)
def test_without_it_a_sole_leader_with_enough_centres_wins(counts, winner):
    assert sole_leader(held(*counts), 7).tolist() == [[power == winner for power in range(7)]]
    rules = RewardRules(use_position_scoring=False, winner_threshold_sc=7)
    found = final_scores(ended(held(*counts)), rules)[0]
    for power, count in enumerate(counts):
        alone = 2.0 * count + 0.5 if count else -1.0
        assert found[power] == pytest.approx(alone + 50.0 * (power == winner))


def test_many_games_are_scored_like_each_alone():
    games = [MIDDLE, ended(held(18, 3, 3), russia="A MOS"), ended(held(4, 4))]
    together = final_scores({name: torch.cat([game[name] for game in games]) for name in MIDDLE}, RewardRules())
    assert together.dtype == torch.float64
    assert torch.equal(together, torch.cat([final_scores(game, RewardRules()) for game in games]))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"winner_threshold_sc": 0}, r"winner_threshold_sc=0: must be in \[1, 34\]"),
        ({"reward_discount_gamma": 1.5}, r"reward_discount_gamma=1\.5: must be in \[0, 1\]"),
        ({"win_bonus": float("nan")}, r"win_bonus=nan: must be in \[0, 1e\+06\]"),
        ({"elo_scale": -0.5}, r"elo_scale=-0\.5: must be in \[0, 1e\+06\]"),
    ],
)
def test_rules_out_of_range_are_refused_by_name(option, message):
    with pytest.raises(InputError, match=message):
        RewardRules(**option)
