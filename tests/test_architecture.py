"""The shape of the house: who may import whom, what lies at the top, and how long a file may be."""

import ast
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

TOP_LEVEL = {
    *("train.py", "envs", "agents", "curriculum", "configs", "eval", "checkpoints", "tests", "docs", "benchmarks"),
    *(
        "__init__.py",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        ".ci",
        ".gitignore",
    ),
}
MAY_IMPORT = {
    "configs": {"configs"},
    "envs": {"configs", "envs"},
    "curriculum": {"configs", "envs", "curriculum"},
    "agents": {"configs", "envs", "curriculum", "agents"},
    "eval": {"configs", "envs", "curriculum", "agents", "eval"},
    "train.py": {"configs", "envs", "curriculum", "agents"},
}
OURS = {"configs", "envs", "curriculum", "agents", "eval", "train", "tests", "benchmarks"}
LONGEST_FILE = 500


def ignored(name):
    patterns = [line.strip("/").split("/")[0] for line in (ROOT / ".gitignore").read_text().splitlines() if line]
    return name == ".git" or (name not in TOP_LEVEL and any(fnmatch(name, pattern) for pattern in patterns))


def python_files(*places):
    found = [ROOT / place for place in places]
    return sorted(file for place in found for file in ([place] if place.suffix == ".py" else place.rglob("*.py")))


def imported(source, room):
    """Full names of what Python source imports, wherever in the file; a relative import is of its own room."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"sparring.{room}" if node.level else str(node.module)
            names.update([start] if start != "sparring" else [f"sparring.{alias.name}" for alias in node.names])
    return names


def imported_rooms(source, room):
    """Rooms of the package that Python source imports, and `tests` or `benchmarks`; the package itself is `envs`."""
    names = {"sparring.envs" if name == "sparring" else name for name in imported(source, room)}
    return {name.removeprefix("sparring.").split(".")[0] for name in names} & OURS


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_follow_the_arrows(room):
    files = python_files(room)
    assert files
    for file in files:
        wrong = imported_rooms(file.read_text(), room) - MAY_IMPORT[room]
        assert not wrong, f"{file.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_benchmarks_stand_without_the_tests():
    """Tests may use what benchmarks share with them, never the other way round."""
    files = python_files("benchmarks")
    assert files
    assert [file.name for file in files if "tests" in imported_rooms(file.read_text(), "benchmarks")] == []


def test_the_arrows_would_notice_a_wrong_import():
    source = (
        "def f():\n    from sparring.agents.ppo import loop\n    import sparring.eval.run as run\n    from . import x\n"
    )
    assert imported_rooms(source, "envs") == {"agents", "eval", "envs"}


def test_every_import_of_a_room_is_under_the_name_of_the_package():
    """A folder called envs in the working directory, or a package called agents, is then never taken for ours."""
    rooms = {*MAY_IMPORT, "train"}
    for file in python_files(*MAY_IMPORT, "tests", "benchmarks", "docs"):
        wrong = {name for name in imported(file.read_text(), "") if name.split(".")[0] in rooms}
        assert not wrong, f"{file.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("heavy", ["warp", "torch"])
def test_importing_envs_stays_light(heavy):
    code = f"import sys, sparring; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_every_module_can_be_imported_under_another_name(room):
    """`import a.b.c as d` goes by the packages' attributes, which a name bound in an __init__.py can hide."""
    for file in python_files(room):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(["sparring", *(part for part in parts if part != "__init__")])
        names = {}
        exec(f"import {name} as found", names)
        assert names["found"].__name__ == name


def test_the_top_level_is_what_the_architecture_says():
    assert {path.name for path in ROOT.iterdir() if not ignored(path.name)} == TOP_LEVEL


def test_files_stay_short():
    lengths = {file: len(file.read_text().splitlines()) for file in python_files(*TOP_LEVEL)}
    assert {str(file.relative_to(ROOT)): n for file, n in lengths.items() if n > LONGEST_FILE} == {}


def test_there_is_no_drawer_for_odds_and_ends():
    drawers = {"utils", "util", "helpers", "misc", "common"}
    assert [str(file) for file in python_files(*TOP_LEVEL) if file.stem in drawers] == []
