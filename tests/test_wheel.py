"""The wheel: everything the package needs is in it, and without the repository runs lie in the working directory."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("agents", "configs", "curriculum", "envs", "eval")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of a wheel built from a copy of the sources, so that building leaves nothing in the repository."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("train.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in (*ROOMS, "checkpoints/released", "sparring"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target)]
    subprocess.run([*command, str(source)], check=True)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the wheel's contents, which comes before the repository on the path."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def call(installed, module, *arguments, cwd):
    command = [sys.executable, "-m", module, *arguments]
    env = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_it_holds_code_data_models_and_scripts(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = (".py", ".yaml", ".txt", ".json", ".html", ".css", ".js")
    tracked = [path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in kinds]
    released = ("manifest.json", "dogfight_bots_only.pt", "tiny/model.safetensors")
    more = ("__init__.py", "py.typed", "train.py", *(f"checkpoints/released/{name}" for name in released))
    assert {f"sparring/{name}" for name in (*tracked, *more)} <= names
    scripts = next(name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(scripts).decode()
    assert "sparring = sparring.__main__:main" in text


def test_runs_go_to_the_working_directory_and_meet_released_models(installed, tmp_path):
    """Commands of one process, which loads torch once."""
    played = "--ckpt first --opponents chaser released/dogfight_bots_only --games 2"
    commands = "train +run=quickstart scale=0.001 name=first threads=1", "train resume=first", f"eval.run {played}"
    call_of = "import sparring.{} as one\nassert one.main({}) == 0\n".format
    (tmp_path / "all_of_them.py").write_text("".join(call_of(name, words) for name, *words in map(str.split, commands)))
    done = call(installed, "all_of_them", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "checkpoints" / "first" / "final.pt").is_file()
    assert "nothing left to do" in done.stdout + done.stderr
    assert "dogfight_bots_only" in (tmp_path / "checkpoints" / "first" / "eval.json").read_text()


def test_its_texts_name_its_own_commands_and_a_run_file_lies_in_any_folder(installed, tmp_path):
    (tmp_path / "mine.yaml").write_text("max_updates: 3\n")
    done = call(installed, "sparring.train", "+run=./mine.yaml", "seed=2_0", "--cfg", cwd=tmp_path)
    assert (done.returncode, "\nmax_updates: 3\n" in done.stdout, "\nseed: 20\n" in done.stdout) == (0, True, True)
    for module, words in (("sparring.train", ["+run=nope"]), ("sparring.eval.run", ["--ckpt", "nope"])):
        done = call(installed, module, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"sparring {'eval' if 'eval' in module else 'train'}: ")
        assert ".py" not in done.stderr
    text = call(installed, "sparring.train", "--help", cwd=tmp_path).stdout
    assert ("train.py" in text, "eval/" in text, "sparring train +run=NAME" in text) == (False, False, True)


SHOWN = """\
import json, runpy, sys, sparring
run = runpy.run_path(sys.argv[1])["run"]
done = run(json.load(open(sys.argv[2], encoding="utf-8")))
kinds = [[one["output_type"] for one in cell["outputs"]] for cell in done["cells"] if "outputs" in cell]
print(json.dumps([sparring.__file__, kinds]))"""


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")))
def test_notebooks_run_from_the_wheel_without_the_repository(installed, name, tmp_path):
    """As a hosted notebook would, in an empty folder; they make the outputs that they show."""
    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    command = [sys.executable, "-c", SHOWN, str(ROOT / "docs" / "site_notebooks.py"), str(path)]
    env = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package, made = json.loads(done.stdout.splitlines()[-1])
    assert package.startswith(str(installed))
    cells = json.loads(path.read_text("utf-8"))["cells"]
    shown = [[one["output_type"] for one in cell["outputs"]] for cell in cells if "outputs" in cell]
    assert made == shown, "run `python docs/site_notebooks.py`"
    assert sum(map(len, shown)) >= 4
