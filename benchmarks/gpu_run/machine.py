"""Machine, versions and commit named in a report."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import processor
from sparring.configs.core.device import usable_cores

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "warp-lang", "numpy", "transformers", "peft")


def machine(device: str) -> dict[str, Any]:
    """Return all properties of this machine that a figure may depend on."""
    found: dict[str, Any] = {
        "device": device,
        "cpu": processor(),
        "cores": usable_cores(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "packages": {name: _version(name) for name in PACKAGES},
    }
    return found | (_gpu(device) if device.startswith("cuda") else {})


def commit(given: str = "") -> str:
    """Return the commit of this tree as `given`, else as git says it, marked where files differ; empty without git."""
    if given:
        return given
    name = _ask("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    changed = name and _ask("git", "-C", str(ROOT), "status", "--porcelain")
    return f"{name} with uncommitted changes" if changed else name


def _gpu(device: str) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    return {
        "gpu": properties.name,
        "gpu_memory_gib": round(properties.total_memory / 2**30, 1),
        "capability": f"{properties.major}.{properties.minor}",
        "driver": _ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0],
        "cuda": torch.version.cuda,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _ask(*command: str) -> str:
    """Return the output of a program; empty if it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
