"""The precision of the networks: float32, or after some warm-up updates less in the matrix products.

`auto` means bf16 if the device multiplies it faster than float32: CUDA devices that support it, CPUs with AMX-BF16, and
AMD CPUs with AVX512-BF16. Intel cores have that too, but half as fast as float32 (docs/results/speed.md), and emulated
bf16 is many times slower. Only the networks run under the context; densities, losses and the KL stay in float32.
Collect under the same context as the update; otherwise the first ratios are not equal to 1.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from sparring.agents.run.fidelity import first_cpu
from sparring.configs.core.errors import choose
from sparring.configs.schema import PRECISIONS


class Autocast:
    """Full precision for the first `warmup_updates`, then `precision` (one of `PRECISIONS`) on `device`.

    `dtype` is the lower precision, or None. `scaler` scales the loss for fp16 and is disabled otherwise. fp16 on a CPU
    is treated as `auto`; bf16 where it is slow runs slowly. `note` then holds a warning, else it is empty.
    """

    def __init__(self, precision: str, device: torch.device | str, *, warmup_updates: int = 0) -> None:
        self.device = torch.device(device)
        self.dtype = resolve(precision, self.device)
        self.note = note(precision, self.device)
        self.warmup_updates = warmup_updates
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)

    def context(self, update: int) -> AbstractContextManager[object]:
        """Create a context for the forward passes of update number `update` (from 0).

        Leave it before weights change: it caches low-precision copies.
        """
        lower = self.dtype is not None and update >= self.warmup_updates
        return torch.autocast(self.device.type, dtype=self.dtype or torch.bfloat16, enabled=lower)


def resolve(precision: str, device: torch.device) -> torch.dtype | None:
    """Return the lower precision for `precision` on `device`, None for float32; raise on unknown names."""
    choose("ppo.precision", precision, PRECISIONS)
    if precision == "auto" or (precision == "fp16" and device.type != "cuda"):
        precision = "bf16" if fast_bf16(device) else "fp32"
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def note(precision: str, device: torch.device) -> str:
    """Return a one-line warning about `precision` on `device`; empty if it is used as configured."""
    if precision == "fp16" and device.type != "cuda":
        instead = "bf16" if fast_bf16(device) else "fp32"
        return f"ppo.precision=fp16 is made for CUDA; this device is {device.type}, and trains in {instead} instead"
    if precision == "bf16" and not fast_bf16(device):
        return f"ppo.precision=bf16 is slower than fp32 on this {device.type}; fp32 or auto is faster"
    return ""


def fast_bf16(device: torch.device) -> bool:
    """Return True if `device` multiplies bf16 matrices faster than float32 ones."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    flags, amd = first_cpu().get("flags", "").split(), first_cpu().get("vendor_id") == "AuthenticAMD"
    return device.type == "cpu" and ("amx_bf16" in flags or ("avx512_bf16" in flags and amd))
