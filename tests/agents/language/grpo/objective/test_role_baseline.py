"""The running mean baseline of each seat, by hand."""

import pytest
import torch

from sparring.agents.language.grpo.objective.advantages import next_baseline, role_advantages
from sparring.configs.core.errors import ConfigError
from sparring.configs.language import GRPOConfig
from sparring.configs.load import load


def after(before, reward, seat, game):
    whole = (torch.tensor(values, dtype=torch.int64) for values in (seat, game))
    old, paid = (torch.tensor(values, dtype=torch.float64) for values in (before, reward))
    return next_baseline(old, paid, *whole)


def test_two_steps_by_hand():
    # Seat 0 gets 2 and -1, mean 0.5; seat 1 gets -2 and 1, mean -0.5, whatever the number of its decisions.
    first = after([0.0, 0.0], [2.0, -2.0, -2.0, -1.0, 1.0], [0, 1, 1, 0, 1], [0, 0, 0, 1, 1])
    assert first.tolist() == pytest.approx([0.05 * 0.5, 0.05 * -0.5], abs=1e-15)
    second = after(first.tolist(), [1.0, -1.0], [0, 1], [0, 0])
    assert second.tolist() == pytest.approx([0.95 * 0.025 + 0.05, 0.95 * -0.025 - 0.05], abs=1e-15)


def test_rewards_within_game_are_averaged():
    after_one = after([0.0], [1.0, 3.0, 8.0], [0, 0, 0], [0, 0, 1]).tolist()
    assert after_one == pytest.approx([0.05 * 5.0])  # (2 + 8) / 2


def test_seat_without_decision_keeps_mean():
    assert after([4.0, 7.0, -1.0], [2.0], [1], [3]).tolist() == pytest.approx([4.0, 6.75, -1.0])
    assert after([4.0], [], [], []).tolist() == [4.0]


def test_advantages_are_rewards_minus_seat_mean():
    reward, seat = torch.tensor([2.0, -2.0, 3.0], dtype=torch.float64), torch.tensor([0, 1, 0])
    baseline = torch.tensor([0.5, -0.5], dtype=torch.float64)
    result = role_advantages(reward, seat, baseline, GRPOConfig(advantage_clip=2.0))
    assert result.values.tolist() == [1.5, -1.5, 2.0]
    assert result.used.all()
    assert result.metrics["advantage/clipped_count"] == 1.0
    assert result.metrics["processing/effective_batch_size"] == 3.0
    assert (result.metrics["advantage/baseline_0"], result.metrics["advantage/baseline_1"]) == (0.5, -0.5)
    with pytest.raises(ValueError, match="reward of sample 0 is nan"):
        role_advantages(reward * torch.nan, seat, baseline, GRPOConfig())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["grpo.baseline=role"], "grpo.baseline=role: does not divide by the spread of a group; give grpo.scale"),
        (["grpo.baseline=seat"], "grpo.baseline=seat: choose from group, role"),
    ],
)
def test_incompatible_options_are_rejected(options, message):
    with pytest.raises(ConfigError) as refused:
        load(["+run=diplomacy_quickstart", *options])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
