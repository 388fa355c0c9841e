"""Threads, determinism and memory of training and evaluation, and the end of a worker process.

A killed trainer leaves no worker process behind. On Linux the kernel sends SIGKILL (`PR_SET_PDEATHSIG`); it acts when
the *thread* that started the process ends, so that thread must last as long as the worker is needed. Elsewhere a worker
ends when it next uses the pipe to its parent.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

import torch

from sparring.configs.core.device import usable_cores


def make_deterministic() -> None:
    """Make torch sum in a fixed order, at some cost on an accelerator; a CPU does so anyway.

    The dogfight's kernels need no setting: each thread plays one match, and no two threads add to the same value.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS, read at its start
    torch.use_deterministic_algorithms(True)


def keep_freed_memory() -> None:
    """Configure glibc to reuse large freed blocks: page faults on new blocks take up to a quarter of an update."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: blocks below 32 MiB come from the heap,
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: which never shrinks


def backend(device: torch.device, local_size: int) -> str:
    """Return the `torch.distributed` backend: NCCL if each process of this machine has its own GPU, else gloo."""
    own = device.type != "cpu" and torch.cuda.device_count() >= local_size
    return "cpu:gloo,cuda:nccl" if own else "gloo"


def set_threads(threads: int, local_size: int = 1, *, halves: bool = False) -> int:
    """Set the number of CPU threads, by default one per usable core, and return it.

    The default is divided evenly among the `local_size` processes that train together on this machine.

    The simulator uses all of them. torch uses half by default, and with `halves` always: two computations run in
    parallel, such as actor and critic, each on half. Splitting the matrix products of small networks gains nothing,
    because threads synchronize after every product.
    """
    count = threads or max(usable_cores() // local_size, 1)
    torch.set_num_threads(threads if threads and not halves else max(count // 2, 1))
    return count


PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, at once if that is no longer process `parent`. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)
