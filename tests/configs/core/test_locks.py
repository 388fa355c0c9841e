"""Locks: one holder, waiting, and release when the holder dies, whatever it had forked."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sparring.configs.core.locks import FileLock, LockBusyError

HOLD = """
import os, sys, time
sys.path.insert(0, '.')
from pathlib import Path
from sparring.configs.core.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
child = os.fork() if sys.argv[2] == 'fork' else 0
if sys.argv[2] == 'plain' or child:
    print(child, flush=True)
time.sleep(float(sys.argv[3]))
"""


def holder(path, forks="plain", seconds=600.0):
    """Start a process that holds the lock, and return the id of the child it forked meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), forks, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return process, int(process.stdout.readline())


def test_held_lock_names_its_holder(tmp_path):
    process, _ = holder(tmp_path / "lock")
    with pytest.raises(LockBusyError, match=rf"held by process {process.pid} on "):
        FileLock(tmp_path / "lock")
    process.kill()
    process.wait()
    FileLock(tmp_path / "lock").release()


def test_waiter_gets_lock_when_holder_exits(tmp_path):
    process, _ = holder(tmp_path / "lock", seconds=0.3)
    with FileLock(tmp_path / "lock", patience=60.0):
        assert process.wait() == 0


def test_busy_lock_is_rejected_after_timeout(tmp_path):
    with FileLock(tmp_path / "lock"):
        started = time.monotonic()
        with pytest.raises(LockBusyError):
            FileLock(tmp_path / "lock", patience=0.05)
        assert time.monotonic() - started >= 0.05


def test_child_of_killed_holder_does_not_keep_lock(tmp_path):
    process, child = holder(tmp_path / "lock", "fork")
    try:
        process.kill()
        process.wait()
        FileLock(tmp_path / "lock", patience=10.0).release()
        os.kill(child, 0)  # raises if it is gone
    finally:
        os.kill(child, signal.SIGKILL)


def test_releasing_lock_is_idempotent(tmp_path):
    for _ in range(2):
        lock = FileLock(tmp_path / "lock")
        lock.release()
        lock.release()


def test_exception_in_block_releases_lock(tmp_path):
    with pytest.raises(KeyError), FileLock(tmp_path / "lock"):
        raise KeyError
    FileLock(tmp_path / "lock").release()


def test_unwritable_path_raises_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "gone" / "lock")
