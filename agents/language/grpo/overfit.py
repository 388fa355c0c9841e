"""Overfit check of GRPO, for any text game: one batch is answered before the first step and after every step.

A control, the policy of the first step, answers the same batch with the same seeds after every step. It behaves like a
run with a learning rate of zero. The check ends with overfit.json, overfit.png (with matplotlib) and a verdict. It is
PASS only if all criteria hold. With m the moving average over `overfit.window` steps:

    reward slope     the slope of reward - control is above 3 standard errors
    KL share         m(KL share) is above 0.7 in less than half of its values
    gradient norm    finite, and max m(norm) <= 10 x median norm
    signal           at most half of the samples are in groups of equal rewards
    reference        the KL to the reference is above 0 once weights have changed: it stays where it was
    end of text      at least half of the answers end by a drawn end of text, which is then trained

Shuffled rewards break the first, and a reference that follows the policy the fifth. A forced or untrained end of text
breaks the last. A mask or dropout on only one side ends the run earlier: trainer and sampler then disagree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.language.decoding.constraint import constraint_of
from sparring.agents.language.grpo.objective.kl import in_place_of
from sparring.agents.language.grpo.rollouts.rollout import RolloutBatch, Rollouts
from sparring.agents.language.models.adapters import LEARNER, Adapters
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.agents.run.session import RunSession
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.language import OverfitConfig
from sparring.configs.language.runs import GRPORunConfig
from sparring.envs.text import RolloutPlan, text_game

MAX_KL_SHARE, PERSISTENT = 0.7, 0.5
"""The KL dominates where its share of the loss is above the first in this part of the windows."""
MAX_NORM_GROWTH, MAX_SKIPPED = 10.0, 0.5
"""Ratio of a window's mean gradient norm to the median, and part of the samples in groups of equal rewards."""
CONTROL = "zero_rate"
"""Player with the weights of the first step."""
ERRORS = 3.0
"""Standard errors of the slope; docs/chess_training.md has how many policies pass that change without learning."""
MOST_ALIKE = 0.97
"""Largest correlation of neighbouring steps that the standard error allows for."""
LEAST_ENDED = 0.5
SAME = 1e-9
"""Nats per token; a reference that follows the policy has at most rounding."""
COLUMNS = ("step", "before", "after", "change", "policy", "KL term", "KL %", "range", "norm", "beta", "seconds")
HEAD = " ".join(f"{name:>8}" for name in COLUMNS)
METRICS = {
    "policy_loss": "loss/policy",
    "kl_term": "loss/kl",
    "kl_share": "loss/kl_share",
    "kl": "kl/mean",
    "entropy": "policy/entropy_mean",
    "advantage_range": "advantage/range_mean",
    "gradient_norm": "benchmark/grad_norm",
    "beta": "kl/beta",
    "skipped": "processing/skip_rate",
}
"""Fields of a row that are metrics of the step; they are 0 in a step without training."""


@dataclass(frozen=True)
class OverfitRow:
    """One step of the check; rewards and KL are means, `seconds` include rollout and training."""

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
    control: float = math.nan
    """Reward of the policy of the first step; NaN in states of versions without it."""


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


def slope(values: np.ndarray) -> tuple[float, float]:
    """Return the slope of the least-squares line per step, and its standard error; `values` [N], N >= 2.

    Learning is not a straight line: it begins late and ends at the best answers. So the noise is what remains beside
    the best non-decreasing curve, of B levels. Its variance is sum e^2 / (N - 1.5 B), and the correlation r of
    neighbours multiplies it by (1 + r) / (1 - r).
    """
    steps = np.arange(len(values)) - (len(values) - 1) / 2
    rise = float(steps @ values / (steps @ steps))
    curve, levels = _non_decreasing(values)
    noise = values - curve
    squares = float(noise @ noise)
    if squares <= SAME:
        return rise, 0.0 if np.isfinite(squares) else math.nan
    # Fitting the curve lowers the correlation by about 2 / N.
    correlation = min(max(float(noise[1:] @ noise[:-1]) / squares + 2.0 / len(values), 0.0), MOST_ALIKE)
    variance = squares / max(len(values) - 1.5 * levels, 1.0) * (1 + correlation) / (1 - correlation)
    return rise, math.sqrt(variance / float(steps @ steps))


