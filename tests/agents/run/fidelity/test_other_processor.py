"""A run that is resumed on what libraries take for another processor: it says that it is inexact, and why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparring.agents.run.folder import RunFolder
from sparring.agents.trainers import train
from tests.agents.ppo.small_run import config

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A run with one update done, on this processor as it is."""
    root = tmp_path_factory.mktemp("started")
    train(config(root, max_updates=1))
    return root


def resumed(started, root, **settings):
    """What the second update prints in a process with these environment variables, and the events of the run."""
    shutil.copytree(started / "small", root / "small")
    command = [sys.executable, "train.py", "resume=small", f"checkpoint_dir={root}", "max_updates=2"]
    environment = os.environ | settings
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, (RunFolder(root / "small").path / "events.jsonl").read_text()


def test_the_same_processor_says_nothing(started, tmp_path):
    for text in resumed(started, tmp_path):
        assert "resumed after update 1" in text
        assert "inexact" not in text


def test_another_instruction_set_is_named(started, tmp_path):
    settings = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    for text in resumed(started, tmp_path, **settings):
        (line,) = (line for line in text.splitlines() if "inexact resume: " in line)
        assert "torch_instruction_set was " in line
        assert " and is DEFAULT" in line
        assert "ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE" in line
        assert "a replayed minibatch gives other bits" in line


def test_a_setting_of_onednn_is_named_even_where_the_bits_stay(started, tmp_path):
    for text in resumed(started, tmp_path, ONEDNN_MAX_CPU_ISA="SSE41"):
        assert "inexact resume: settings was " in text
        assert "ONEDNN_MAX_CPU_ISA=SSE41" in text
        assert "a replayed minibatch gives " in text
