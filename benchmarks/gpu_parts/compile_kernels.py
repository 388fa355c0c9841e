"""Compile times of the kernels for the device: each module in a process of its own, all at the same time.

Compiled kernels are kept in Warp's cache, where the parts that follow find them.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

from benchmarks.gpu_parts.part import Found, PartOptions

MODULES = (
    "sparring.envs.dogfight.kernels.step",
    "sparring.envs.air_combat.kernels.step",
    "sparring.envs.diplomacy.adjudicator.phase",
    "sparring.envs.diplomacy.bots.simple",
    "sparring.envs.diplomacy.bots.dumbbot",
    "sparring.envs.diplomacy.bots.seed_bots",
)


def measure(options: PartOptions) -> Found:
    """Load all modules; a module that is in the cache takes almost no time."""
    found = Found()
    with ProcessPoolExecutor(len(MODULES), multiprocessing.get_context("spawn")) as pool:
        waiting = {name: pool.submit(load_seconds, name, options.device) for name in MODULES}
        seconds = {name: future.result() for name, future in waiting.items()}
    found.numbers = {"seconds": seconds}
    found.table("", ["module", "seconds to load"], [[name, f"{value:.1f}"] for name, value in seconds.items()])
    found.checks["all modules compile"] = len(seconds) == len(MODULES)
    return found


def load_seconds(name: str, device: str) -> float:
    """Load a module's kernels on a device; return the seconds without imports."""
    from sparring.configs.core.device import choose_device
    from sparring.envs.launcher import Launcher

    launcher, module = Launcher(choose_device(device), 1, 1), import_module(name)
    started = time.perf_counter()
    launcher.load(module)
    return time.perf_counter() - started
