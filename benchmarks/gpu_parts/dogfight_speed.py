"""Env steps per second of the dogfight at growing sizes, on the device and on the CPU of the same machine.

Seat 0 plays given actions, seat 1 the five bots in equal shares, deciding every tick. The device and the CPU, with all
its cores, take turns; medians count. Steps follow each other without a wait in between, as in training.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.dogfight import steady_actions
from benchmarks.gpu_parts.part import Found, PartOptions, rate
from sparring.configs.core.device import usable_cores
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

SIZES = (256, 4096, 16384, 65536)
ROUNDS, SECONDS = 5, 0.6


def measure(options: PartOptions) -> Found:
    """Return one row for each size."""
    found, rows = Found(), []
    devices = (options.device, "cpu")
    for matches in options.sized(SIZES, (4, 8)):
        batches = [running_batch(matches, device, options.seed) for device in devices]
        speeds = taking_turns(batches, options.sized(SECONDS, 0.0))
        mine, cpu = (statistics.median(found) * matches for found in speeds)
        spread = (max(speeds[0]) - min(speeds[0])) * matches / mine
        ticks = mine * rules.ACTION_REPEAT / 1e6
        rows.append(
            [f"{matches:,}", f"{mine:,.0f}", f"{spread:.1%}", f"{ticks:,.1f}", f"{cpu:,.0f}", f"{mine / cpu:.1f}"]
        )
        found.numbers[str(matches)] = {"device": mine, "cpu": cpu, "ratio": mine / cpu, "all": speeds}
        found.checks[f"{matches:,} matches go on and stay finite"] = all(sound(batch) for batch in batches)
        for batch in batches:
            batch.close()
    peer = f"CPU, {usable_cores()} threads: env steps / s"
    head = ["matches", f"{options.device}: env steps / s", "spread", "M ticks / s", peer, "ratio"]
    found.table("", head, rows)
    found.notes.append(f"An env step is {rules.ACTION_REPEAT} ticks of one match, both seats observed and rewarded.")
    return found


def running_batch(matches: int, device: str, seed: int) -> DogfightBatch:
    """Return a batch with bots in seat 1 after some play, with bullets in flight and matches of all ages."""
    batch = DogfightBatch(matches, device=device, seed=seed)
    bots = np.full((matches, 2), rules.ACTIONS, dtype=np.int32)
    bots[:, 1] = np.arange(matches) % len(rules.BOTS)
    batch.assign(bots)
    batch.reset(seed)
    step = stepper(batch)
    for _ in range(4):
        step()
    return batch


def stepper(batch: DogfightBatch) -> Callable[[], Any]:
    """Return a function that plays one step."""
    actions = torch.as_tensor(steady_actions(batch.num_envs), device=batch.device)
    return lambda: batch.step(actions)


def taking_turns(batches: list[DogfightBatch], seconds: float) -> list[list[float]]:
    """Return the steps per second of each batch in every round."""
    steps = [stepper(batch) for batch in batches]
    speeds: list[list[float]] = [[] for _ in batches]
    for _ in range(ROUNDS):
        for batch, step, found in zip(batches, steps, speeds, strict=True):
            found.append(rate(step, seconds=seconds, device=str(batch.device)))
    return speeds


def sound(batch: DogfightBatch) -> bool:
    """Return whether time has passed in the matches and all numbers are finite."""
    played = int(batch.snapshot()["clock"]["tick"].max())
    finite = [bool(tensor.isfinite().all()) for tensor in (batch.obs, batch.reward)]
    return played > 0 and all(finite)
