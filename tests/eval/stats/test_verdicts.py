"""Idle runs, random play and empty files pass none of the product's verdicts.

The overfit check is in tests/agents/language/grpo/overfit, the verdicts of `compare` in tests/eval/analysis/reports.
"""

import math

import numpy as np
import pytest

from sparring.curriculum.sprt import Hypotheses, judge
from sparring.eval.analysis import sweep_analysis
from sparring.eval.analysis.run_commands import check
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sweeps.criteria import read_criterion
from sparring.eval.analysis.sweeps.sweep_folder import DONE
from sparring.eval.stats.requirements import Requirement
from sparring.eval.stats.tables import MatchRecord


def drawn(rng, *, games, chance, opponent="ace"):
    wins = int(rng.binomial(games, chance))
    counts = ((wins, 0, 0), (0, 0, games - wins))
    return MatchRecord("still", opponent, "none", counts, 1.0, 1.0, 1.0, (games // 2, 0, 0, 0, 0))


@pytest.mark.parametrize("asked", ["ace>=0.95", "mean>=0.95", "worst@none>=0.6", "ace>=0"])
def test_zero_games_meet_no_requirement(asked):
    assert Requirement.parse(asked).failures([]) != []


@pytest.mark.parametrize("asked", ["ace>=0.95", "mean>=0.95", "worst@none>=0.6"])
def test_equal_players_meet_no_strength_requirement(asked):
    rng = np.random.default_rng(0)
    records = [
        [drawn(rng, games=400, chance=0.5), drawn(rng, games=400, chance=0.5, opponent="chaser")] for _ in range(200)
    ]
    assert all(Requirement.parse(asked).failures(one) for one in records)


@pytest.mark.parametrize("elo1", [20.0, 50.0])
def test_unchanged_policy_is_promoted_at_stated_error_rate(elo1):
    """The sequential test of --sprt and `self_play.promotion`: 400 matches of equal players, a quarter draws."""
    rng, hypotheses, accepted = np.random.default_rng(1), Hypotheses(0.0, elo1), 0
    for _ in range(400):
        pairs = np.zeros(5, np.int64)
        for _ in range(60):
            halves = rng.choice([0, 1, 2], p=[0.375, 0.25, 0.375], size=(50, 2)).sum(axis=1)
            pairs += np.bincount(halves, minlength=5)
            verdict = judge(pairs.tolist(), hypotheses)
            if verdict.accepted:
                break
        accepted += verdict.accepted == "H1"
    assert accepted / 400 <= hypotheses.alpha + 2 * math.sqrt(hypotheses.alpha * (1 - hypotheses.alpha) / 400)


@pytest.mark.parametrize("pairs", [(0, 0, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 0, 1), (0, 0, 500, 0, 0)])
def test_zero_games_single_pair_and_draws_promote_nobody(pairs):
    verdict = judge(pairs, Hypotheses(0.0, 20.0))
    assert verdict.accepted != "H1"
    assert sum(pairs) or math.isnan(verdict.elo)


@pytest.mark.parametrize(
    "text",
    [
        "every run: count(guard/rollbacks) < 1",
        "every run: final(rollout/reward) > 0",
        "some run: change(rollout/reward) > 0",
        "every run: max(kl/mean) < 0.5",
    ],
)
def test_sweep_of_idle_runs_meets_no_criterion(text):
    def figures(rows):
        seeds = tuple(sweep_analysis.SweepSeed(f"s-{seed}", "a", seed, DONE, rows) for seed in (1, 2))
        return [sweep_analysis.RunFigures("a", "", seeds, {})]

    criterion = read_criterion(text)
    assert sweep_analysis.judge(criterion, figures([])).state == sweep_analysis.OPEN
    if "reward" in text:
        still = [{"env_steps": step, "rollout/reward": 0.0} for step in range(1, 50)]
        assert sweep_analysis.judge(criterion, figures(still)).state == sweep_analysis.MISSED


@pytest.mark.parametrize(
    "files", [{}, {"metrics.jsonl": ""}, {"metrics.jsonl": "\n"}, {"metrics.jsonl": "{}\n"}], ids=str
)
def test_run_without_rows_is_not_healthy(tmp_path, files):
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "config.yaml").write_text("seed: 1\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    source = RunFolders(tmp_path)
    assert check(source.record("empty"), source.history("empty"))["health"] != "ok"
