"""Figures from public run reports, as curves: which rule fires for each, or none.

The six that were not told at first, and what surrounds them, are in test_symptoms.py.
"""

import numpy as np
import pytest

from benchmarks.run_analysis.symptoms import REWARD, around, rules_fired

NORM, SKIPPED, SHARE = "benchmark/grad_norm", "processing/skip_rate", "loss/kl_share"


def random(seed):
    return np.random.default_rng(seed)


def peak(value, steps=30, usual=0.5):
    """Return a maximum that is usual except in one middle step."""
    return np.where(np.arange(steps) == steps // 2, value, np.minimum(usual, value))


def mean_kl(value, steps=30):
    return np.maximum(around(random(1), np.full(steps, value), 0.15 * value), 0)


def win_rate(values):
    return {"curriculum/ace/win_rate": np.clip(around(random(2), np.asarray(values, dtype=float), 0.02), 0, 1)}


TOLD = {
    "exp 1: reward 14 to 8 in 8 steps": ("reward_collapse", {REWARD: np.linspace(14, 8, 8)}),
    "exp 7: KL peaks up to 392,000": ("kl_max_high", {"kl/max": peak(392e3, 250)}),
    "dogfight: KL of 8 in one step": ("kl_high", {"train/approx_kl": peak(8, 300, 0.01)}),
    "dogfight: KL of 24 in one step": ("kl_high", {"train/approx_kl": peak(24, 75, 0.01)}),
    "exp 7: the same, over within 5 steps": (
        "kl_spikes", {"kl/max": np.where(np.arange(250) % 60 > 55, 392e3, 2.0)},
    ),
    "exp 7: gradient norm 3.7 to 34.5": (
        "gradient_growth", {NORM: np.geomspace(3.7, 34.5, 250) * np.exp(random(3).normal(0, 0.3, 250))},
    ),
    "exp 7: reward 3.60 to 3.46": ("reward_flat", {REWARD: around(random(4), np.linspace(3.60, 3.46, 250), 0.2)}),
    "exp 9 H: KL max 137.1": ("kl_max_high", {"kl/max": peak(137.1)}),
    "exp 11 A: KL mean 0.44": ("kl_to_reference_high", {"kl/mean": mean_kl(0.44)}),
    "exp 11 A: KL max 51": ("kl_max_high", {"kl/max": peak(51)}),
    "exp 11 B: KL mean 0.95": ("kl_to_reference_high", {"kl/mean": mean_kl(0.95)}),
    "exp 11 B: KL max 176": ("kl_max_high", {"kl/max": peak(176)}),
    "exp 11 C: KL mean 1.05": ("kl_to_reference_far", {"kl/mean": mean_kl(1.05)}),
    "exp 11 C: KL max 496": ("kl_max_high", {"kl/max": peak(496)}),
    "exp 11 D: KL mean 0.58": ("kl_to_reference_high", {"kl/mean": mean_kl(0.58)}),
    "exp 11 D: KL max 39": ("kl_max_high", {"kl/max": peak(39)}),
    "exp 12 A: KL max 1,598": ("kl_max_high", {"kl/max": peak(1598, 40)}),
    "exp 12 B: KL max 129,633": ("kl_max_high", {"kl/max": peak(129_633, 100)}),
    "r1: identical answers": ("groups_without_signal", {SKIPPED: np.full(50, 0.8)}),
    "r2: KL share 90 to 100 %": (
        "kl_penalty_dominates", {SHARE: random(5).uniform(0.9, 1, 50), REWARD: random(6).normal(0.4, 0.02, 50)},
    ),
    "r2: gradient norms with spikes": ("gradient_spikes", {NORM: np.where(np.arange(50) % 12 > 10, 90.0, 1.0)}),
    "dogfight: win rate of 19 % at the end": ("win_rate_plateau", win_rate(np.full(300, 0.19))),
    "dogfight: flat between 10 and 20 %": ("win_rate_plateau", win_rate(0.15 + 0.04 * np.sin(np.arange(300)))),
    "dogfight: win rate 0, 100 and 0 %": ("bot_forgotten", win_rate([0] * 10 + [1] * 60 + [0] * 60)),
}  # fmt: skip
"""The rule that tells a figure, and the metrics."""
RIGHT = {
    "exp 7: defensive bot 943 to 700": {"elo/defensive_bot": around(random(7), np.linspace(943, 700, 250), 5)},
    "exp 7: chaos bot 901 to 892": {"elo/chaos_bot": around(random(8), np.linspace(901, 892, 250), 3)},
    **{
        f"exp 9 {run}: KL max {value}": {"kl/max": peak(value)}
        for run, value in {"A": 0.8, "B": 2.6, "C": 3.6, "D": 1.8, "E": 1.0, "F": 1.8, "G": 7.2}.items()
    },
    "exp 12 A: base model 78 lower": {"elo/base_model": around(random(9), np.linspace(1000, 922, 40), 4)},
    "r3: KL share 15 to 60 %, reward 0.394 to 0.432": {
        SHARE: random(10).uniform(0.15, 0.6, 50), REWARD: around(random(11), np.linspace(0.394, 0.432, 50), 0.008),
    },
    "r4: KL of 0.055": {"kl/mean": mean_kl(0.055, 50)},
    "dogfight: win rate to 99 %": win_rate(np.minimum(0.99, np.arange(600) / 500)),
}  # fmt: skip
"""Figures of what went well."""
NOT_TOLD = {
    "exp 1: win bonus 20 to 3 % in 8 steps": {"game/win_bonus_rate": np.linspace(0.2, 0.03, 8)},
    "exp 1: centres 5.0 to 3.5 in 8 steps": {"game/avg_sc_count": np.linspace(5, 3.5, 8)},
    "exp 12 B: base model only 21 lower in 100 steps": {
        "elo/base_model": around(random(12), np.linspace(1000, 979, 100), 4)
    },
    "dogfight: four wins of a hundred, the others draws": {"eval/do_nothing/win_rate": np.full(30, 0.04)},
}
"""Figures without a rule. Wins and centres fell with the reward, which is told. Four wins, and 21 points in 100 steps,
are poor but not wrong."""


@pytest.mark.parametrize("figure", TOLD)
def test_recorded_fault_fires_its_rule(figure):
    rule, columns = TOLD[figure]
    assert rule in rules_fired(columns)


@pytest.mark.parametrize("figure", [*RIGHT, *NOT_TOLD])
def test_healthy_figure_fires_no_rule(figure):
    assert rules_fired((RIGHT | NOT_TOLD)[figure]) == set()
