"""Build the files of a release into build/release/: `make release`.

The files are wheel, sdist, the documentation site as an archive, and SHA256SUMS over the three. First it checks that
all files that name the version agree, that the changelog begins with it, and that the tree is clean. It does not upload
or tag anything; CONTRIBUTING.md has these commands.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks.command import run_script
from sparring.configs.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## (.+)$",
    "README.md": r"version = {(.+?)}",
    "docs/notebooks/first_agent.ipynb": r"sparring-([\d.]+)-py3",
    "docs/notebooks/reading_a_run.ipynb": r"sparring-([\d.]+)-py3",
    "envs/hubs/openenv/server.py": r'version="(.+?)"',
    "envs/hubs/verifiers/pyproject.toml": r'^version = "(.+)"$',
}
"""Files that name the version, and where: the first match counts."""


def version_of(root: Path) -> str:
    """Return the version that all files of `VERSIONS` name. Raises `InputError` if two differ."""
    found = {}
    for name, pattern in VERSIONS.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        found[name] = match[1] if match else "none"
    if len({*found.values()}) > 1:
        named = ", ".join(f"{name} {version}" for name, version in found.items())
        raise InputError(f"version: the files differ ({named}); write the same one into each")
    return found["pyproject.toml"]


def check_clean(root: Path) -> None:
    """Raise `InputError` if the working tree differs from its commit."""
    changed = subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain"], capture_output=True, text=True, check=True
    ).stdout.split("\n")[:-1]
    if changed:
        raise InputError(f"{root}: {len(changed)} files differ from the commit, such as {changed[0][3:]}; commit first")


def checksums(folder: Path) -> Path:
    """Write SHA256SUMS over the files of `folder`, in the form that `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def main() -> int:
    """Check, build and return the exit code."""
    version = version_of(ROOT)
    check_clean(ROOT)
    folder, site = ROOT / "build" / "release", ROOT / "build" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    with tarfile.open(folder / f"sparring-{version}-site.tar.gz", "w:gz") as archive:
        archive.add(site, f"sparring-{version}-site")
    print(checksums(folder).read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main, "python -m benchmarks.release.publish"))
