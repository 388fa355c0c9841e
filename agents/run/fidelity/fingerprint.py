"""Fingerprint of what decides the last bits of a sum: processor, vector instructions, libraries and their settings.

torch, MKL, oneDNN, OpenBLAS and the C library choose their kernels by the processor at run time. Two machines with the
same versions therefore round differently when one has AVX-512 and the other AVX2, and so does one machine under
`ATEN_CPU_CAPABILITY` or `MKL_CBWR`.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

CPU_INFO = Path("/proc/cpuinfo")
FLAGS = ("flags", "Features")
"""Keys of /proc/cpuinfo with the instruction sets: x86, ARM."""
VECTOR = re.compile(r"^(s?sse|avx|fma|f16c|amx|sve|sme(?!p)|asimd|neon|fphp|bf16|i8mm)")
"""Instruction sets whose presence changes which numeric kernels run."""
MODEL = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant", "CPU revision")
SETTINGS = (
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE"),
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"),
    "GLIBC_TUNABLES",
)
"""Environment variables that select kernels on a CPU."""
GPU_SETTINGS = ("NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG")


def machine(device: torch.device, *, deterministic: bool, minibatch: Callable[[], str]) -> dict[str, Any]:
    """Return the part of a state's summary that describes the machine.

    `minibatch` returns the hash of a fixed minibatch (`minibatch.py`). It is left out on an accelerator that is not
    `deterministic`, where it would differ from one call to the next.
    """
    found = {"device": str(device), "torch_threads": torch.get_num_threads(), "torch": torch.__version__}
    replayed = {"minibatch": minibatch()} if device.type == "cpu" or deterministic else {}
    return found | {"fingerprint": fingerprint(device)} | replayed


def fingerprint(device: torch.device) -> dict[str, str]:
    """Return processor, instruction sets, library versions and settings as text, by name."""
    found = {
        "cpu": _cpu(),
        "instruction_sets": _instruction_sets(),
        "torch_instruction_set": torch.backends.cpu.get_cpu_capability(),
        "numpy": np.__version__,
        "warp": _installed("warp-lang"),
        "blas": _blas(),
        "onednn": _built_with(r"MKL-DNN v(\S+)"),
        "libc": " ".join(platform.libc_ver()),
        "settings": _settings(SETTINGS),
    }
    return found | (_gpu(device) if device.type == "cuda" else {})


@cache
def _first_cpu() -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo; empty where there is none."""
    try:
        text = CPU_INFO.read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def _cpu() -> str:
    named = _first_cpu()
    words = [named[key] if key == "model name" else f"{key} {named[key]}" for key in MODEL if key in named]
    return ", ".join(words) or platform.processor() or platform.machine()


def _instruction_sets() -> str:
    flags = next((_first_cpu()[key] for key in FLAGS if key in _first_cpu()), "")
    return " ".join(sorted(flag for flag in flags.split() if VECTOR.match(flag)))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _blas() -> str:
    """Return the BLAS of torch and that of numpy, with versions."""
    torchs = " ".join([_built_with(r"BLAS_INFO=(\w+)"), _built_with(r"Math Kernel Library Version (\S+)")])
    numpys: Any = np.show_config(mode="dicts")
    found = numpys["Build Dependencies"]["blas"]
    return f"torch: {torchs}, numpy: {found['name']} {found.get('version', '')}".strip()


@cache
def _built_with(pattern: str) -> str:
    match = re.search(pattern, torch.__config__.show())
    return match[1] if match else "none"


def _settings(names: tuple[str, ...]) -> str:
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


def _gpu(device: torch.device) -> dict[str, str]:
    libraries = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    return {
        "gpu": torch.cuda.get_device_name(device),
        "cuda_libraries": libraries,
        "gpu_settings": _settings(GPU_SETTINGS),
    }
