"""Planted faults match the current code, and trials separate caught from survived."""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.checkout import NO_FINDER, Checkout
from tests.mutation.faults import Fault, FaultError, read_faults
from tests.mutation.page import page
from tests.mutation.results import store, stored
from tests.mutation.trial import BROKEN, CAUGHT, SLOW, SURVIVED, TrialResult, Trials

ROOT = Path(__file__).resolve().parents[2]
FAULTS = read_faults()
LEAST = 100
ROOMS = ("agents", "curriculum", "envs", "eval")
"""Rooms of faults; `tests.mutation.server` keeps `configs` loaded."""


@pytest.mark.parametrize("area", sorted({fault.area for fault in FAULTS}))
def test_every_fault_can_be_planted(area):
    """Its old text occurs once, the result is valid Python, and its tests exist."""
    for fault in [fault for fault in FAULTS if fault.area == area]:
        assert fault.file.split("/")[0] in ROOMS, fault.name
        ast.parse(fault.changed(ROOT))
        for test in fault.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), f"{fault.name}: {file} does not exist"
            assert not name or f"def {name}(" in (ROOT / file).read_text(), f"{fault.name}: {test} does not exist"


def test_there_are_enough_distinct_faults():
    assert len(FAULTS) >= LEAST
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
    layers = {"evaluation": "eval", "browser": "eval", "training": "agents"}
    assert {
        next(filter(None, map(layers.get, fault.file.split("/"))), fault.file.split("/")[0]) for fault in FAULTS
    } == {*ROOMS}


TOY = Fault(area="toy", what="minus", file="toy/sum.py", old="a + b", new="a - b", tests=("tests/test_toy.py",))


@pytest.fixture
def toy(tmp_path):
    """Create a tree with one module and its test, and a trial server."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/sum.py").write_text("def add(a, b):\n    assert a < 100\n    return a + b\n")
    shutil.copytree(ROOT / "tests/mutation", tmp_path / "tests/mutation", ignore=shutil.ignore_patterns("__pycache__"))
    test = "from toy.sum import add\n\n\ndef test_sum():\n    assert add(1, 2) == 3\n"
    (tmp_path / "tests/test_toy.py").write_text(test)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"old": "a * b"}, "'a * b' occurs 0 times in toy/sum.py; give the text as it is now"),
        ({"old": "a"}, "'a' occurs 5 times in toy/sum.py; give more of the text around it"),
        ({"new": "a + b"}, "old and new text are equal"),
        ({"file": "toy/product.py"}, "toy/product.py does not exist"),
    ],
)
def test_outdated_fault_is_named(toy, change, words):
    with pytest.raises(FaultError, match="toy: minus: ") as raised:
        replace(TOY, **change).plant(toy)
    assert words in str(raised.value)


def test_entry_with_unknown_key_is_named(tmp_path):
    (tmp_path / "toy.toml").write_text('[[fault]]\nwhat = "minus"\nfile = "a"\nold = "b"\nnew = "c"\ntest = ["d"]\n')
    with pytest.raises(FaultError, match=r"toy\.toml: minus: test is missing or unknown"):
        read_faults(tmp_path)


def test_trials_separate_caught_from_survived_and_restore_tree(toy, monkeypatch):
    faults = {
        CAUGHT: TOY,
        SURVIVED: replace(TOY, old="a < 100", new="a < 101"),
        BROKEN: replace(TOY, old="return", new="return +*"),
        SLOW: replace(TOY, old="assert a < 100", new="while a: __import__('time').sleep(0.1)"),
    }
    before = {path: path.read_bytes() for path in (toy / "toy").glob("*.py")}
    trials = Trials(checkout_of(toy), libraries=("pytest",))
    trials.measure(TOY.tests)
    results = {outcome: trials.run(faults[outcome]) for outcome in (CAUGHT, SURVIVED, BROKEN)}
    monkeypatch.setattr("tests.mutation.trial.START", 1.0)
    results[SLOW] = trials.run(faults[SLOW])
    assert {path: path.read_bytes() for path in (toy / "toy").glob("*.py")} == before
    faults[CAUGHT].plant(toy)
    with pytest.raises(FaultError, match=r"fail without any fault: FAILED tests/test_toy\.py::test_sum"):
        trials.measure(TOY.tests)
    trials.close()
    assert {outcome: result.outcome for outcome, result in results.items()} == {outcome: outcome for outcome in faults}
    assert [result.caught for result in results.values()] == [True, False, False, True]
    assert results[CAUGHT].noticed_by == "tests/test_toy.py::test_sum"


def checkout_of(toy):
    """Return the tree as something to run; project imports find nothing in it."""
    imports = toy / "imports"
    imports.mkdir()
    (imports / "sitecustomize.py").write_text(NO_FINDER)
    return Checkout(toy, imports, {})


def test_caught_faults_are_not_repeated_until_file_changes(toy):
    file, result = toy / "results.jsonl", TrialResult(TOY, CAUGHT, 1.5, "tests/test_toy.py::test_sum")
    assert stored(file, [TOY], toy) == []
    store(file, result, toy)
    survivor = replace(TOY, new="b + a")
    store(file, TrialResult(survivor, SURVIVED, 1.0), toy)
    assert stored(file, [TOY, survivor, replace(TOY, new="b - a")], toy) == [result]
    (toy / "toy/sum.py").write_text("def add(a, b):\n    return a + b\n")
    assert stored(file, [TOY], toy) == []


def test_page_counts_and_names_survivors():
    same = replace(TOY, what="same", equivalent="Addition commutes.")
    results = [TrialResult(TOY, CAUGHT, 1.0), TrialResult(TOY, SLOW, 9.0), TrialResult(same, SURVIVED, 1.0)]
    text = page(results, command="make mutation", commit="abc", machine="m", seconds=120.0, factor=10.0, listed=4)
    assert "| tried | 3 of 4 |" in text
    assert "| caught | 2 of 3 (66.7%) |" in text
    assert "| toy | 3 | 2 |" in text
    assert "- toy: same (`toy/sum.py`): Addition commutes." in text
