"""Output of the overfit check: banner, table lines, overfit.json and, with matplotlib, overfit.png."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparring.agents.grpo.overfit.verdict import OverfitCriterion, OverfitRow, moving_average
from sparring.configs.core.files import write_atomically
from sparring.configs.schema import GRPORunConfig

COLUMNS = ("step", "before", "after", "change", "policy", "KL term", "KL %", "range", "norm", "beta", "seconds")
HEAD = " ".join(f"{name:>8}" for name in COLUMNS)


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
    failed = [one for one in criteria if not one.held]
    shown = "; ".join(f"{one.name}: {one.found}" for one in (failed or criteria))
    return f"{'FAIL' if failed else 'PASS'} ({shown})"


def write_report(
    folder: Path, config: GRPORunConfig, rows: Sequence[OverfitRow], criteria: Sequence[OverfitCriterion]
) -> list[Path]:
    """Write the files and return their paths; without matplotlib there is no plot. Raises `OSError`."""
    held = all(one.held for one in criteria)
    content: dict[str, Any] = {"verdict": "PASS" if held else "FAIL", "settings": banner(config), "seed": config.seed}
    content |= {"criteria": [asdict(one) for one in criteria], "steps": [asdict(row) for row in rows]}
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
    panels.flat[1].axhline(config.overfit.max_kl_share, linestyle="--", linewidth=0.8)
    panels.flat[0].legend()
    figure.suptitle(config.overfit.label or config.run or "overfit check")
    figure.savefig(path, dpi=110)
    return path
