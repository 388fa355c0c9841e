"""Whole updates of unified_dr_gpu_v3 in fp32, bf16 and fp16, and the safeguards of lower precision, one by one.

The run is the real one, cut short: its matches, steps and minibatches, two updates of warm-up, then updates in the
precision itself. Rare events are provoked on a learner alone: the change of arithmetic after the warm-up, gradients
that overflow fp16, a scale that grows again, ratios and exploration beyond their bounds.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from typing import Any

from benchmarks.gpu_parts import precision_probe
from benchmarks.gpu_parts.part import Found, PartOptions
from sparring.configs.load import load_kind
from sparring.configs.schema import PPORunConfig

RUN = "unified_dr_gpu_v3"
PRECISIONS = ("fp32", "bf16", "fp16")
WIDE = ("env.num_envs=16384", "ppo.rollout_steps=64", "ppo.minibatch_size=65536")
"""Twice the samples of an update in a thirty-second of the steps: what a GPU is for."""
VARIANTS = (
    *((f"{precision}", precision, ()) for precision in PRECISIONS),
    ("bf16, 16,384 matches", "bf16", WIDE),
)
"""What the table calls a run, its precision, and what else it changes."""
WARM_UP, MEASURED = 2, 3
TINY = ("env.num_envs=8", "ppo.rollout_steps=16", "ppo.minibatch_size=64", "ppo.epochs=2", "network.hidden=16")
SHOWN = ("train/policy_loss", "train/value_loss", "train/approx_kl", "train/grad_norm", "train/skipped_steps")


def measure(options: PartOptions) -> Found:
    """Run the probes, which are quick, then a run for each precision."""
    found = Found()
    for precision in PRECISIONS:
        for name, holds in precision_probe.probe(precision, options.device, options.seed).items():
            found.checks[f"{precision}: {name}"] = holds
    rows = []
    for name, precision, changes in VARIANTS:
        if precision == "fp16" and not options.cuda:  # training takes fp16 on a CPU for another
            continue
        updates = train(precision, options, changes)
        rows.append(row(name, updates))
        found.numbers[name] = {key: [update[key] for update in updates] for key in (*SHOWN, "time/steps_per_second")}
        whole = len(updates) == WARM_UP + MEASURED
        finite = all(math.isfinite(update[key]) for update in updates for key in SHOWN)
        found.checks[f"{name}: {WARM_UP + MEASURED} updates are done and finite"] = whole and finite
    head = ["", "env steps / s", "s per update", "of it rollout", "of it learning", "skipped steps", "KL"]
    found.table(f"Updates {WARM_UP + 1} to {WARM_UP + MEASURED} of {RUN}, medians:", head, rows)
    return found


def train(precision: str, options: PartOptions, others: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the metrics of each update of a short run with the options `others`."""
    from sparring.agents.trainers import train as train_run

    with tempfile.TemporaryDirectory() as folder:
        changes = [f"ppo.precision={precision}", f"ppo.warmup_updates={WARM_UP}", f"max_updates={WARM_UP + MEASURED}"]
        place = [
            f"device={options.device}",
            f"seed={options.seed}",
            f"checkpoint_dir={folder}",
            "logger.progress=false",
        ]
        final = train_run(load_kind(PPORunConfig, [f"+run={RUN}", *others, *changes, *place, *options.sized((), TINY)]))
        lines = (final.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [update for update in found if "time/steps_per_second" in update]


def row(name: str, updates: list[dict[str, Any]]) -> list[str]:
    """Return the medians of a precision over the updates after the warm-up."""
    late = updates[WARM_UP:]
    middle = {key: statistics.median(update[key] for update in late) for key in late[0] if key.startswith("time/")}
    seconds = middle["time/rollout_seconds"] + middle["time/update_seconds"]
    return [
        name,
        f"{middle['time/steps_per_second']:,.0f}",
        f"{seconds:.2f}",
        f"{middle['time/rollout_seconds']:.2f}",
        f"{middle['time/update_seconds']:.2f}",
        f"{sum(update['train/skipped_steps'] for update in updates):.0f}",
        f"{statistics.median(update['train/approx_kl'] for update in late):.2g}",
    ]
