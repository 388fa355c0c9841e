"""`sparring bench`: speeds of this machine, beside the published ones of docs/results/speed.md.

Without torch and Warp only the NumPy actor is measured. Figures are medians of short rounds, by the clock, which other
work on the machine slows down, and per second of processor time of all threads, which it hardly does. The first time,
Warp compiles its kernels, which takes a minute more.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sparring.configs.core.device import usable_cores
from sparring.eval.command import run_command
from sparring.eval.options import CommandOptions, CommandText, argument, parse

MATCHES, GAMES = 4096, 4096
LAST_YEAR = 1906
WARM_UP = 4
"""Updates of PPO that do not count."""
ROUNDS = 3
ROW = "{:58} {:>20} {:>14}   {}"
PAGES = "docs/results/speed.md and docs/results/diplomacy_speed.md"


@dataclass(frozen=True)
class Speed:
    """A speed: what is counted, how it is measured, and the same on published machines."""

    name: str
    unit: str
    prepare: Callable[[], Callable[[], int]]
    """Returns the work, which returns how much of it was done."""
    published: tuple[tuple[float, str], ...] = ()
    """Speeds with their machines, from the pages of results."""
    trains: bool = True
    """Whether it needs the extra `train`."""


def actor_work(count: int) -> Callable[[], int]:
    """Return a function that decides for `count` observations and returns that number."""
    from sparring.agents.opponents.players import find_checkpoint
    from sparring.agents.policies.array_actor import read_actor

    actor = read_actor(find_checkpoint("released/dogfight_strong"), "dogfight_strong")
    obs = np.random.default_rng(1).standard_normal((count, actor.shape["obs_dim"]), np.float32)

    def act() -> int:
        return len(actor.act(obs))

    return act


def dogfight_work() -> Callable[[], int]:
    """Return a function that plays a step of all matches and returns their ticks."""
    import torch

    from sparring.envs.dogfight import rules
    from sparring.envs.dogfight.batch import DogfightBatch

    batch = DogfightBatch(MATCHES, threads=1, device="cpu", seed=1)
    batch.assign(np.array([[rules.ACTIONS, rules.bot_id("brawler")]]), torch.ones(MATCHES, dtype=torch.bool))
    actions = torch.ones(MATCHES, 2, 3)  # a gentle turn at cruising throttle
    actions[:, :, 0], actions[:, :, 1] = torch.linspace(-0.3, 0.3, MATCHES)[:, None], 0.7

    def step() -> int:
        batch.step(actions)
        return MATCHES * rules.ACTION_REPEAT

    return step


def diplomacy_work() -> Callable[[], int]:
    """Return a function that plays a phase of random orders in all games and returns the number of phases."""
    from sparring.envs.diplomacy.batch import DiplomacyBatch

    batch, turn = DiplomacyBatch(GAMES, last_year=LAST_YEAR, threads=1), 0

    def phase() -> int:
        nonlocal turn
        if bool(batch.done.all()):
            batch.reset()
        turn += 1
        going = int((batch.done == 0).sum())
        batch.draw_orders(turn)
        batch.process()
        return going

    return phase


def training_speed(updates: int) -> float:
    """Return env steps per second of the run `bots_only`, the median over `updates`."""
    from sparring.agents.trainers import train
    from sparring.configs.load import load

    with tempfile.TemporaryDirectory() as folder:
        options = ["threads=1", "ppo.precision=fp32", "logger.progress=false", "logger.wandb=off"]
        lengths = [f"max_updates={WARM_UP + updates}", f"checkpoint_dir={folder}"]
        config = load(["+run=bots_only", *lengths, *options])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            final = train(config)
        rows = [json.loads(row) for row in Path(final.parent / "metrics.jsonl").read_text("utf-8").splitlines()]
    return statistics.median([row["time/steps_per_second"] for row in rows if "time/steps_per_second" in row][WARM_UP:])


SPEEDS = (
    Speed("policy, NumPy actor, 1 observation", "steps/s", lambda: actor_work(1), trains=False),
    Speed("policy, NumPy actor, 256 observations", "steps/s", lambda: actor_work(256), trains=False),
    Speed(
        "dogfight, 4,096 matches against brawler, 1 core",
        "ticks/s",
        dogfight_work,
        ((9_710_000, "AMD EPYC Zen 5"),),
    ),
    Speed("Diplomacy, 4,096 games, whole loop, 1 core", "phases/s", diplomacy_work, ((100_433, "AMD EPYC"),)),
)
PPO = Speed(
    "PPO, `bots_only` in fp32, 1 thread",
    "env steps/s",
    lambda: lambda: 0,  # measured by the run's own metrics
    ((67_660, "Intel Xeon Emerald Rapids"), (57_000, "AMD EPYC Zen 5")),
)
"""Ten of the dogfight's ticks are one env step."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions(CommandOptions):
    """Options of the command."""

    TEXT = CommandText("eval/bench/speed.py", "Measure this machine for a minute.", usage="sparring bench [options]")
    seconds: float = argument(2.0, "[0.01, 60]", metavar="S")
    """Measured time of each round of a speed."""
    updates: int = argument(8, "[1, 1000]", metavar="N")
    """Updates of PPO measured, after four that warm up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("sparring bench", _run, arguments)


def speed_of(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return the work done per second of the clock and of the processor: medians of rounds of `seconds` each."""
    work()
    rates = []
    for _ in range(ROUNDS):
        done, start, busy = 0, time.perf_counter(), time.process_time()
        while (taken := time.perf_counter() - start) < seconds or not done:
            done += work()
        rates.append((done / taken, done / max(time.process_time() - busy, 1e-9)))
    clock, processor = zip(*rates, strict=True)
    return statistics.median(clock), statistics.median(processor)


def line(speed: Speed, measured: tuple[float, ...] | None) -> str:
    """Return a row: the speed here, by the clock and per processor second, and there; None is what the extra adds."""
    if measured is None:
        cells = ["needs torch and Warp", ""]
    else:
        cells = [f"{figure:,.0f}" for figure in measured] + [""] * (2 - len(measured))
    others = "; ".join(f"{figure:,.0f} {machine}" for figure, machine in speed.published) or "not published"
    return ROW.format(f"{speed.name}, {speed.unit}", *cells, others)


def machine() -> str:
    """Return processor, cores, load and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    name = next((one.partition(":")[2].strip() for one in lines if one.startswith("model name")), platform.machine())
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    packages = [f"{package} {version(package)}" for package in ("numpy", "torch", "warp-lang") if _has(package)]
    return f"{name}, {usable_cores()} cores{load}, Python {platform.python_version()}, {', '.join(packages)}"


def _run(words: Sequence[str]) -> int:
    options = parse(BenchOptions, words)
    ready = _has("torch") and _has("warp-lang")
    print(f"{machine()}\n\n{ROW.format('per second', 'by the clock', 'of processor', 'published')}")
    for speed in SPEEDS:
        measured = speed_of(speed.prepare(), options.seconds) if ready or not speed.trains else None
        print(line(speed, measured), flush=True)
    print(line(PPO, (training_speed(options.updates),) if ready else None))
    print(f"\nPublished figures are of idle machines: {PAGES}.")
    if not ready:
        print("`sparring install train` (1.3 GB) adds torch and Warp: the simulators, training and evaluation.")
    return 0


def _has(package: str) -> bool:
    return find_spec(package.partition("-")[0]) is not None


if __name__ == "__main__":
    sys.exit(main())
