"""A script without its packages prints one line, and the package list matches pyproject."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sparring.__main__ import COMMANDS
from sparring.configs.installed import OLDEST, PACKAGES, TRAIN, check_installed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "script", ["train.py", *(f"eval/{name}.py" for name in ("run", "export", "payoff", "seeds", "curves"))]
)
def test_missing_packages_print_install_command(script, tmp_path):
    command = [sys.executable, "-S", str(ROOT / script), "--help"]  # -S: without the packages that are installed
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"{script}: filelock is not installed for {sys.executable}: "
        "run `make install`, then `source .venv/bin/activate`\n"
    )
    assert done.stdout == ""


BLOCKER = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def without(name, *rest, **more):
    return None if name.partition(".")[0] in {names!r} else find(name, *rest, **more)
PathFinder.find_spec = without
"""


SERVER = """
import contextlib, importlib, json, os, runpy, sys, tempfile, traceback
for name in ("gymnasium", "lark", "PIL.Image", "rich.console", "typer", "sparring.configs.help", "sparring.envs.game"):
    importlib.import_module(name)
for line in sys.stdin:
    sys.argv = json.loads(line)
    with tempfile.TemporaryFile() as output:
        if not (child := os.fork()):
            code = 1
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
            try:
                if sys.argv[0] == "-m":
                    del sys.argv[0]
                    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
                else:
                    sys.path[0] = os.path.dirname(sys.argv[0])
                    runpy.run_path(sys.argv[0], run_name="__main__")
                code = 0
            except SystemExit as ended:
                code = ended.code
            except BaseException:
                traceback.print_exc()
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
            os._exit(code or 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        print(json.dumps([code, output.read().decode()]), flush=True)
"""
"""Run each command, `-m MODULE WORD...` or `SCRIPT WORD...`, in a process forked from one that has loaded the base."""


@pytest.fixture(scope="module")
def base_install(tmp_path_factory):
    """Return a function that runs a command without the packages of the extra `train`."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "sitecustomize.py").write_text(BLOCKER.format(names={PACKAGES[name] for name in TRAIN}))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, env=environment, **pipes) as server:

        def run(*words):
            print(json.dumps([*map(str, words)]), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield run
        server.stdin.close()


SCRIPTS = {"train": "train.py", "eval": "eval/run.py"} | {
    name: f"eval/{name.replace('-', '_')}.py"
    for name in ("runs", "check", "exploit", "payoff", "seeds", "curves", "export", "diplomacy-replay", "play")
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_works_in_base_install_like_its_command(name, base_install, tmp_path):
    """With --help every script works; otherwise those that need the extra report it."""
    for words in (["--help"], ["list", "--dir", tmp_path] if name == "runs" else ["x"]):
        code, _ = by_name = base_install("-m", "sparring", name, *words)
        script_code, output = script = base_install(SCRIPTS[name], *words)
        assert script_code == code, (script, by_name)
        assert ("is not installed" in output) == COMMANDS[name].trains * (words == ["x"])
        assert "Traceback" not in output + by_name[1]


def test_old_python_prints_required_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(SystemExit, match="2"):
        check_installed("eval/run.py")
    assert capsys.readouterr().err == (
        f"eval/run.py: {sys.executable} is Python 3.10, and 3.11 or newer is needed: "
        "run `make install PYTHON=python3.12`, then `source .venv/bin/activate`\n"
    )


def test_old_python_can_parse_version_check():
    """Parses every script with the check, and the check itself, as an old Python would."""
    scripts = [ROOT / "train.py", *(ROOT / "eval").glob("*.py")]
    told = [path for path in scripts if "check_installed" in path.read_text("utf-8")]
    assert len(told) > 8
    for path in (*told, ROOT / "configs" / "installed.py"):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 8))


def test_complete_installation_prints_nothing(capsys):
    check_installed("train.py")
    assert capsys.readouterr() == ("", "")


def test_package_list_matches_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    needed = [re.split(r"[<>=]", requirement)[0] for requirement in stated]
    assert list(PACKAGES) == [*needed, project["name"]]
    assert list(TRAIN) == needed[len(project["dependencies"]) :]
    assert project["requires-python"] == f">={OLDEST[0]}.{OLDEST[1]}"
