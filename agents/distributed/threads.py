"""Threads, determinism and memory of training and evaluation; two halves in parallel, and the end of a worker process.

Two independent computations run in parallel, each on half of the cores: actor and critic, or the halves of a batch.
Nothing is exchanged, so the results equal sequential ones bit for bit. For small networks this uses a second core
better than splitting each matrix product: it waits once per minibatch instead of once per layer. torch releases the
GIL inside its operations, so a plain thread suffices.

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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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


First = TypeVar("First")
Second = TypeVar("Second")


class ParallelHalves:
    """Runner of two functions: `both(f, g)` calls f here and g in a second thread, or after f if not `parallel`.

    torch's autocast and gradient mode are per thread, so g must enter its own contexts. Its operations use as many
    threads as those of the thread that created this object.
    """

    def __init__(self, *, parallel: bool) -> None:
        threads = torch.get_num_threads()
        set_threads = lambda: torch.set_num_threads(threads)  # noqa: E731
        self._pool = ThreadPoolExecutor(1, "second-half", initializer=set_threads) if parallel else None

    def both(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """Return the results of both; an error of either is raised once both have ended."""
        if self._pool is None:
            return first(), second()
        later = self._pool.submit(second)
        try:
            result = first()
        finally:
            later.exception()  # waits
        return result, later.result()

    def close(self) -> None:
        """Stop the thread."""
        if self._pool is not None:
            self._pool.shutdown()


PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, at once if that is no longer process `parent`. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)
