"""Ten steps of GRPO as in `+run=diplomacy_quickstart`, with fewer games a step: seconds, and evidence of learning.

The released tiny model and its adapter are trained on the device, and a second process plays the next step's games
there. Finding the legal orders, writing prompts and adjudicating stay on the CPU.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_parts.part import Found, PartOptions, seconds_into
from sparring.configs.language.runs import GRPORunConfig
from sparring.configs.load import load_kind

RUN, STEPS = "diplomacy_quickstart", 10
SIZES = ("grpo.groups=6", "grpo.samples_per_group=8")
TINY = ("grpo.groups=2", "grpo.samples_per_group=2", "grpo.rollout_warmup_phases=2")
GAP, WRONG = "ppo/logp_gap_max", 0.01
SHOWN = ("benchmark/loss", "benchmark/grad_norm", "kl/mean", "benchmark/reward_mean")


def measure(options: PartOptions) -> Found:
    """Train, then read the run's own metrics."""
    found, wanted = Found(), options.sized(STEPS, 2)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        with seconds_into(times, options.device):
            final = _train(options, folder, wanted)
        steps = _steps(final.parent)
        moved = _moved(final)
    numbers: dict[str, Any] = {key: [step[key] for step in steps if key in step] for key in (*SHOWN, GAP)}
    found.checks[f"{wanted} steps are done"] = len(steps) == wanted
    found.checks["losses, gradients and KL are finite"] = all(
        math.isfinite(value) for key in SHOWN for value in numbers[key]
    )
    gaps = numbers[GAP]
    found.checks[f"sampler and trainer agree within {WRONG} nats"] = bool(gaps) and max(gaps) <= WRONG
    found.checks["the adapter has moved"] = moved
    found.numbers = numbers | {"seconds": times[0]}
    head = ["steps", "s in all", "s to play a step", "s to learn from it", "decisions a step", "reward, first to last"]
    found.table("", head, [_row(steps, times[0])])
    sizes = " ".join(options.sized(SIZES, TINY))
    found.notes.append(f"{sizes}. Playing and learning overlap, and both are medians; s in all are with the start.")
    return found


def _train(options: PartOptions, folder: str, steps: int) -> Path:
    from sparring.agents.trainers import train

    place = [f"device={options.device}", f"seed={options.seed}", f"checkpoint_dir={folder}", "logger.progress=false"]
    return train(load_kind(GRPORunConfig, [f"+run={RUN}", *place, f"grpo.steps={steps}", *options.sized(SIZES, TINY)]))


def _steps(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of each step."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if "benchmark/loss" in (found := json.loads(line))]


def _moved(final: Path) -> bool:
    """Return whether any of LoRA's second factors, initially 0, has changed."""
    from sparring.configs.core.tensor_file import unpack

    content = unpack(final.read_bytes())
    tensors = [value for value in _tensors(content) if value.is_floating_point()]
    return bool(tensors) and all(bool(value.any()) for value in tensors)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _row(steps: list[dict[str, Any]], seconds: float) -> list[str]:
    playing, learning = (
        statistics.median(step[f"benchmark/{name}_time_s"] for step in steps) for name in ("rollout", "training")
    )
    rewards = [step["benchmark/reward_mean"] for step in steps]
    decided = steps[-1]["env_steps"] / len(steps)
    return [
        str(len(steps)),
        f"{seconds:.1f}",
        f"{playing:.2f}",
        f"{learning:.2f}",
        f"{decided:,.0f}",
        f"{rewards[0]:.3f} to {rewards[-1]:.3f}",
    ]
