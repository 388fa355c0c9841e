"""How training and evaluation use the machine: how many threads, how memory is kept."""

from __future__ import annotations

import ctypes
import os
import platform

import torch

from sparring.configs.core.device import usable_cores


def make_deterministic() -> None:
    """Have torch sum in a fixed order from now on, at some cost on an accelerator; a CPU does so anyway.

    The dogfight's kernels need nothing: a thread plays one match and adds to nothing that another one adds to.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for, read when it starts
    torch.use_deterministic_algorithms(True)


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
    count = threads or max(usable_cores() // local_size, 1)
    torch.set_num_threads(threads or max(count // 2, 1))
    return count
