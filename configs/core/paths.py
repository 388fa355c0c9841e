"""Where runs and released models lie.

In a repository both lie in its `checkpoints/`. Where only the package is installed, runs go to `checkpoints/` in the
working directory, and the released models are in the package.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
"""The folder of the package `sparring`: the repository itself where that is what was installed."""
ROOT = PACKAGE if (PACKAGE / "pyproject.toml").is_file() else Path.cwd()
"""What relative folders of runs are relative to."""
CHECKPOINTS = ROOT / "checkpoints"
"""The runs."""
SHIPPED = PACKAGE / "checkpoints"
"""The folder whose `released/` holds the models that come with the package."""
