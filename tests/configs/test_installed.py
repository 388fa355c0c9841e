"""A script started where the packages are missing says so in one line; and the list is pyproject's."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sparring.configs.installed import PACKAGES, check_installed

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


def test_with_everything_there_nothing_is_said(capsys):
    check_installed("train.py")
    assert capsys.readouterr() == ("", "")


def test_the_packages_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    needed = [re.split(r"[<>=]", requirement)[0] for requirement in stated]
    assert list(PACKAGES) == [*needed, project["name"]]
