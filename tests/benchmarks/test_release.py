"""The check of a release notices a command that fails, says something else, or says too much."""

import sys

import pytest

from benchmarks.release.__main__ import Report, Step, used
from sparring.configs.core.errors import InputError


@pytest.fixture
def programs(tmp_path):
    """A folder of programs with one, which is this Python."""
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
def test_a_step_ends_and_says_what_it_should(code, text, exit_code, result, programs, tmp_path):
    step = Step(("python", "-S", "-c", code), text, exit_code)
    if result is None:
        with pytest.raises(InputError):
            used(programs, step, tmp_path)
    else:
        assert used(programs, step, tmp_path) == result


def test_a_failure_is_a_row_and_the_exit_code(capsys):
    report = Report()

    def fails():
        raise InputError("no wheel")

    report.add("build", fails)
    report.add("install", lambda: "26 packages")
    assert (report.failed, [row[::2] for row in report.rows]) == (
        True,
        [("build", "**failed**: no wheel"), ("install", "26 packages")],
    )
