"""Check of Python and installed packages; scripts run it before other imports, so errors are one line.

Only the standard library is imported here, in the syntax of Python 3.8.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OLDEST = (3, 11)
"""`requires-python` in pyproject.toml."""
PACKAGES = {
    "filelock": "filelock",
    "gymnasium": "gymnasium",
    "lark": "lark",
    "numpy": "numpy",
    "pillow": "PIL",
    "pydantic": "pydantic",
    "pyyaml": "yaml",
    "rich": "rich",
    "tqdm": "tqdm",
    "typer": "typer",
    "hydra-core": "hydra",
    "pettingzoo": "pettingzoo",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "warp-lang": "warp",
    "sparring": "sparring",
}
"""Dependencies in pyproject.toml and those of its extra `train`, then the project itself: package to import name."""
TRAIN = ("hydra-core", "pettingzoo", "tensorboard", "torch", "warp-lang")
"""Those of the extra `train`."""
BASE_SCRIPTS = ("eval/runs.py",)
"""Scripts that work without the extra, as their `sparring` commands do; any script shows its --help without it."""


def check_installed(script: str) -> None:
    """Exit with code 2 and one line if this Python is too old or a package is missing.

    Removes the script's folder, which Python puts first, from the path: its folders would shadow packages.
    """
    if sys.version_info < OLDEST:
        number, oldest = "{}.{}".format(*sys.version_info), "{}.{}".format(*OLDEST)
        fix = "run `make install PYTHON=python3.12`, then `source .venv/bin/activate`"
        text = f"{script}: {sys.executable} is Python {number}, and {oldest} or newer is needed: {fix}"
        print(text, file=sys.stderr)
        raise SystemExit(2)
    folder = Path(__file__).resolve().parents[1] / Path(script).parent
    if sys.path and Path(sys.path[0]).resolve() == folder != Path(__file__).resolve().parents[1]:
        del sys.path[0]
    unneeded = TRAIN if script in BASE_SCRIPTS or {"--help", "-h"} & {*sys.argv[1:]} else ()
    missing = next((name for name, module in PACKAGES.items() if name not in unneeded and not find_spec(module)), None)
    if missing:
        fix = "run `make install`, then `source .venv/bin/activate`"
        print(f"{script}: {missing} is not installed for {sys.executable}: {fix}", file=sys.stderr)
        raise SystemExit(2)
