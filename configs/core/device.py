"""Machine of a command: cores and threads (or a cluster), devices by name, and the end of its processes.

torch is imported late: options are validated without it. A killed trainer does not leave worker processes behind. On
Linux the kernel sends SIGKILL (`PR_SET_PDEATHSIG`) when the *thread* that started the process ends, so the thread must
last as long as the worker is needed. Elsewhere a worker ends when it next uses the pipe to its parent.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import DEVICE

if TYPE_CHECKING:
    import torch

LOCAL, RAY = "local", "ray"
EXECUTORS = (LOCAL, RAY)


def usable_cores() -> int:
    """Count the cores this process may use; all cores if the system does not report it (macOS)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def in_daemon_thread(call: Callable[[], Any]) -> Any:
    """Return `call()`, run in a daemon thread while this one waits, which Ctrl-C interrupts."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # raised by `result`
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result()


@dataclass(frozen=True)
class Executor:
    """Where tasks run: `workers` processes of this machine, or the Ray cluster at `address`."""

    kind: str = LOCAL
    address: str = "auto"
    """Address of Ray's head, such as 10.0.0.1:6379; auto is the cluster that this machine belongs to."""
    workers: int = 1
    threads: int = 0
    """CPU threads of a task; 0: every core, divided among local workers, and one on a cluster."""

    @property
    def alone(self) -> bool:
        """True if the tasks run in this process."""
        return self.kind == LOCAL and self.workers == 1

    @property
    def task_threads(self) -> int:
        """CPU threads of a task; 0 (all cores) only if the tasks run in this process."""
        if self.threads or self.alone:
            return self.threads
        return 1 if self.kind == RAY else max(usable_cores() // self.workers, 1)


HERE = Executor()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device for `name`: auto (cuda where there is one), cpu, cuda or cuda:N.

    Of several processes on this machine, `local_rank` 0, 1, ..., each gets the next device unless one is named. Raises
    `ConfigError` for any other name, and for a missing CUDA device.
    """
    import torch

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


def make_deterministic() -> None:
    """Make torch sum in a fixed order, at some cost on an accelerator; a CPU does so anyway.

    The dogfight's kernels need no setting: each thread plays one match, and no two threads add to the same value.
    """
    import torch

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
    import torch

    one_gpu_each = device.type != "cpu" and torch.cuda.device_count() >= local_size
    return "cpu:gloo,cuda:nccl" if one_gpu_each else "gloo"


def set_threads(threads: int, local_size: int = 1, *, halves: bool = False) -> int:
    """Set the number of CPU threads, by default one per usable core, and return it.

    The default is divided evenly among the `local_size` processes that train together on this machine.

    The simulator uses all of them. torch uses half by default, and with `halves` always: two computations run in
    parallel, such as actor and critic, each on half. Splitting the matrix products of small networks gains nothing,
    because threads synchronize after every product.
    """
    import torch

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
