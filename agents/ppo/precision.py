"""Which arithmetic the networks use: float32, or lower precision in their matrix products from some update on.

`auto` means bf16 exactly where the device computes it natively: CUDA devices that have it, and CPUs with AVX512-BF16 or
AMX-BF16. Elsewhere it is emulated and many times slower than float32. Only the networks run under the context;
densities, losses and the KL stay in float32. Collect under the same context as the update, or the first ratios are not
equal to 1.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from configs.names import choose

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
CPU_INFO = Path("/proc/cpuinfo")


class Autocast:
    """Full precision for the first `warmup_updates`, then `precision` (one of `PRECISIONS`) on `device`.

    `dtype` is the lower precision, or None when there is none. `scaler` scales the loss for fp16 and is otherwise idle.
    fp16 on a CPU warns and is taken as `auto`; bf16 on a device without it warns, and runs slowly.
    """

    def __init__(self, precision: str, device: torch.device | str, *, warmup_updates: int = 0) -> None:
        self.device = torch.device(device)
        self.dtype = resolve(precision, self.device)
        self.warmup_updates = warmup_updates
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)

    def active(self, update: int) -> bool:
        """Whether update number `update` (from 0) runs in lower precision."""
        return self.dtype is not None and update >= self.warmup_updates

    def context(self, update: int) -> AbstractContextManager[object]:
        """Make a context for forward passes; leave it before the weights change, for it caches low-precision copies."""
        return torch.autocast(self.device.type, dtype=self.dtype or torch.bfloat16, enabled=self.active(update))


def resolve(precision: str, device: torch.device) -> torch.dtype | None:
    """Return the lower precision that `precision` means on `device`, None for float32; refuse unknown names."""
    choose("ppo.precision", precision, PRECISIONS)
    if precision == "fp16" and device.type != "cuda":
        warnings.warn(f"ppo.precision=fp16 needs CUDA, not {device.type}: using auto instead", stacklevel=3)
        precision = "auto"
    native = native_bf16(device)
    if precision == "bf16" and not native:
        warnings.warn(f"ppo.precision=bf16 is emulated by this {device.type}: fp32 or auto is faster", stacklevel=3)
    if precision == "auto":
        precision = "bf16" if native else "fp32"
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def native_bf16(device: torch.device) -> bool:
    """Whether `device` multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and not cpu_flags().isdisjoint({"avx512_bf16", "amx_bf16"})


def cpu_flags() -> set[str]:
    """Feature flags of the first CPU as Linux names them; empty where Linux does not say."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())
