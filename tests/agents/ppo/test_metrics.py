"""Metrics by hand: shares of the games that finished, per opponent and over all, and nothing where none did."""

import numpy as np
import pytest

from sparring.agents.play.learner_env import MatchTally
from sparring.agents.ppo.tasks.dogfight import curriculum_metrics, rollout_metrics
from sparring.configs.schema import PhaseConfig, RandomizationConfig, StageConfig
from sparring.curriculum.schedule import Schedule, SchedulePosition
from sparring.envs.dogfight.rules import BOTS


def tally(rows):
    """`rows`: opponent index -> wins, draws, losses, and sums of length, hp and returns; two slots."""
    table = np.zeros((len(BOTS) + 2, 6))
    for opponent, row in rows.items():
        table[opponent] = row
    wins, draws, losses, length, hp, returns = table.T
    return MatchTally(wins, draws, losses, {"length": length, "hp": hp}, returns)


def test_rates_and_means_are_per_finished_match():
    rows = {3: (3, 0, 1, 4000, 10, 8.0), 5: (0, 1, 0, 600, 2, -1.0), 6: (1, 0, 0, 0, 0, 0)}
    metrics = rollout_metrics(tally(rows), BOTS)
    assert metrics["rollout/matches"] == 6.0
    assert metrics["rollout/ace/win_rate"] == 0.75
    assert metrics["rollout/ace/loss_rate"] == 0.25
    assert metrics["rollout/ace/length"] == 1000.0
    assert metrics["rollout/ace/hp"] == 2.5
    assert metrics["rollout/ace/return"] == 2.0
    assert metrics["rollout/selfplay/win_rate"] == metrics["rollout/selfplay/draw_rate"] == 0.5
    assert metrics["rollout/selfplay/length"] == 300.0
    assert metrics["rollout/win_rate"] == pytest.approx(4 / 6)
    assert not [key for key in metrics if "brawler" in key]


def test_no_match_finished_means_no_rates():
    assert rollout_metrics(tally({}), BOTS) == {"rollout/matches": 0.0}


def test_shares_count_self_play_and_randomization_is_a_number():
    levels = [RandomizationConfig(level="narrow"), RandomizationConfig(at=1, level="full", over=2, steps=2)]
    stages = [StageConfig(bots=["do_nothing", "ace"])]
    options = {"scripted_start": 0.4, "scripted_end": 0.4, "randomization": levels}
    schedule = Schedule([PhaseConfig("selfplay", 3, stages=stages, **options)])
    rows = [
        curriculum_metrics(schedule.plan(SchedulePosition(update, update, update), {}), {"ace": 0.9})
        for update in range(3)
    ]
    narrow, between, full = (row["curriculum/randomization"] for row in rows)
    assert 0.45 < narrow < 0.55 < between < 0.8
    assert full == pytest.approx(1.0)
    assert rows[0]["curriculum/ace/share"] == pytest.approx(0.2)
    assert rows[0]["curriculum/ace/win_rate"] == 0.9
    assert "curriculum/do_nothing/win_rate" not in rows[0]
