"""Criteria of the overfit check: PASS only if all hold.

With m the moving average over `overfit.window` steps:

    reward slope     slope of the least-squares line through m(greedy reward) is above 0
    KL share         m(KL share) is above `max_kl_share` in less than `persistent` of its values
    gradient norm    finite, and max m(norm) <= `max_norm_growth` x median norm
    signal           at most `max_skipped` of the samples are in groups of equal rewards
    reference        the KL to the reference is above 0 once weights have changed: it stays where it was
    end of text      at least half of the answers end by a drawn end of text, which is then trained

Shuffled rewards break the first, a reference that follows the policy the fifth, an end of text that is forced or not
trained the last. A mask or dropout on only one side makes trainer and sampler disagree, which ends the run before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.language import OverfitConfig

LEAST_ENDED = 0.5
SAME = 1e-9
"""Nats per token; a reference that follows the policy has at most rounding."""


@dataclass(frozen=True)
class OverfitRow:
    """One step of the check; rewards and KL are means, `seconds` those of rollout and training."""

    step: int
    before: float
    after: float
    positive: float
    policy_loss: float
    kl_term: float
    kl_share: float
    kl: float
    entropy: float
    advantage_range: float
    gradient_norm: float
    beta: float
    skipped: float
    ended: float
    seconds: float


@dataclass(frozen=True)
class OverfitCriterion:
    """A criterion with what was found, in words."""

    name: str
    held: bool
    found: str


def judge(rows: Sequence[OverfitRow], config: OverfitConfig) -> list[OverfitCriterion]:
    """Return all criteria for the steps of a run."""
    return [
        _slope(rows, config),
        _kl_share(rows, config),
        _norm(rows, config),
        _signal(rows, config),
        _reference(rows),
        _end_of_text(rows),
    ]


def moving_average(values: Sequence[float], window: int) -> np.ndarray:
    """Return the means of all `window` values in a row; empty for fewer values."""
    if len(values) < window:
        return np.zeros(0)
    return np.convolve(np.asarray(values, dtype=float), np.ones(window) / window, mode="valid")


def slope(values: np.ndarray) -> float:
    """Return the slope of the least-squares line per step; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    steps = np.arange(len(values)) - (len(values) - 1) / 2
    return float(steps @ (values - values.mean()) / (steps @ steps))


def _slope(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    means = moving_average([row.after for row in rows], config.window)
    if len(means) < 2:
        return OverfitCriterion("reward slope", False, f"needs more than overfit.window={config.window} steps")
    found = slope(means)
    text = f"{found:+.2e} a step, moving average {means[0]:.4f} to {means[-1]:.4f}"
    return OverfitCriterion("reward slope", found > 0, text)


def _kl_share(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    shares = [row.kl_share for row in rows if row.beta > 0]
    means = moving_average(shares, min(config.window, max(len(shares), 1)))
    above = float(np.mean(means > config.max_kl_share)) if len(means) else 0.0
    text = f"above {config.max_kl_share:.0%} in {above:.0%} of the windows"
    return OverfitCriterion("KL share", above < config.persistent, text)


def _norm(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    norms = [row.gradient_norm for row in rows if row.skipped < 1]
    if not np.isfinite(norms).all():
        return OverfitCriterion("gradient norm", False, "not finite")
    means = moving_average(norms, min(config.window, max(len(norms), 1)))
    middle = float(np.median(norms)) if norms else 0.0
    growth = float(means.max()) / middle if middle > 0 else 0.0
    text = f"largest window {growth:.1f} x the median, {middle:.3g}"
    return OverfitCriterion("gradient norm", 0 < growth <= config.max_norm_growth, text)


def _signal(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    skipped = float(np.mean([row.skipped for row in rows])) if rows else 1.0
    text = f"{skipped:.0%} of the samples are in groups of equal rewards"
    return OverfitCriterion("signal", skipped <= config.max_skipped, text)


def _reference(rows: Sequence[OverfitRow]) -> OverfitCriterion:
    trained = [place for place, row in enumerate(rows) if row.skipped < 1]
    later = [abs(rows[place].kl) for place in trained[1:]]
    moved = float(np.mean(later)) if later else 0.0
    return OverfitCriterion("reference", moved > SAME, f"mean KL {moved:.3g} nats a token")


def _end_of_text(rows: Sequence[OverfitRow]) -> OverfitCriterion:
    ended = float(np.mean([row.ended for row in rows])) if rows else 0.0
    return OverfitCriterion(
        "end of text", ended >= LEAST_ENDED, f"{ended:.0%} of the answers end by a drawn end of text"
    )
