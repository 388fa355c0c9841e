"""`sparring bench`: speeds of this machine, beside the published ones of docs/results/speed.md.

Without torch and Warp only the NumPy actor is measured. Figures are medians of short rounds, by the clock, which other
work on the machine slows down, and per second of processor time of all threads, which it hardly does. The first time,
Warp compiles its kernels, which takes a minute more.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sparring.configs.core.device import usable_cores
from sparring.envs.game import games, load
from sparring.eval.command import run_command
from sparring.eval.options import CommandOptions, CommandText, argument, parse

ROUNDS = 3
ROW = "{:58} {:>20} {:>14}   {}"
PAGES = "docs/results/speed.md and docs/results/diplomacy_speed.md"


@dataclass(frozen=True)
class Speed:
    """A speed: what is counted, how it is measured, and the same on published machines."""

    name: str
    unit: str
    prepare: Callable[[], Callable[[], int]] | None = None
    """Returns the work, which returns how much of it was done."""
    published: tuple[tuple[float, str], ...] = ()
    """Speeds with their machines, from the pages of results."""
    trains: bool = True
    """Whether it needs the extra `train`."""
    training: Callable[[int], float] | None = None
    """Measures a training run by its own metrics in place of `prepare`, over a number of updates."""


def speeds() -> list[Speed]:
    """Return what the games measure, runs of training last."""
    collected = [speed for game in games() if game.speeds for speed in load(game.speeds)]
    return sorted(collected, key=lambda speed: speed.training is not None)


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
    published = "; ".join(f"{figure:,.0f} {machine}" for figure, machine in speed.published) or "not published"
    return ROW.format(f"{speed.name}, {speed.unit}", *cells, published)


def machine() -> str:
    """Return processor, cores, load and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    name = next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), platform.machine())
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    packages = [f"{package} {version(package)}" for package in ("numpy", "torch", "warp-lang") if _has(package)]
    return f"{name}, {usable_cores()} cores{load}, Python {platform.python_version()}, {', '.join(packages)}"


def _run(words: Sequence[str]) -> int:
    options = parse(BenchOptions, words)
    ready = _has("torch") and _has("warp-lang")
    print(f"{machine()}\n\n{ROW.format('per second', 'by the clock', 'of processor', 'published')}")
    for speed in speeds():
        print(line(speed, _measured(speed, options) if ready or not speed.trains else None), flush=True)
    print(f"\nPublished figures are of idle machines: {PAGES}.")
    if not ready:
        print("`sparring install train` (1.3 GB) adds torch and Warp: the simulators, training and evaluation.")
    return 0


def _measured(speed: Speed, options: BenchOptions) -> tuple[float, ...]:
    if speed.training:
        return (speed.training(options.updates),)
    assert speed.prepare is not None
    return speed_of(speed.prepare(), options.seconds)


def _has(package: str) -> bool:
    return find_spec(package.partition("-")[0]) is not None


if __name__ == "__main__":
    sys.exit(main())
