"""A script started where the packages are missing says so in one line; and the list is pyproject's."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sparring.configs.installed import OLDEST, PACKAGES, check_installed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "script", ["train.py", *(f"eval/{name}.py" for name in ("run", "export", "payoff", "seeds", "curves"))]
)
def test_a_bare_python_is_told_what_to_do(script, tmp_path):
    command = [sys.executable, "-S", str(ROOT / script), "--help"]  # -S: without the packages that are installed
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"{script}: filelock is not installed for {sys.executable}: "
        "run `make install`, then `source .venv/bin/activate`\n"
    )
    assert done.stdout == ""


def test_a_python_that_is_too_old_is_told_which_is_needed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(SystemExit, match="2"):
        check_installed("eval/run.py")
    assert capsys.readouterr().err == (
        f"eval/run.py: {sys.executable} is Python 3.10, and 3.11 or newer is needed: "
        "run `make install PYTHON=python3.12`, then `source .venv/bin/activate`\n"
    )


def test_old_pythons_understand_what_tells_them():
    """Every script with the check, and the check itself, as far as a Python reads them before it is told."""
    scripts = [ROOT / "train.py", *(ROOT / "eval").glob("*.py")]
    told = [path for path in scripts if "check_installed" in path.read_text("utf-8")]
    assert len(told) > 8
    for path in (*told, ROOT / "configs" / "installed.py"):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 8))


def test_with_everything_there_nothing_is_said(capsys):
    check_installed("train.py")
    assert capsys.readouterr() == ("", "")


def test_the_packages_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    needed = [re.split(r"[<>=]", requirement)[0] for requirement in stated]
    assert list(PACKAGES) == [*needed, project["name"]]
    assert project["requires-python"] == f">={OLDEST[0]}.{OLDEST[1]}"
