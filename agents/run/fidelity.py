"""Whether a resumed run is bit-exact: the machine's fingerprint, a replayed minibatch, and the comparison of both.

torch, MKL, oneDNN, OpenBLAS and the C library choose their kernels by the processor at run time. Two machines with the
same versions therefore round differently when one has AVX-512 and the other AVX2, and so does one machine under
`ATEN_CPU_CAPABILITY` or `MKL_CBWR`. The fingerprint has what decides the last bits of a sum: processor, vector
instructions, libraries and their settings.

A training state also holds the hash of a fixed minibatch: loss, gradients and their norm, of made-up data under the
present weights. A resumed run computes it again with the state's weights. Equal bits are evidence that this machine
computes as the earlier one did; different bits prove that it does not. Nothing of the run is changed: the data have a
generator of their own, and gradients are not stored in the parameters.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

KEYS = ("num_envs", "processes", "device", "torch_threads", "halves", "torch")
"""Keys of a summary that affect bit-exact resuming: sums depend on device, threads and torch, batches on the rest."""
SETS = "instruction_sets"


def inexact(saved: Mapping[str, Any], now: Mapping[str, Any], *, deterministic: bool) -> list[str]:
    """Return reasons why a run continued from a state with summary `saved` is not bit-exact; empty if it is.

    `now` is the summary of a state on this machine; keys that it lacks are irrelevant to this trainer.
    """
    saved, now = ({"processes": 1, **summary} for summary in (saved, now))  # noted only where there may be several
    keys = [key for key in KEYS if key in now and saved.get(key) != now[key]]
    reasons = [f"{key} was {saved.get(key, 'not noted')} and is {now[key]}" for key in keys]
    if not keys and not str(now["device"]).startswith("cpu") and not deterministic:
        reasons.append("sums on an accelerator have no fixed order without deterministic=true")
    if not saved.get("episodes", True):
        reasons.append("the matches were lost with a process and start again")
    return reasons + _machine(saved, now)


def _machine(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare fingerprints and the replayed minibatch."""
    if "fingerprint" not in now:
        return []
    if "fingerprint" not in saved:
        return ["processor and libraries were not noted"]
    before, present = saved["fingerprint"], now["fingerprint"]
    names = [name for name in {**before, **present} if before.get(name) != present.get(name)]
    reasons = [_difference(name, before.get(name, ""), present.get(name, "")) for name in names]
    if "minibatch" not in now or "minibatch" not in saved or saved.get("device") != now["device"]:
        return reasons
    if saved["minibatch"] != now["minibatch"]:
        return [*reasons, "a replayed minibatch differs bitwise"]
    return [*reasons, "a replayed minibatch is still bitwise equal"] if reasons else []


def _difference(name: str, before: str, now: str) -> str:
    if name != SETS:
        return f"{name} was {before or 'not set'} and is {now or 'not set'}"
    lost, gained = (sorted(set(a.split()) - set(b.split())) for a, b in ((before, now), (now, before)))
    parts = [f"lacks {', '.join(lost)}"] * bool(lost) + [f"also has {', '.join(gained)}"] * bool(gained)
    return f"the processor {' and '.join(parts)}"


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


def machine(device: torch.device, *, deterministic: bool, minibatch: Callable[[], str] | None) -> dict[str, Any]:
    """Return the part of a state's summary that describes the machine.

    `minibatch` returns the hash of a fixed minibatch (`minibatch_sha256`), None if none can be computed. It is left out
    on an accelerator that is not `deterministic`, where it would differ from one call to the next.
    """
    about = {"device": str(device), "torch_threads": torch.get_num_threads(), "torch": torch.__version__}
    replayed = {"minibatch": minibatch()} if minibatch and (device.type == "cpu" or deterministic) else {}
    return about | {"fingerprint": fingerprint(device)} | replayed


def fingerprint(device: torch.device) -> dict[str, str]:
    """Return processor, instruction sets, library versions and settings as text, by name."""
    parts = {
        "cpu": _cpu(),
        "instruction_sets": _instruction_sets(),
        "torch_instruction_set": torch.backends.cpu.get_cpu_capability(),
        "numpy": np.__version__,
        "warp": version("warp-lang"),
        "blas": _blas(),
        "onednn": _built_with(r"MKL-DNN v(\S+)"),
        "libc": " ".join(platform.libc_ver()),
        "settings": _settings(SETTINGS),
    }
    return parts | (_gpu(device) if device.type == "cuda" else {})


@cache
def first_cpu() -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo; empty where there is none."""
    try:
        text = CPU_INFO.read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def _cpu() -> str:
    named = first_cpu()
    words = [named[key] if key == "model name" else f"{key} {named[key]}" for key in MODEL if key in named]
    return ", ".join(words) or platform.processor() or platform.machine()


def _instruction_sets() -> str:
    flags = next((first_cpu()[key] for key in FLAGS if key in first_cpu()), "")
    return " ".join(sorted(flag for flag in flags.split() if VECTOR.match(flag)))


def _blas() -> str:
    """Return the BLAS libraries of torch and numpy, with versions."""
    torchs = " ".join([_built_with(r"BLAS_INFO=(\w+)"), _built_with(r"Math Kernel Library Version (\S+)")])
    numpys: Any = np.show_config(mode="dicts")
    blas = numpys["Build Dependencies"]["blas"]
    return f"torch: {torchs}, numpy: {blas['name']} {blas.get('version', '')}".strip()


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


SEED = 20_231


def minibatch_sha256(loss: Callable[[torch.Generator], Tensor], parameters: Iterable[Tensor]) -> str:
    """Return the SHA-256 of `loss`, of its gradients in `parameters` that require one, and of the gradients' norm.

    `loss` draws its data from the CPU generator that it is given and must not draw elsewhere.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    with torch.enable_grad():
        value = loss(torch.Generator().manual_seed(SEED))
        by_parameter = torch.autograd.grad(value, trained, allow_unused=True)
    gradients = [gradient for gradient in by_parameter if gradient is not None]
    digest = sha256()
    # The norm is the longest sum of an update; with other vector widths its order differs first.
    for tensor in (value, *gradients, get_total_norm(gradients)):
        digest.update(tensor.detach().to("cpu").contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
