"""End of a worker process with its parent: a killed trainer leaves no worker behind.

On Linux the kernel sends SIGKILL (`PR_SET_PDEATHSIG`); it acts when the *thread* that started the process ends, so that
thread must last as long as the worker is needed. Elsewhere a worker ends when it next uses the pipe to its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, at once if that is no longer process `parent`. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)
