"""Mutated files of every kind: read as they are, or rejected in one line, within memory and time limits.

`python -m tests.fuzz FOLDER CASES READER` repeats one reader's cases, `material.make(FOLDER)` having made the files.
"""

import sys
import warnings
from importlib import import_module

import pytest

pytest.importorskip("transformers")

from tests.agents.faults import victims
from tests.fuzz.material import make
from tests.fuzz.readers import READERS

CASES, MANY = 4, 1500
"""Cases of each reader in every test run, and in `make slow`."""


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    folder = tmp_path_factory.mktemp("material")
    make(folder)
    return folder


def fuzz(material, cases, *readers):
    """Fuzz in a separate process with limited memory and time."""
    code, said = victims.listen(_main, [str(material), str(cases), *readers])
    assert code == 0, said[-8000:]
    assert said.count(f": {cases} cases, ") == len(readers)


def _main(arguments):
    warnings.simplefilter("ignore")
    sys.exit(import_module("tests.fuzz.__main__").main(arguments))


def test_few_mutations_of_every_file(material):
    fuzz(material, CASES, *READERS)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_many_mutations_of_every_file(material, reader):
    fuzz(material, MANY, reader)
