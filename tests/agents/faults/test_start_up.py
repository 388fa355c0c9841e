"""SIGTERM while a run starts, or just after: exit code 75 at any moment, and no traceback."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def command(root):
    options = ["+run=quickstart", "name=mine", f"checkpoint_dir={root}", "logger.progress=false", "env.num_envs=8"]
    return [sys.executable, str(ROOT / "train.py"), *options, "ppo.rollout_steps=16", "ppo.minibatch_size=64"]


@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.0, 4.0])
def test_a_run_asked_to_stop_while_it_starts_ends_with_75(tmp_path, seconds):
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 75
    assert "Traceback" not in said
