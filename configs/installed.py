"""Check of installed packages, run by scripts before other imports, so that a missing one gives a one-line error.

Only the standard library is imported here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = {
    "filelock": "filelock",
    "gymnasium": "gymnasium",
    "hydra-core": "hydra",
    "numpy": "numpy",
    "pillow": "PIL",
    "pydantic": "pydantic",
    "rich": "rich",
    "scipy": "scipy",
    "tqdm": "tqdm",
    "typer": "typer",
    "pettingzoo": "pettingzoo",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "warp-lang": "warp",
    "sparring": "sparring",
}
"""Dependencies in pyproject.toml and those of its extra `train`, then the project itself: package to import name."""


def check_installed(script: str) -> None:
    """Exit with code 2 and a line naming the first package missing from this Python, if any.

    The folder of the script leaves the path: Python puts it first, and `eval/chess` would hide the package chess.
    """
    folder = Path(__file__).resolve().parents[1] / Path(script).parent
    if sys.path and Path(sys.path[0]).resolve() == folder != Path(__file__).resolve().parents[1]:
        del sys.path[0]
    missing = next((package for package, module in PACKAGES.items() if find_spec(module) is None), None)
    if missing:
        fix = "run `make install`, then `source .venv/bin/activate`"
        print(f"{script}: {missing} is not installed for {sys.executable}: {fix}", file=sys.stderr)
        raise SystemExit(2)
