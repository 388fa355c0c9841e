"""Names of commands in messages: `python eval/run.py` in a repository, `sparring eval` where the package is installed.

Texts have the names of scripts. `as_called` translates those that reach a user: errors, lines of a run, help, and
printed reports.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
"""Folder of the package `sparring`: the repository itself if that is installed."""
SCRIPT = re.compile(r"(?<![\w./-])(?:python )?(?:train|eval/(\w+))\.py\b")
"""A command as it is written in texts."""


def as_called(text: str) -> str:
    """Return `text` with commands as the user calls them: sparring eval for `python eval/run.py` where installed.

    That is in the console script, and where there is no repository and so no file of that name.
    """
    if Path(sys.argv[0]).stem != "sparring" and (PACKAGE / "pyproject.toml").is_file():
        return text
    commands = {None: "train", "run": "eval"}
    return SCRIPT.sub(lambda match: f"sparring {commands.get(match[1], match[1]).replace('_', '-')}", text)
