"""The lock: one holder, and none when its process is dead."""

import subprocess
import sys

import pytest

from sparring.agents.run.folder import RunLock, RunLockedError

HOLD = "import sys; sys.path.insert(0, '.'); from sparring.agents.run.folder import RunLock; from pathlib import Path; "
HOLD += "lock = RunLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def holder(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_killed_holder_leaves_no_lock(tmp_path):
    process = holder(tmp_path)
    with pytest.raises(RunLockedError, match=rf"process {process.pid} on .* is training there"):
        RunLock(tmp_path)
    process.kill()
    process.communicate()
    RunLock(tmp_path).release()


def test_released_means_free(tmp_path):
    for _ in range(2):
        RunLock(tmp_path).release()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(RunLockedError, match="gone: cannot be written"):
        RunLock(tmp_path / "gone")
