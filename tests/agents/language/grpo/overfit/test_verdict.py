"""Criteria of the overfit check, each on rows that violate only it."""

from dataclasses import replace

import numpy as np
import pytest

from sparring.agents.language.grpo.overfit import OverfitRow, judge, outcome
from sparring.configs.language import OverfitConfig

STEPS = 60
CONFIG = OverfitConfig(enabled=True, window=20)
HEALTHY = {"positive": 1.0, "policy_loss": 0.04, "kl_term": 0.01, "kl_share": 0.2, "kl": 0.1, "entropy": 0.5}
HEALTHY |= {"advantage_range": 3.0, "control": 0.1, "gradient_norm": 0.5, "skipped": 0.0, "ended": 1.0, "seconds": 1.0}


def row(step, **changed):
    """Return a healthy step: the reward rises, and the KL is a fifth of the loss."""
    rising = {"before": 0.1 + 0.001 * step, "after": 0.101 + 0.001 * step, "beta": 0.005 if step > 20 else 0.0}
    return OverfitRow(step=step, **{**HEALTHY, **rising, **changed})


def rows(change=lambda one: one):
    return [change(row(step)) for step in range(1, STEPS + 1)]


def failed(made):
    return [one.name for one in judge(made, CONFIG) if not one.held]


def test_healthy_run_passes():
    assert failed(rows()) == []
    assert outcome(judge(rows(), CONFIG)).startswith("PASS (reward slope")


def recorded(seed, *, reward, kl_share, skipped, kl, noise, starts=1):
    """Return 50 steps with published figures; the control stays at the initial reward with the same noise."""
    random = np.random.default_rng(seed)
    made = []
    for step, mean in enumerate(np.linspace(*reward, 50), 1):
        after, control = (random.normal(level, noise) for level in (mean, reward[0]))
        figures = {"kl_share": random.uniform(*kl_share), "skipped": skipped, "kl": kl, "after": after}
        made.append(row(step, control=control, beta=0.01 * (step >= starts), **figures))
    return made


R1 = {"reward": (0.394, 0.394), "kl_share": (0.9, 1.0), "skipped": 0.6, "kl": 0.3, "noise": 0.02}
"""Flat reward, a KL of 95 % of the loss, most answers of a prompt identical."""
R4 = {"reward": (0.394, 0.441), "kl_share": (0.15, 0.6), "skipped": 0.0, "kl": 0.055, "noise": 0.008, "starts": 21}
"""A reward that ends near its peak of 0.44, a KL of 0.055 after 20 steps without it, of 60 % of the loss at most."""


def test_recorded_revisions_and_zero_rate_have_expected_verdicts():
    seeds = range(20)
    assert all({"KL share", "signal"} <= {*failed(recorded(seed, **R1))} for seed in seeds)
    assert sum("reward slope" in failed(recorded(seed, **R1)) for seed in range(200)) >= 198
    assert {tuple(failed(recorded(seed, **R4))) for seed in seeds} == {()}
    unmoved = R4 | {"reward": (0.394, 0.394), "kl": 0.0}
    assert all("reference" in failed(recorded(seed, **unmoved)) for seed in seeds)
    drifting = R4 | {"reward": (0.394, 0.394)}
    assert sum(failed(recorded(seed, **drifting)) == [] for seed in range(200)) <= 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("reward slope", lambda one: replace(one, after=0.5)),
        ("reward slope", lambda one: replace(one, after=1.0 - one.after)),
        ("KL share", lambda one: replace(one, kl_share=0.8)),
        ("gradient norm", lambda one: replace(one, gradient_norm=float("nan") if one.step == 30 else 0.5)),
        ("gradient norm", lambda one: replace(one, gradient_norm=50.0 if 30 < one.step < 50 else 0.5)),
        ("signal", lambda one: replace(one, skipped=0.75)),
        ("reference", lambda one: replace(one, kl=0.0)),
        ("end of text", lambda one: replace(one, ended=0.1)),
    ],
)
def test_fault_fails_only_its_named_criterion(name, change):
    assert failed(rows(change)) == [name]
    assert outcome(judge(rows(change), CONFIG)).startswith(f"FAIL ({name}: ")


def test_temporary_or_early_high_kl_share_does_not_count():
    assert failed(rows(lambda one: replace(one, kl_share=0.9 if one.step in (25, 30, 35) else 0.2))) == []
    assert failed(rows(lambda one: replace(one, kl_share=0.9 if one.beta == 0 else 0.2))) == []


def test_run_shorter_than_window_fails():
    assert "reward slope" in failed(rows()[:20])
    assert len(failed([])) >= 4


def with_rewards(rewards, control):
    return [row(step, after=a, control=c) for step, (a, c) in enumerate(zip(rewards, control, strict=True), 1)]


def test_zero_rate_fails_on_equal_seeds_despite_lucky_draws():
    """Equal policies with equal seeds earn equal rewards, so even rising rewards show no learning."""
    lucky = np.linspace(0.1, 0.9, STEPS)
    assert failed(with_rewards(lucky, lucky)) == ["reward slope"]
    assert failed(with_rewards(lucky, np.full(STEPS, 0.1))) == []
    assert failed(with_rewards(lucky, np.full(STEPS, np.nan))) == ["reward slope"]


@pytest.mark.parametrize(
    ("steps", "correlation", "most"),
    [(25, 0.0, 0.01), (50, 0.5, 0.03), (200, 0.8, 0.03), (50, 1.0, 0.35)],
)
def test_random_walk_rarely_passes(steps, correlation, most):
    """Of 400 runs; the sign of the slope alone would pass half. At 1 the reward is a random walk."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, steps))
    for step in range(1, steps):
        noise[:, step] += correlation * noise[:, step - 1]
    passed = [failed(with_rewards(rewards, np.zeros(steps))) == [] for rewards in noise]
    assert np.mean(passed) <= most


def test_late_or_early_learning_passes():
    stairs = np.repeat([0.0, 0.3, 0.8], [30, 10, 20])
    noise = np.random.default_rng(1).normal(size=STEPS) / 20
    for learned in (stairs, stairs + noise, 1 - np.exp(-np.arange(STEPS) / 8) + noise):
        assert failed(with_rewards(learned, np.zeros(STEPS))) == []
        assert failed(with_rewards(-learned, np.zeros(STEPS))) == ["reward slope"]
