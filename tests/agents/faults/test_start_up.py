"""SIGTERM during or just after startup: exit code 75 and no traceback. Ctrl-C during imports."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).resolve().parents[3]


def command(root):
    options = ["+run=quickstart", "name=mine", f"checkpoint_dir={root}", "logger.progress=false", "env.num_envs=8"]
    return [sys.executable, str(ROOT / "train.py"), *options, "ppo.rollout_steps=16", "ppo.minibatch_size=64"]


@pytest.mark.parametrize("seconds", [0.3, 2.0])
def test_sigterm_during_start_exits_with_75(tmp_path, seconds):
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 75, said
    assert "Traceback" not in said


@pytest.mark.slow
def test_signal_after_end_exits_with_0_or_requests_noop_start(tmp_path):
    run = [*command(tmp_path), "max_updates=1"]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert any(line.startswith("done after 1 update") for line in process.stdout)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) in (0, 75)


SWALLOWS = """
import os
try:
    os.kill(os.getpid(), {number})
    for _ in range(1000):  # the handler runs between two instructions
        pass
except BaseException:
    pass
"""


def test_library_import_cannot_swallow_sigterm(tmp_path):
    swallows = SWALLOWS.format(number=int(signal.SIGINT))
    (tmp_path / "yaml.py").write_text(swallows, encoding="utf-8")  # train.py's first import
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    run = [*command(tmp_path), "max_updates=1"]
    process = subprocess.run(run, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=120)
    assert (process.returncode, process.stderr) == (130, "")


COMPILES = """
import ctypes
import warp as wp
from sparring.envs import launcher
def deadlock(*_, **__):
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    lock(mutex)
    print("compiling", flush=True)
    lock(mutex)
wp.load_module = deadlock
import sys
import sparring.train as train
sys.exit(train.main())
"""
"""A call of native code that does not end, in which Python runs no handler, as in Warp's compiler."""


def test_ctrl_c_stops_start_during_compilation(tmp_path):
    code, said = interrupted(tmp_path, COMPILES, "compiling")
    assert code == 130
    assert said.strip().endswith("stopped by Ctrl-C; the same command starts or continues the run")


def interrupted(root, script, at):
    """Return exit code and messages of a starting run that gets SIGINT when it prints the line `at`."""
    run = [sys.executable, "-c", script, *command(root)[2:], "threads=1", "device=cpu"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    # Tests that a shell runs in the background ignore SIGINT, and so would the run.
    with subprocess.Popen(run, **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        try:
            assert any(line == f"{at}\n" for line in process.stdout)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, said


def test_library_called_at_start_cannot_swallow_sigterm():
    lines = indent(SWALLOWS.format(number=int(signal.SIGTERM)), "    ")
    code = f"from sparring.agents.run.signals import stopping_at_once\nwith stopping_at_once():{lines}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert process.returncode == 75
    assert process.stderr.strip() == "stopped by SIGTERM; the same command starts or continues the run"