def _non_decreasing(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the non-decreasing curve [N] nearest to `values` [N] (pool adjacent violators), and its levels."""
    levels = list[tuple[float, int]]()
    for value in values.tolist():
        mean, size = value, 1
        while levels and levels[-1][0] >= mean:
            before, count = levels.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        levels.append((mean, size))
    return np.repeat([mean for mean, _ in levels], [size for _, size in levels]), len(levels)


def _slope(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    means = moving_average([row.after for row in rows], config.window)
    if len(means) < 2:
        return OverfitCriterion("reward slope", False, f"needs more than overfit.window={config.window} steps")
    rise, error = slope(np.array([row.after - row.control for row in rows]))
    text = f"{rise:+.2e} a step above the control, standard error {error:.1e}, "
    text += f"moving average {means[0]:.4f} to {means[-1]:.4f}"
    return OverfitCriterion("reward slope", rise > ERRORS * error, text)


def _kl_share(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    shares = [row.kl_share for row in rows if row.beta > 0]
    means = moving_average(shares, min(config.window, max(len(shares), 1)))
    above = float(np.mean(means > MAX_KL_SHARE)) if len(means) else 0.0
    text = f"above {MAX_KL_SHARE:.0%} in {above:.0%} of the windows"
    return OverfitCriterion("KL share", above < PERSISTENT, text)


def _norm(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    norms = [row.gradient_norm for row in rows if row.skipped < 1]
    if not np.isfinite(norms).all():
        return OverfitCriterion("gradient norm", False, "not finite")
    means = moving_average(norms, min(config.window, max(len(norms), 1)))
    middle = float(np.median(norms)) if norms else 0.0
    growth = float(means.max()) / middle if middle > 0 else 0.0
    text = f"largest window {growth:.1f} x the median, {middle:.3g}"
    return OverfitCriterion("gradient norm", 0 < growth <= MAX_NORM_GROWTH, text)


def _signal(rows: Sequence[OverfitRow], config: OverfitConfig) -> OverfitCriterion:
    skipped = float(np.mean([row.skipped for row in rows])) if rows else 1.0
    text = f"{skipped:.0%} of the samples are in groups of equal rewards"
    return OverfitCriterion("signal", skipped <= MAX_SKIPPED, text)


def _reference(rows: Sequence[OverfitRow]) -> OverfitCriterion:
    trained = [index for index, row in enumerate(rows) if row.skipped < 1]
    later = [abs(rows[index].kl) for index in trained[1:]]
    moved = float(np.mean(later)) if later else 0.0
    return OverfitCriterion("reference", moved > SAME, f"mean KL {moved:.3g} nats a token")


def _end_of_text(rows: Sequence[OverfitRow]) -> OverfitCriterion:
    ended = float(np.mean([row.ended for row in rows])) if rows else 0.0
    return OverfitCriterion(
        "end of text", ended >= LEAST_ENDED, f"{ended:.0%} of the answers end by a drawn end of text"
    )


def banner(config: GRPORunConfig) -> str:
    """Return the settings that the check compares, on one line."""
    grpo, clip = config.grpo, config.grpo.advantage_clip
    wait = f" after {grpo.kl_beta_start_step} steps at 0" if grpo.kl_beta and grpo.kl_beta_start_step else ""
    parts = (
        f"{grpo.groups} prompts x {grpo.samples_per_group}, learning rate {grpo.learning_rate:g}",
        f"KL {grpo.kl_form}, beta {grpo.kl_beta:g}{wait}, target {grpo.kl_target:g}",
        f"advantages / max({grpo.advantage_std} std, {grpo.advantage_std_floor:g}), clip {clip if clip else 'none'}",
        f"entropy {grpo.entropy_coef:g}",
        f"{'greedy' if config.overfit.greedy else 'sampled'} evaluation",
    )
    return f"overfit check {config.overfit.label or config.run or ''}: {'; '.join(parts)}"


def line(row: OverfitRow) -> str:
    """Return a step's line of the table."""
    numbers = (
        f"{row.before:.4f}", f"{row.after:.4f}", f"{row.after - row.before:+.4f}", f"{row.policy_loss:+.4f}",
        f"{row.kl_term:+.5f}", f"{100 * row.kl_share:.1f}", f"{row.advantage_range:.3f}", f"{row.gradient_norm:.4f}",
        f"{row.beta:.4f}", f"{row.seconds:.2f}",
    )  # fmt: skip
    return " ".join(f"{cell:>8}" for cell in (str(row.step), *numbers))


def outcome(criteria: Sequence[OverfitCriterion]) -> str:
    """Return PASS or FAIL with the criteria that failed, or all that held."""
    failed = [criterion for criterion in criteria if not criterion.held]
    text = "; ".join(f"{criterion.name}: {criterion.found}" for criterion in (failed or criteria))
    return f"{'FAIL' if failed else 'PASS'} ({text})"


def write_report(
    folder: Path, config: GRPORunConfig, rows: Sequence[OverfitRow], criteria: Sequence[OverfitCriterion]
) -> list[Path]:
    """Write the files and return their paths; a plot needs matplotlib. Raises `OSError`."""
    passed = all(criterion.held for criterion in criteria)
    content: dict[str, Any] = {"verdict": "PASS" if passed else "FAIL", "settings": banner(config), "seed": config.seed}
    content |= {"criteria": [asdict(criterion) for criterion in criteria], "steps": [asdict(row) for row in rows]}
    paths = [folder / "overfit.json"]
    write_atomically(paths[0], json.dumps(content, indent=1) + "\n")
    if find_spec("matplotlib") is not None and rows:
        paths.append(_plot(folder / "overfit.png", config, rows))
    return paths


def _plot(path: Path, config: GRPORunConfig, rows: Sequence[OverfitRow]) -> Path:
    """Draw reward, KL share, gradient norm and advantage range over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    steps, window = [row.step for row in rows], config.overfit.window
    drawn = {
        "reward of the batch": [row.after for row in rows],
        "KL share of the loss": [row.kl_share for row in rows],
        "gradient norm": [row.gradient_norm for row in rows],
        "advantage range": [row.advantage_range for row in rows],
    }
    for axes, (title, values) in zip(panels.flat, drawn.items(), strict=True):
        means = moving_average(values, window)
        axes.plot(steps, values, linewidth=0.8, alpha=0.5)
        axes.plot(steps[len(steps) - len(means) :], means, linewidth=1.8, label=f"mean of {window} steps")
        axes.set_title(title)
        axes.set_xlabel("step")
    panels.flat[1].axhline(MAX_KL_SHARE, linestyle="--", linewidth=0.8)
    panels.flat[0].legend()
    figure.suptitle(config.overfit.label or config.run or "overfit check")
    written = BytesIO()
    figure.savefig(written, format="png", dpi=110)
    write_atomically(path, written.getvalue())
    return path


class OverfitCheck:
    """Rows of a run, and the measurement of the learner in `adapters` on one batch."""

    def __init__(self, config: GRPORunConfig, adapters: Adapters, tokenizer: Any) -> None:
        self._config, self.rows = config, list[OverfitRow]()
        learned = adapters.parameters()
        self._control = {name: parameter.detach().clone() for name, parameter in learned.items()}
        game = text_game(config.game_id)
        temperature = 0.0 if config.overfit.greedy else config.model.temperature

        def rollouts(name: str, playing: Callable[[], AbstractContextManager[Any]]) -> Rollouts:
            backend = TransformersBackend.of(
                replace(config.model, temperature=temperature),
                adapters.model,
                tokenizer,
                constraint=constraint_of(tokenizer, game.format),
                playing=playing,
                name=name,
            )
            return Rollouts(game.task(config), lambda _: backend)

        self._rollouts = {
            LEARNER: rollouts(LEARNER, partial(adapters.playing, LEARNER)),
            CONTROL: rollouts(CONTROL, lambda: in_place_of(learned, self._control)),
        }
        self._reward: float | None = None

    def banner(self) -> list[str]:
        """Return the settings and the head of the table."""
        return [banner(self._config), HEAD]

    def measure(self, plan: RolloutPlan, player: str = LEARNER) -> tuple[float, float]:
        """Return mean reward and share of positive rewards of one answer to every prompt. Raises `InputError`."""
        batch = self._rollouts[player].play(replace(plan, samples=1))
        if not len(batch.rewards):
            raise InputError(f"the overfit check has no answer to score: {batch.alerts[0] if batch.alerts else ''}")
        return float(np.mean(batch.rewards)), float(np.mean(batch.rewards > 0))

    def begin(self, plan: RolloutPlan) -> None:
        """Measure before the first step."""
        self._reward, _ = self.measure(plan)

    def add(self, plan: RolloutPlan, batch: RolloutBatch, metrics: Mapping[str, float]) -> dict[str, float]:
        """Measure after a step with these results; return the step's metrics `overfit/...`."""
        before = self._reward
        assert before is not None
        after, positive = self.measure(plan)
        self._reward = after
        values = {name: float(metrics.get(key, 0.0)) for name, key in METRICS.items()}
        values["control"], _ = self.measure(plan, CONTROL)
        seconds = batch.seconds + metrics.get("benchmark/training_time_s", 0.0)
        ended = float(np.mean([_ended(turn.decision) for turn in batch.turns]))
        measured = {"before": before, "after": after, "positive": positive, "ended": ended, "seconds": seconds}
        self.rows.append(OverfitRow(step=len(self.rows) + 1, **measured, **values))
        return {
            "overfit/greedy_reward": after,
            "overfit/control_reward": values["control"],
            "overfit/positive_share": positive,
            "overfit/ended_share": ended,
        }

    def last_line(self) -> str:
        """Return the table's newest line."""
        return line(self.rows[-1])

    def conclude(self, session: RunSession) -> bool:
        """Write the report, say the verdict, and return whether all criteria hold."""
        criteria: Sequence[OverfitCriterion] = judge(self.rows, self._config.overfit)
        try:
            paths = write_report(session.folder.path, self._config, self.rows, criteria)
        except OSError as error:
            raise InputError(f"{session.folder.path}: the report is not written ({error.strerror})") from error
        for criterion in criteria:
            session.say(f"  {'held  ' if criterion.held else 'FAILED'} {criterion.name}: {criterion.found}")
        session.say(f"{outcome(criteria)}: {', '.join(map(str, paths))}")
        return all(criterion.held for criterion in criteria)

    def state_dict(self) -> dict[str, Any]:
        """Return the rows, the last reward and the control's weights."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "reward": self._reward,
            "control": {name: weights.cpu() for name, weights in self._control.items()},
        }

    def load_state_dict(self, state: Any) -> None:
        """Continue from a `state_dict`."""
        self.rows, self._reward = [OverfitRow(**row) for row in state["rows"]], state["reward"]
        for name, weights in state.get("control", {}).items():
            self._control[name].copy_(weights)

    def close(self) -> None:
        """Release the task."""
        for rollouts in self._rollouts.values():
            rollouts.close()


def _ended(decision: Any) -> bool:
    """Return whether the last token, the end of the answer, was drawn and not forced."""
    return bool(len(decision.allowed_counts) and decision.allowed_counts[-1] > 1)
