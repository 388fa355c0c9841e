"""docs/grpo_traps.md matches the tests: every mistake has a row, and every row names existing tests."""

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "tests" / "agents" / "language" / "grpo"
PAGE = (ROOT / "docs" / "grpo_traps.md").read_text(encoding="utf-8")
ROWS = {int(number): cells for number, cells in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)}
NAMED = re.compile(r"`([\w./]+\.py)::([\w*]+)`")


def names_of(path):
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_mistake_has_row_and_tests():
    assert list(ROWS) == list(range(1, 33))
    assert all(NAMED.search(row) for row in ROWS.values())


def test_tests_named_in_rows_exist():
    for number, row in ROWS.items():
        for file, pattern in NAMED.findall(row):
            assert [name for name in names_of(HOME / file) if fnmatch(name, pattern)], (number, file, pattern)


def test_every_numbered_test_is_in_its_row():
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in names_of(path):
            if found := re.match(r"test_trap_(\d+)_", name):
                listed = NAMED.findall(ROWS[int(found[1])])
                files = {(HOME / file).resolve() for file, pattern in listed if fnmatch(name, pattern)}
                assert path in files, (path.name, name)
