"""The wheel contains everything the package needs, and runs go to the working directory."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("agents", "configs", "curriculum", "envs", "eval")


@pytest.fixture(scope="module")
def unlinked(tmp_path_factory):
    """Return a copy of the sources as with `core.symlinks=false`: links are files with the target's path."""
    source = tmp_path_factory.mktemp("source")
    for name in ("train.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in (*ROOMS, "checkpoints/released", "sparring"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    links = [path for path in (source / "sparring").iterdir() if path.is_symlink()]
    assert links
    for link in links:
        target = os.readlink(link)
        link.unlink()
        link.write_text(target)
    return source


@pytest.fixture(scope="module")
def wheel(unlinked, tmp_path_factory):
    """Return a wheel built from a checkout without symbolic links."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target)]
    subprocess.run([*command, str(unlinked)], check=True)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a folder with the wheel's contents, first on the path."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def call(installed, module, *arguments, cwd):
    command = [sys.executable, "-m", module, *arguments]
    env = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_wheel_holds_code_data_models_and_scripts(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = (".py", ".yaml", ".txt", ".json", ".html", ".css", ".js")
    tracked = [path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in kinds]
    released = ("manifest.json", "dogfight_bots_only.pt", "tiny/model.safetensors")
    more = ("__init__.py", "py.typed", "train.py", *(f"checkpoints/released/{name}" for name in released))
    assert {f"sparring/{name}" for name in (*tracked, *more)} <= names
    scripts = next(name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(scripts).decode()
    assert "sparring = sparring.__main__:main" in text


def test_checkout_without_symlinks_imports_its_folders(unlinked, tmp_path):
    code = "import sparring, sparring.envs.dogfight, sparring.train as train; print(sparring.envs.__file__, train.main)"
    (tmp_path / "probe.py").write_text(code)
    done = call(unlinked, "probe", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(unlinked / "envs" / "__init__.py"))


def test_runs_use_working_directory_and_find_released_models(installed, tmp_path):
    """The commands run in one process, which loads torch once."""
    played = "--ckpt first --opponents released/dogfight_bots_only --games 2"
    small = "max_updates=1 evaluation.every=0 threads=1 env.num_envs=16 ppo.rollout_steps=16 ppo.minibatch_size=64"
    commands = f"train +run=quickstart {small} name=first", "train resume=first", f"eval.run {played}"
    call_of = "import sparring.{} as one\nassert one.main({}) == 0\n".format
    (tmp_path / "all_of_them.py").write_text("".join(call_of(name, words) for name, *words in map(str.split, commands)))
    done = call(installed, "all_of_them", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "checkpoints" / "first" / "final.pt").is_file()
    assert "nothing left to do" in done.stdout + done.stderr
    assert "dogfight_bots_only" in (tmp_path / "checkpoints" / "first" / "eval.json").read_text()


EACH = """\
import contextlib, io, json, runpy, sys
for module, *words in json.loads(sys.argv[1]):
    sys.argv[1:], code, streams = words, 0, (io.StringIO(), io.StringIO())
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, *(stream.getvalue() for stream in streams)]))
"""


def test_texts_name_own_commands_and_run_file_can_be_anywhere(installed, tmp_path):
    """Each command runs as by `python -m`, all in one process."""
    (tmp_path / "mine.yaml").write_text("max_updates: 3\n")
    (tmp_path / "each.py").write_text(EACH)
    train, played = "sparring.train", "sparring.eval.run"
    commands = [[train, "+run=./mine.yaml", "seed=2_0", "--cfg"], [train, "+run=nope"], [played, "--ckpt", "nope"]]
    done = call(installed, "each", json.dumps([*commands, [train, "--help"]]), cwd=tmp_path)
    shown, *refused, (_, text, _) = map(json.loads, done.stdout.splitlines())
    assert (shown[0], "\nmax_updates: 3\n" in shown[1], "\nseed: 20\n" in shown[1]) == (0, True, True)
    for name, (code, _, said) in zip(("train", "eval"), refused, strict=True):
        assert code == 2
        assert said.startswith(f"sparring {name}: ")
        assert ".py" not in said
    assert ("train.py" in text, "eval/" in text, "sparring train +run=NAME" in text) == (False, False, True)


SHOWN = """\
import json, os, runpy, sys, tempfile, sparring
run, made = runpy.run_path(sys.argv[1])["run"], []
for path in sys.argv[2:]:
    os.chdir(tempfile.mkdtemp(dir="."))
    made.append(run(json.load(open(path, encoding="utf-8")))["cells"])
print(json.dumps([sparring.__file__, made]))"""


SMALLER = {
    '"max_updates": 10, "env.num_envs": 128': '"max_updates": 2, "env.num_envs": 8, **small',
    '"max_updates": 6, "evaluation.every": 1, "evaluation.games": 100': (
        '"max_updates": 2, "evaluation.every": 1, "evaluation.games": 2, "env.num_envs": 8, **small'
    ),
    "games=40": "games=2",
    "games=100": "games=2",
    "import sparring\n": 'import sparring; small = {"ppo.rollout_steps": 8, "ppo.minibatch_size": 64}\n',
}
"""Replacements in the cells of the notebooks, each of which must occur."""


def output_kinds(cells):
    return [[one["output_type"] for one in cell["outputs"]] for cell in cells if "outputs" in cell]


@pytest.mark.slow
def test_notebooks_run_from_wheel_without_repository(installed, tmp_path):
    """As in a hosted notebook, each in an empty folder; their outputs match those shown."""
    paths = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    texts = [path.read_text("utf-8") for path in paths]
    for usual, small in ((json.dumps(one)[1:-1] for one in pair) for pair in SMALLER.items()):
        assert any(usual in text for text in texts), usual
        texts = [text.replace(usual, small) for text in texts]
    for path, text in zip(paths, texts, strict=True):
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    copies = (str(tmp_path / path.name) for path in paths)
    command = [sys.executable, "-c", SHOWN, str(ROOT / "docs" / "site_notebooks.py"), *copies]
    env = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package, made = json.loads(done.stdout.splitlines()[-1])
    assert package.startswith(str(installed))
    for path, cells in zip(paths, made, strict=True):
        shown = output_kinds(json.loads(path.read_text("utf-8"))["cells"])
        assert output_kinds(cells) == shown, f"{path}: run `python docs/site_notebooks.py`"
        assert sum(map(len, shown)) >= 4


def test_every_pinned_package_runs_on_oldest_python():
    """Debian 12 has Python 3.11.2: a pin that needs 3.11.5 could not be installed there."""
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    needs = {}
    for name, version in pins.items():
        with suppress(metadata.PackageNotFoundError):
            package = metadata.metadata(name)
            if package["Version"].split("+")[0] == version:
                needs[name] = package.get("Requires-Python", "")
    assert len(needs) > len(pins) / 2
    assert {name: text for name, text in needs.items() if f"{oldest}.0" not in SpecifierSet(text)} == {}
