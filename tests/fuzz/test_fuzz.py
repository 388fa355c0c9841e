"""Changed files of every kind: read as they are now, or refused in one line; never a traceback, much memory or time.

`python -m tests.fuzz FOLDER CASES READER` repeats one reader's cases, `material.make(FOLDER)` having made the files.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.fuzz.material import make
from tests.fuzz.readers import READERS

ROOT = Path(__file__).resolve().parents[2]
CASES, MANY = 3, 1500
"""Cases of each reader in every test run, and in `make slow`."""


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    folder = tmp_path_factory.mktemp("material")
    make(folder)
    return folder


def fuzz(material, cases, *readers):
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", str(material), str(cases), *readers]
    quick = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=quick, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-4000:]
    assert ended.stdout.count(f": {cases} cases, ") == len(readers)


def test_a_few_changes_of_every_file(material):
    fuzz(material, CASES, *READERS)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_many_changes_of_every_file(material, reader):
    fuzz(material, MANY, reader)
