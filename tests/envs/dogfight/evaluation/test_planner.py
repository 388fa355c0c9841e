"""The planner: its plans hold against deterministic policies only, and unsupported opponents are rejected."""

import pytest
import torch

from sparring.agents.policies.policy import Policy, PolicyError
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.envs.dogfight.training.opponents.planner import PlannedActions, PlannerPlayer, _score
from sparring.eval.run import main
from tests.envs.dogfight.evaluation.test_released import RELEASED

SETTING = MatchSettings(threads=1)


@pytest.mark.parametrize("left", [True, False])
def test_best_of_sixteen_beats_strong_policy_from_every_start(left):
    """Measured independently: the best of 16 samples won from 60 of 60 starts. One sample wins about half."""
    target = Policy.load(RELEASED / "dogfight_strong.pt")
    planned = PlannerPlayer(16, name="planner").against(target, games=8, seed=3, setting=SETTING, left=left)
    pair = (planned, target) if left else (target, planned)
    won = 1 if left else -1
    first, again = (play(*pair, games=8, seed=3, setting=SETTING).outcome.tolist() for _ in range(2))
    assert first == again == [won] * 8
    elsewhere = play(*pair, games=8, seed=4, setting=SETTING).outcome.tolist()  # the plan is one of other starts
    assert elsewhere.count(won) < 6


def test_result_counts_before_hp():
    """Outcome 0 is a draw, 1 a win of seat 0, 2 of seat 1; hp by seat."""
    outcome, seat = torch.tensor([1, 1, 0, 2]), torch.tensor([0, 1, 0, 1])
    hp = torch.tensor([[3, 0], [3, 0], [2, 4], [0, 5]])
    assert _score(outcome, hp, seat).tolist() == [103, -103, -2, 105]


def test_planned_actions_are_indexed_by_row_and_reset_per_game():
    actions = torch.arange(6.0).view(2, 1, 3)
    opponent = PlannedActions(actions)
    found = [opponent.act(torch.zeros(1, 59)).tolist() for _ in range(3)]
    assert found == [[[0, 1, 2]], [[3, 4, 5]], [[3, 4, 5]]]
    opponent.reseed(0)
    assert opponent.act(torch.zeros(1, 59)).tolist() == [[0, 1, 2]]


def test_opponent_without_weights_is_rejected_in_one_line(capsys):
    with pytest.raises(PolicyError, match="planner plans against the weights of a checkpoint, and ace is not one"):
        PlannerPlayer(4, name="planner").against("ace", games=2, seed=0, setting=SETTING)
    options = ["--games", "2", "--threads", "1", "--device", "cpu"]
    assert main(["--ckpt", "planner:k=4", "--opponents", "held_out:lead", *options]) == 2
    assert "against the weights of a checkpoint, and held_out:lead is not one" in capsys.readouterr().err
    assert main(["--ckpt", "planner:k=2000", "--opponents", "ace", *options]) == 2
    assert "planner:k=2000: k=2000 must be in [2, 1024]" in capsys.readouterr().err
