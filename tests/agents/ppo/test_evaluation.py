"""Evaluations during training, and metrics of rollouts and the curriculum."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import MatchTally
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo import evaluation as module
from sparring.agents.ppo.evaluation import BotEvaluation
from sparring.agents.ppo.self_play import curriculum_metrics, rollout_metrics
from sparring.agents.ppo.tasks.league_task import LeagueTask
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import EvaluationConfig, NetworkConfig, PhaseConfig, RandomizationConfig, StageConfig
from sparring.curriculum.schedule import Schedule
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import BOTS, REGIMES, ranges
from sparring.envs.dogfight.training.matches import MatchResults, MatchSettings

PHYSICS = {regime: ranges(regime) for regime in REGIMES}


def results(wins, games=10):
    """Return this many wins, one draw if possible, and losses."""
    outcome = np.array([1] * wins + [0] * (games > wins) + [-1] * (games - wins - 1))[:games]
    hp = np.maximum(outcome, 0) * 4
    return MatchResults(outcome, np.full(games, 600), hp, 4 - hp, np.zeros(games), 0)


@pytest.fixture
def played(monkeypatch):
    """Stand in for `play`: record the request and answer with the next number of wins in `wins`."""
    calls = []

    def play(left, right, **options):
        calls.append((right, options))
        play.policies.append(left)
        return results(play.wins.pop(0) if play.wins else 5)

    play.wins, play.calls, play.policies = [], calls, []
    monkeypatch.setattr(module, "play", play)
    return play


def make_checks(said=None, **options):
    config = EvaluationConfig(**{"games": 10, "check_bot": "ace", **options})
    return BotEvaluation(config, MatchSettings(threads=1), PHYSICS, (said if said is not None else []).append, seed=7)


def after(checks, update, bots=("ace", "brawler")):
    network = ActorCritic(59, 2, 1, NetworkConfig(hidden=4))
    return checks.after(update, network, {"obs_dim": 59}, bots)


def test_each_check_has_own_interval(played):
    checks = make_checks(every=4, check_every=2, regimes_every=8)
    keys = [set(after(checks, update)) for update in range(8)]
    guard = {"guard/check_win_rate", "guard/check_alert"}
    assert [bool(guard & found) for found in keys] == [False, True] * 4
    assert ["eval/brawler/win_rate" in found for found in keys] == [False, False, False, True] * 2
    assert ["eval/ace/sniper/win_rate" in found for found in keys] == [False] * 7 + [True]


def test_no_check_runs_by_default(played):
    checks = BotEvaluation(EvaluationConfig(), MatchSettings(threads=1), PHYSICS, print, seed=0)
    assert [after(checks, update) for update in range(200)] == [{}] * 200
    assert played.calls == []


def test_check_reports_rates_score_length_and_hp(played):
    played.wins[:] = [7, 10]
    metrics = after(make_checks(every=1), 0)
    rates = ("win_rate", "draw_rate", "loss_rate", "score", "length", "hp")
    assert [metrics[f"eval/ace/{rate}"] for rate in rates] == [0.7, 0.1, 0.2, 0.75, 600.0, 2.8]
    assert [metrics[f"eval/brawler/{rate}"] for rate in rates] == [1.0, 0.0, 0.0, 1.0, 600.0, 4.0]
    assert len(metrics) == 12


def test_each_check_plays_new_and_even_number_of_matches(played):
    checks = make_checks(every=1, games=11)
    for update in range(3):
        after(checks, update, bots=["ace"])
    assert [options["seed"] for _, options in played.calls] == [7, 8, 9]
    assert {options["games"] for _, options in played.calls} == {12}


def test_regimes_are_played_in_their_physics(played):
    metrics = after(make_checks(regimes_every=1), 0)
    assert set(metrics) == {f"eval/ace/{regime}/win_rate" for regime in REGIMES}
    for regime, (bot, options) in zip(REGIMES, played.calls, strict=True):
        assert bot == "ace"
        assert (options["setting"].ranges == ranges(regime)).all()


def test_alert_needs_prior_high_and_fires_once_per_drop(played):
    said = []
    checks = make_checks(said, check_every=1)
    played.wins[:] = [3, 8, 7, 6, 9, 2]
    alerts = [after(checks, update)["guard/check_alert"] for update in range(6)]
    assert alerts == [0, 0, 1, 1, 0, 1]
    assert said == [
        "after update 2 it wins 70% against ace, below 80% reached before",
        "after update 5 it wins 20% against ace, below 80% reached before",
    ]


def test_check_plays_games_of_its_bot():
    batch = DogfightBatch(1, threads=1)
    network = ActorCritic(59, 2, 1, NetworkConfig(hidden=4))
    config, setting = EvaluationConfig(every=1, games=2), MatchSettings(threads=1, max_ticks=300)
    checks = BotEvaluation(config, setting, PHYSICS, print, seed=0)
    metrics = checks.after(0, network, batch.contract, ["do_nothing"])
    assert metrics["eval/do_nothing/length"] == 300.0
    assert metrics["eval/do_nothing/draw_rate"] == 1.0


def test_evaluated_policy_does_not_sample(played):
    """A policy with large spread acts by its mean and likelier side, equally on every call."""
    after(make_checks(every=1, check_every=1, regimes_every=1), 0, bots=["ace"])
    assert len(played.policies) == 2 + len(PHYSICS)
    obs = torch.randn(64, 59, generator=torch.Generator().manual_seed(0))
    for policy in played.policies:
        mean = policy.network.actor(obs)
        assert torch.equal(policy.act(obs)[:, :2], mean[:, :2])
        assert torch.equal(policy.act(obs)[:, 2] > 0.5, mean[:, 2] > 0)


def test_equal_score_counts_as_improvement(played):
    """The later policy has met more bots; a worse one does not count."""
    checks = make_checks(every=1)
    played.wins[:] = [5, 5, 5, 5, 4, 5, 5, 6]
    improved = []
    for update in range(4):
        after(checks, update)
        improved.append(checks.improved)
    assert improved == [True, True, False, True]


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
    assert metrics["rollout/selfplay/score"] == 0.75  # won one of two, drew the other
    assert metrics["rollout/ace/length"] == 1000.0
    assert metrics["rollout/ace/hp"] == 2.5
    assert metrics["rollout/ace/return"] == 2.0
    assert metrics["rollout/selfplay/win_rate"] == metrics["rollout/selfplay/draw_rate"] == 0.5
    assert metrics["rollout/selfplay/length"] == 300.0
    assert metrics["rollout/win_rate"] == pytest.approx(4 / 6)
    assert not [key for key in metrics if "brawler" in key]


def test_no_finished_match_gives_no_rates():
    assert rollout_metrics(tally({}), BOTS) == {"rollout/matches": 0.0}


def test_shares_include_self_play_and_randomization_is_number():
    levels = [RandomizationConfig(level="narrow"), RandomizationConfig(at=1, level="full", over=2, steps=2)]
    stages = [StageConfig(bots=["do_nothing", "ace"])]
    options = {"scripted_start": 0.4, "scripted_end": 0.4, "randomization": levels}
    schedule = Schedule([PhaseConfig("selfplay", 3, stages=stages, **options)])
    rows = [curriculum_metrics(schedule.plan(update, {}), {"ace": 0.9}) for update in range(3)]
    narrow, between, full = (row["curriculum/randomization"] for row in rows)
    assert 0.45 < narrow < 0.55 < between < 0.8
    assert full == pytest.approx(1.0)
    assert rows[0]["curriculum/ace/share"] == pytest.approx(0.2)
    assert rows[0]["curriculum/ace/win_rate"] == 0.9
    assert "curriculum/do_nothing/win_rate" not in rows[0]


def test_game_without_evaluations_names_option():
    config = SimpleNamespace(evaluation=EvaluationConfig(every=5), env=SimpleNamespace(id="mine/Game-v0"))
    task = SimpleNamespace(config=config)
    with pytest.raises(ConfigError, match=r"evaluation\.every=5: mine/Game-v0 .*; set evaluation\.every=0"):
        LeagueTask.measured(task, None, None, 0)
