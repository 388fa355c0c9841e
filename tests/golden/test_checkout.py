"""A checkout runs with its own packages, whatever else is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.checkout import Checkout, CheckoutError, copy_commit, copy_working_tree
from tests.golden.simulators import MODULES, find

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("agents", "configs", "curriculum", "envs")
MAPPED = """
[tool.setuptools]
package-dir = {{ "sparring" = "{root}", "sparring.envs" = "envs", "sparring.agents" = "agents" }}
"""


def make(folder, pyproject):
    """Create a project whose packages report their location."""
    for room in ROOMS:
        (folder / room).mkdir(parents=True)
        (folder / room / "__init__.py").write_text("")
        (folder / room / "place.py").write_text("from pathlib import Path\nHERE = Path(__file__).resolve().parent\n")
    (folder / "main").mkdir()
    for root in (folder, folder / "main"):
        (root / "__init__.py").write_text("NAME = 'the root'\n")
    (folder / "pyproject.toml").write_text(pyproject)
    return folder


def run(checkout, code):
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout.imports, env=checkout.environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("root", [".", "main"])
def test_packages_with_same_name_mapped_to_folders(tmp_path, root):
    checkout = Checkout.at(make(tmp_path / "files", MAPPED.format(root=root)), tmp_path / "imports")
    checkout.check()
    assert checkout.games == "sparring.envs"
    code = "import sparring, sparring.agents.place as place; print(sparring.NAME, place.HERE)"
    assert run(checkout, code) == f"the root {tmp_path / 'files' / 'agents'}"


def test_installed_packages_are_not_found(tmp_path):
    """The project's own installation is disabled: packages missing in this checkout are not found elsewhere."""
    checkout = Checkout.at(make(tmp_path / "files", ""), tmp_path / "imports")
    code = (
        "from importlib.util import find_spec as find; "
        "print(find('curriculum.place').origin, find('eval'), find('sparring'), find('torch') is None)"
    )
    assert run(checkout, code) == f"{tmp_path / 'files' / 'curriculum' / 'place.py'} None None False"


def test_packages_from_other_checkout_are_rejected(tmp_path):
    files = make(tmp_path / "files", "")
    elsewhere = make(tmp_path / "elsewhere", "")
    (files / "envs").rename(tmp_path / "gone")
    (files / "envs").symlink_to(elsewhere / "envs")
    with pytest.raises(CheckoutError, match=r"files: envs is imported from .*elsewhere.*, which is another checkout"):
        Checkout.at(files, tmp_path / "imports").check()


def test_configuration_keys_are_requested(tmp_path):
    keys = Checkout.at(ROOT, tmp_path / "imports").config_keys
    assert {"ppo", "ppo.clip", "self_play.deal_every", "env.reward.win"} <= keys
    assert "ppo.clipping" not in keys


def git(folder, *arguments):
    identity = ["-c", "user.name=name", "-c", "user.email=name@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_commit_and_working_tree_are_copied(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    git(tmp_path, "init", "-q", "project")
    for name, text in {"kept": "old", "gone": "old", ".gitignore": "ignored\n"}.items():
        (project / name).write_text(text)
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    (project / "gone").unlink()
    for name in ("kept", "new", "ignored"):
        (project / name).write_text("new")
    commit = copy_commit(project, "HEAD", tmp_path / "base")
    copy_working_tree(project, tmp_path / "head")
    assert len(commit) == 40
    assert texts(tmp_path / "base") == {"kept": "old", "gone": "old", ".gitignore": "ignored\n"}
    assert texts(tmp_path / "head") == {"kept": "new", "new": "new", ".gitignore": "ignored\n"}
    with pytest.raises(CheckoutError, match="BASE=nothing: is neither a commit nor the folder of a recording"):
        copy_commit(project, "nothing", tmp_path / "other")


def texts(folder):
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.mark.parametrize("what", MODULES)
def test_every_simulator_module_is_at_recorded_path(what, tmp_path):
    games = Checkout.at(ROOT, tmp_path / "imports").games
    assert any((ROOT / "envs" / name.replace(".", "/")).with_suffix(".py").exists() for name in MODULES[what])
    assert find(games, what).__name__.startswith(games)
