"""Are the packages there? Asked by the scripts before they import any, so that a missing one is answered in one line.

Nothing but the standard library is imported here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

PACKAGES = {
    "filelock": "filelock",
    "gymnasium": "gymnasium",
    "hydra-core": "hydra",
    "numpy": "numpy",
    "pettingzoo": "pettingzoo",
    "pillow": "PIL",
    "pydantic": "pydantic",
    "scipy": "scipy",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "tqdm": "tqdm",
    "warp-lang": "warp",
    "sparring": "sparring",
}
"""What pyproject.toml depends on, then the project itself, and the name each is imported by."""


def check_installed(script: str) -> None:
    """Leave with exit code 2 and a line that names the first package this Python lacks, if there is one."""
    missing = next((package for package, module in PACKAGES.items() if find_spec(module) is None), None)
    if missing:
        fix = "run `make setup`, then `source .venv/bin/activate`"
        print(f"{script}: {missing} is not installed for {sys.executable}: {fix}", file=sys.stderr)
        raise SystemExit(2)
