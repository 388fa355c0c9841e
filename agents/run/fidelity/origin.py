"""Origin of a run: the commit of the code that started it, in `origin.json` of its folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from sparring.configs.core.files import write_atomically
from sparring.configs.core.paths import PACKAGE
from sparring.configs.core.regular_file import read_regular_text

ORIGIN = "origin.json"
SECONDS = 10


def write_origin(folder: Path) -> None:
    """Write the commit, and whether files differed from it; nothing where the code is in no git repository."""
    if found := _present():
        write_atomically(folder / ORIGIN, json.dumps(found) + "\n")


def code_origin() -> dict[str, str]:
    """Return the present code's commit as `read_origin` does that of a run."""
    found = _present()
    return {"commit": found["commit"][:9] + ("+" if found["changed"] else "")} if found else {}


def _present() -> dict[str, Any]:
    """Return the commit and whether files differ from it; empty where the code is in no git repository."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return {}
    return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}


def read_origin(folder: Path) -> dict[str, str]:
    """Return the commit as text, with a `+` where files differed from it; empty if it is not known."""
    path = folder / ORIGIN
    try:
        found = json.loads(read_regular_text(path)) if path.is_file() else {}
    except (OSError, ValueError):
        return {}
    commit = found.get("commit") if isinstance(found, dict) else None
    if not isinstance(commit, str) or not commit.isalnum():
        return {}
    return {"commit": commit[:9] + ("+" if found.get("changed") else "")}


def _git(*words: str) -> str:
    """Return the output of git in the package's own folder; empty if it fails or belongs to another repository."""
    if not (PACKAGE / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
