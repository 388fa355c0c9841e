"""Machine that a command runs on: its usable cores, and the device that a name means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import DEVICE

if TYPE_CHECKING:
    import torch


def usable_cores() -> int:
    """Count the cores this process may use; all cores where the system gives no number (macOS)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device for `name`: auto (cuda where there is one), cpu, cuda or cuda:N.

    Of several processes on this machine, `local_rank` 0, 1, ..., each gets the next device unless one is named. Raises
    `ConfigError` for any other name, and for a missing CUDA device.
    """
    import torch  # here, since options are read and refused without it

    wrong = complaint(name, DEVICE)
    if wrong:
        raise ConfigError(f"device={name}: {wrong}")
    count = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and count == 0):
        return torch.device("cpu")
    index = int(name.partition(":")[2] or local_rank % max(count, 1))
    if index >= count:
        raise ConfigError(f"device={name}: this machine has {count} CUDA devices; use device=cpu or device=auto")
    return torch.device("cuda", index)
