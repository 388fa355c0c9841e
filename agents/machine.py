"""The machine a command runs on: which device, how many threads, how memory is kept."""

from __future__ import annotations

import ctypes
import os
import platform

import torch

from configs.names import ConfigError


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Find the device meant by `config.device`; raises `ConfigError` where there is no such CUDA device.

    Of several processes on this machine, `local_rank` 0, 1, ..., each gets the next device unless one is named.
    """
    count = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and count == 0):
        return torch.device("cpu")
    index = int(name.partition(":")[2] or local_rank % max(count, 1))
    if index >= count:
        raise ConfigError(f"device={name}: this machine has {count} CUDA devices; use device=cpu or device=auto")
    return torch.device("cuda", index)


def keep_freed_memory() -> None:
    """Tell glibc to reuse large freed blocks: page faults on fresh ones cost up to a quarter of an update."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: blocks below 32 MiB come from the heap,
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: which is never given back


def backend(device: torch.device, local_size: int) -> str:
    """What `torch.distributed` sends tensors by: NCCL where each of this machine's processes has a GPU of its own."""
    own = device.type != "cpu" and torch.cuda.device_count() >= local_size
    return "cpu:gloo,cuda:nccl" if own else "gloo"


def set_threads(threads: int, local_size: int = 1) -> int:
    """Set the CPU threads: `threads` of them, or by default every core this process may use; returns their number.

    The default is divided evenly among the `local_size` processes that train together on this machine.

    By default torch takes half of them and the simulator all: actor and critic are learned side by side, each on half.
    The products of small networks gain nothing from being shared out, for the threads wait for each other after every
    one of them.
    """
    count = threads or max(len(os.sched_getaffinity(0)) // local_size, 1)
    torch.set_num_threads(threads or max(count // 2, 1))
    return count
