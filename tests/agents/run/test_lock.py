"""Run folder locks, and two concurrent starts."""

import os
import re
import socket
import subprocess
import sys

import pytest

from sparring.agents.run import folder as run_folder
from sparring.agents.run.folder import LOCK, RunFolder, RunFolderError, RunLock, RunLockedError
from sparring.agents.run.preflight import FolderClaim
from sparring.configs.core.errors import InputError
from tests.configs.run_configs import configured

HOLD = "import sys; sys.path.insert(0, '.'); from sparring.agents.run.folder import RunLock; from pathlib import Path; "
HOLD += "lock = RunLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def holder(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def test_killed_holder_leaves_no_lock(tmp_path):
    process = holder(tmp_path)
    with pytest.raises(RunLockedError, match=rf"process {process.pid} on .* is training there"):
        RunLock(tmp_path)
    process.kill()
    process.communicate()
    RunLock(tmp_path).release()


def test_released_run_can_be_locked_again(tmp_path):
    for _ in range(2):
        RunLock(tmp_path).release()


def test_unwritable_folder_is_named(tmp_path):
    with pytest.raises(RunLockedError, match="gone: cannot be written"):
        RunLock(tmp_path / "gone")


START = """
import sys
from dataclasses import replace
from sparring.agents.run.preflight import FolderClaim
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
root, seed = sys.argv[1:]
loaded = load(["+run=quickstart", f"checkpoint_dir={root}", f"seed={seed}"])
for line in sys.stdin:
    config = replace(loaded, name=line.strip())
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with FolderClaim(config) as claim:
            claim.folder()
            print("trains", flush=True)
            sys.stdin.readline()
    except InputError as error:
        print(error, flush=True)
        sys.stdin.readline()
"""


def config(root, *options):
    return configured(("+run=quickstart", "name=mine"), f"checkpoint_dir={root}", *options)


def test_concurrent_starts_train_once_and_name_process_and_host(tmp_path):
    """Two processes look for the folder and create it simultaneously, for twenty names."""
    arguments = [[sys.executable, "-c", START, str(tmp_path), seed] for seed in "12"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for command in arguments]

    def tell(line):
        for process in both:
            process.stdin.write(line)
            process.stdin.flush()

    for number in range(20):
        tell(f"run-{number}\n")
        for process in both:
            assert process.stdout.readline() == "ready\n"
        tell("go\n")
        said = [process.stdout.readline() for process in both]
        tell("end\n")
        assert said.count("trains\n") == 1
        winner, loser = both[said.index("trains\n")], next(line for line in said if line != "trains\n")
        assert re.search(rf"process {winner.pid} on {re.escape(socket.gethostname())} is training there", loser)
    for process in both:
        process.communicate()
        assert process.returncode == 0


def test_folder_created_during_lookup_is_treated_as_run(tmp_path, monkeypatch):
    """The other start creates it between the failed listing and the next file system call."""
    first, listdir, calls = FolderClaim(config(tmp_path)), os.listdir, []

    def listing(path):
        calls.append(path)
        if calls.count(tmp_path / "mine") == 1 and path == tmp_path / "mine":
            first.folder()
            raise FileNotFoundError(path)
        return listdir(path)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.os, "listdir", listing)
        late = FolderClaim(config(tmp_path))
    with first, pytest.raises(RunLockedError, match=rf"process {os.getpid()} on .* is training there"):
        late.folder()


def test_late_start_names_creator_of_folder(tmp_path):
    late = FolderClaim(config(tmp_path))
    with FolderClaim(config(tmp_path)) as first:
        first.folder()
        with pytest.raises(RunLockedError, match=rf"process {os.getpid()} on .* is training there"):
            late.folder()
    with pytest.raises(RunFolderError, match="was created by another process; start again to continue"):
        late.folder()


def test_running_trainer_is_named_before_differing_options(tmp_path):
    with FolderClaim(config(tmp_path)) as first:
        (first.folder().path / "metrics.jsonl").write_text("{}\n")
        with pytest.raises(RunLockedError, match="is training there"):
            FolderClaim(config(tmp_path, "seed=7"))


def test_rejected_lock_does_not_name_ended_process(tmp_path):
    """The lock file keeps the last holder's name until the next one writes its own."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock = RunLock(tmp_path)
    (tmp_path / LOCK).write_text(f"process {ended.pid} on {socket.gethostname()}\n")
    code = "import sys, time; time.sleep(0.5); open(sys.argv[1], 'w').write(sys.argv[2])"
    own = f"process {os.getpid()} on {socket.gethostname()}\n"
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / LOCK), own])
    with pytest.raises(RunLockedError, match=own.strip()):
        RunLock(tmp_path)
    writer.wait()
    lock.release()


def test_start_killed_before_configuration_frees_name(tmp_path):
    RunFolder.create(tmp_path, "mine")
    with FolderClaim(config(tmp_path, "seed=7")) as claim:
        assert not claim.existed
        assert claim.folder().read_config()["seed"] == 7


def test_folder_and_lock_are_created_atomically(tmp_path, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_folder.Path, "rename", kill)
    with pytest.raises(KeyboardInterrupt):
        RunFolder.create(tmp_path, "mine")
    assert not (tmp_path / "mine").exists()


def test_foreign_empty_folder_is_not_taken(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="exists and is not a run's folder"):
        FolderClaim(config(tmp_path))
