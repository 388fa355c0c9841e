"""Every script in benchmarks/ reports bad input, its own or a child's, in one line with exit code 2."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import standard_tasks
from benchmarks.command import run_script
from benchmarks.release import publish
from benchmarks.release.__main__ import Report, Step, used
from sparring.agents.run.folder import RunLock
from sparring.configs.core.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [path.name for path in sorted(FOLDER.glob("*.py")) if "\nif __name__ ==" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_runs_from_any_folder(script):
    """Packages beside the script are found from any folder; tests/benchmarks/test_gpu.py covers another."""
    whole = ast.parse((FOLDER / script).read_text()).body
    guarded = [[ast.unparse(line) for line in block.body] for block in whole if isinstance(block, ast.If)]
    assert guarded[0] == ["sys.path[0] = str(Path(__file__).resolve().parents[1])"]
    assert guarded[-1] == ["sys.exit(run_script(main))"]
    assert isinstance(whole[-1], ast.If)


def test_folder_in_use_gives_one_line_error(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "CartPole-v1-1"
    folder.mkdir()
    lock = RunLock(folder)
    monkeypatch.setattr(
        sys, "argv", ["standard_tasks.py", "--tasks", "CartPole-v1", "--seeds", "2", "--folder", str(tmp_path)]
    )
    assert run_script(standard_tasks.main) == 2
    lock.release()
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks/standard_tasks.py: ")
    assert str(folder) in line


def child(code, said):
    return [sys.executable, "-c", f"import sys; print({said!r}, file=sys.stderr); sys.exit({code})"]


@pytest.mark.parametrize("code", [2, 130])
def test_parent_reports_input_error_of_child(code, capsys):
    said = "a bar\nscript.py: this is wrong"
    assert run_script(lambda: subprocess.run(child(code, said), check=True, capture_output=True, text=True)) == code
    assert capsys.readouterr().err == "script.py: this is wrong\n"


def test_child_traceback_is_not_reported_as_bad_input():
    with pytest.raises(subprocess.CalledProcessError):
        run_script(lambda: subprocess.run(child(1, "Traceback"), check=True, capture_output=True, text=True))


def test_measurement_exit_codes_are_passed_on():
    assert run_script(lambda: None) == 0
    assert run_script(lambda: 1) == 1


@pytest.fixture
def programs(tmp_path):
    """Create a folder of programs that contains only this Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("code", "text", "exit_code", "result"),
    [
        ("print('ace')", "ace", 0, "ok"),
        ("import sys; sys.exit('needs the extra train')", "needs the extra", 1, "one line, exit code 1"),
        ("print('ace')", "chaser", 0, None),
        ("1 / 0", "ZeroDivisionError", 1, None),
        ("print('ace'); raise SystemExit(1)", "ace", 0, None),
        ("import sys; sys.exit('needs the extra train\\nTwice')", "needs the extra", 1, None),
    ],
)
def test_step_ends_with_expected_output(code, text, exit_code, result, programs, tmp_path):
    step = Step(("python", "-S", "-c", code), text, exit_code)
    if result is None:
        with pytest.raises(InputError):
            used(programs, step, tmp_path)
    else:
        assert used(programs, step, tmp_path) == result


def test_failure_is_row_and_exit_code(capsys):
    report = Report()

    def fails():
        raise InputError("no wheel")

    report.add("build", fails)
    report.add("install", lambda: "26 packages")
    assert (report.failed, [row[::2] for row in report.rows]) == (
        True,
        [("build", "**failed**: no wheel"), ("install", "26 packages")],
    )


def test_every_release_file_names_same_version(tmp_path):
    for name in publish.VERSIONS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(publish.ROOT / name, tmp_path / name)
    version = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["version"]
    assert publish.version_of(tmp_path) == version
    (tmp_path / "CITATION.cff").write_text("version: 9.9.9\n")
    with pytest.raises(InputError, match=rf"pyproject.toml {re.escape(version)}, CITATION.cff 9.9.9, "):
        publish.version_of(tmp_path)


def test_release_has_commit_and_checksums(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    publish.check_clean(tmp_path)
    (tmp_path / "a.whl").write_bytes(b"abc")
    with pytest.raises(InputError, match=r"1 files differ from the commit, such as a\.whl; commit first"):
        publish.check_clean(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", FIPS 180-2
    assert publish.checksums(tmp_path).read_text() == f"{known}  a.whl\n"
