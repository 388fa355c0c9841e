"""Installed or nearby packages called agents, eval or envs are not imported in place of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def decoys(tmp_path):
    for name in ("agents", "eval", "envs", "configs", "curriculum"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise SystemExit('hijacked by {name}')\n")
    return tmp_path


def call(script, *arguments, cwd):
    """Run one of our scripts with the decoys both installed and in the working directory."""
    command = [sys.executable, str(ROOT / "eval" / script), *arguments]
    env = os.environ | {"PYTHONPATH": str(cwd)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_decoy_packages_would_be_imported(decoys):
    done = subprocess.run([sys.executable, "-c", "import agents"], cwd=decoys, capture_output=True, check=False)
    assert done.stderr == b"hijacked by agents\n"


def test_evaluation_imports_own_packages_from_any_directory(decoys):
    """Results are equal except for player names; imports are covered by test_architecture."""
    done = call("run.py", "--ckpt", "bot:brawlr", "--opponents", "chaser", "--games", "2", cwd=decoys)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "did you mean 'brawler'" in done.stderr


def test_every_command_finds_own_packages_first():
    """In the words of the one that is started here, before any import of ours."""
    commands = [path for path in (ROOT / "eval").glob("*.py") if "\ndef main(" in path.read_text()]
    assert len(commands) > 9
    for path in commands:
        before, line, _ = path.read_text().partition(f'["check_installed"]("eval/{path.name}")\n')
        assert line, path.name
        assert "\nfrom sparring" not in before, path.name
