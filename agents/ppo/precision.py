"""Which arithmetic the networks use: float32, or lower precision in their matrix products from some update on.

`auto` means bf16 exactly where the device computes it natively: CUDA devices that have it, and CPUs with AVX512-BF16 or
AMX-BF16. Elsewhere it is emulated and many times slower than float32. Only the networks run under the context;
densities, losses and the KL stay in float32. Collect under the same context as the update, or the first ratios are not
equal to 1.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import torch

from sparring.configs.core.errors import choose

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
CPU_INFO = Path("/proc/cpuinfo")


class Autocast:
    """Full precision for the first `warmup_updates`, then `precision` (one of `PRECISIONS`) on `device`.

    `dtype` is the lower precision, or None when there is none. `scaler` scales the loss for fp16 and is otherwise idle.
    fp16 on a CPU is taken as `auto`; bf16 on a device without it runs slowly. `note` says so, else it is empty.
    """

    def __init__(self, precision: str, device: torch.device | str, *, warmup_updates: int = 0) -> None:
        self.device = torch.device(device)
        self.dtype = resolve(precision, self.device)
        self.note = note(precision, self.device)
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
    if precision == "auto" or (precision == "fp16" and device.type != "cuda"):
        precision = "bf16" if native_bf16(device) else "fp32"
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def note(precision: str, device: torch.device) -> str:
    """What a person should know about `precision` on `device`, as one line; empty where it is as asked."""
    if precision == "fp16" and device.type != "cuda":
        instead = "bf16" if native_bf16(device) else "fp32"
        return f"ppo.precision=fp16 is made for CUDA; this device is {device.type}, and trains in {instead} instead"
    if precision == "bf16" and not native_bf16(device):
        return f"ppo.precision=bf16 is emulated by this {device.type}; fp32 or auto is faster"
    return ""


def native_bf16(device: torch.device) -> bool:
    """Whether `device` multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and not cpu_flags().isdisjoint({"avx512_bf16", "amx_bf16"})


def cpu_flags() -> set[str]:
    """Feature flags of the first CPU as Linux names them; empty where Linux does not say."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())
