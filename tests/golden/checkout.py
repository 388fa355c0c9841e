"""A checkout as something to run: its files in a folder of its own, and an environment in which Python finds only them.

Both sides of a comparison are copied, so that neither changes while it is recorded and both are treated alike. They
share one interpreter, in which the project is installed from somewhere else: `imports` puts the copy first on the path,
and takes that installation's finder away.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "sparring"
"""Folder that holds the whole package, as links, where there is one."""
FIXED = {
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
}
"""Variables that decide how numbers are made, or that only slow down."""
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH")
NO_FINDER = """\
import pathlib
import sys

installed = "editable___sparring"
sys.meta_path[:] = [finder for finder in sys.meta_path if installed not in str(getattr(finder, "__module__", ""))]
for folder in [path for path in sys.path if path.endswith("site-packages")]:
    for link in pathlib.Path(folder).glob("_sparring*.pth"):  # an installation that names its checkout
        sys.path[:] = [path for path in sys.path if path not in link.read_text().splitlines()]
"""
PROBE = """\
import importlib, json, sys
found = {name: importlib.import_module(name) for name in sys.argv[1:]}
print(json.dumps({name: str(getattr(m, "__file__", None) or list(m.__path__)[0]) for name, m in found.items()}))
"""


class CheckoutError(RuntimeError):
    """A checkout that cannot be recorded; the message is one line."""


@dataclass(frozen=True)
class Checkout:
    """Files of one version in `folder`, and in `imports` what has to be first on Python's path."""

    folder: Path
    imports: Path
    packages: dict[str, str]
    """Folders by the package they are imported as; empty where folder and package have the same name."""

    @classmethod
    def at(cls, folder: Path, imports: Path) -> Checkout:
        """Make the checkout in `folder` importable by way of the new folder `imports`."""
        folder = folder.resolve()
        tool = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
        packages = dict(tool.get("setuptools", {}).get("package-dir", {}))
        packages.pop("", None)
        if (folder / PACKAGE / "__init__.py").is_file():
            packages = {PACKAGE: PACKAGE}
        imports.mkdir(parents=True)
        (imports / "sitecustomize.py").write_text(NO_FINDER, encoding="utf-8")
        for name in sorted(packages):
            _link(folder / packages[name], imports.joinpath(*name.split(".")), _is_parent(name, packages))
        return cls(folder, imports, packages)

    @property
    def games(self) -> str:
        """Name of the package that holds the games."""
        names = {Path(place): name for name, place in self.packages.items()}
        root = next((names[place] for place in (Path(), Path(PACKAGE)) if place in names), "")
        inside_root = f"{root}.envs" if root else "envs"
        return names.get(Path("envs"), inside_root)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that runs this checkout."""
        path = [str(self.imports), *([] if self.packages else [str(self.folder)])]
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        return kept | FIXED | {"PYTHONPATH": os.pathsep.join(path)}

    def check(self) -> None:
        """Raise `CheckoutError` unless Python finds this checkout's packages in its own folder."""
        names = sorted(self.packages) or ["agents", "configs", "curriculum", "envs"]
        found = json.loads(self._output(["-c", PROBE, *names]))
        files = {name: Path(file).resolve() for name, file in found.items()}
        for name, file in files.items():
            if not file.is_relative_to(self.folder.resolve()):
                raise CheckoutError(f"{self.folder}: {name} is imported from {file}, which is another checkout")

    @cached_property
    def config_keys(self) -> set[str]:
        """Keys of a run's configuration, as in `ppo.clip`; raises `CheckoutError` where it cannot be shown."""
        return set(_keys(yaml.safe_load(self._output(["train.py", "+run=quickstart", "--cfg"]))))

    def _output(self, arguments: list[str]) -> str:
        """Run Python in this checkout and return what it prints."""
        line = [sys.executable, *arguments]
        ended = subprocess.run(line, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
            raise CheckoutError(f"{self.folder}: python {arguments[0]} ended with {ended.returncode}: {said}")
        return ended.stdout


def copy_working_tree(root: Path, to: Path) -> None:
    """Copy what git would commit now: tracked files as they are, and new ones it does not ignore."""
    names = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
    for name in filter(None, names):
        if (root / name).is_file() or (root / name).is_symlink():  # a deleted one is still listed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name, follow_symlinks=False)


def copy_commit(root: Path, revision: str, to: Path) -> str:
    """Unpack the files of a commit and return its hash; raises `CheckoutError` where there is no such commit."""
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError as error:
        raise CheckoutError(f"BASE={revision}: is neither a commit nor the folder of a recording") from error
    with tarfile.open(fileobj=BytesIO(_git(root, "archive", "--format=tar", commit))) as archive:
        archive.extractall(to)  # from our own git; Python 3.11 before 3.11.4 knows no filter
    return commit


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True).stdout


def _is_parent(name: str, packages: dict[str, str]) -> bool:
    return any(other.startswith(f"{name}.") for other in packages)


def _link(source: Path, link: Path, parent: bool) -> None:
    """Make `link` lead to the package folder `source`; one that has others inside becomes a folder of links."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not parent:
        link.unlink(missing_ok=True)  # what the package around it called so
        link.symlink_to(source, target_is_directory=True)
        return
    if link.is_symlink():
        link.unlink()
    link.mkdir(exist_ok=True)
    for entry in source.iterdir():
        (link / entry.name).symlink_to(entry)


def _keys(value: Any, key: str = "") -> list[str]:
    """Dotted keys of nested mappings, sections included."""
    if not isinstance(value, dict):
        return []
    names = [f"{key}.{name}".strip(".") for name in value]
    return [*names, *(k for name, item in zip(names, value.values(), strict=True) for k in _keys(item, name))]
