"""A worker exits when its parent process ends, for whatever reason."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process of its parent")

CHILD = """
import os, sys, time
from sparring.configs.core.device import end_with_parent
end_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
while True:
    pass  # busy, with no pipe to notice the end by
"""
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
time.sleep(600)
"""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid, seconds=20.0):
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def test_busy_child_exits_when_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    try:
        assert is_running(child)
        parent.kill()
        parent.wait()
        assert ends(child)
    finally:
        if is_running(child):
            os.kill(child, signal.SIGKILL)


def test_child_of_dead_parent_exits_immediately():
    child = subprocess.Popen([sys.executable, "-c", CHILD, "1"], stdout=subprocess.PIPE)
    assert child.communicate(timeout=60)[0] == b""
    assert child.returncode == -signal.SIGKILL
