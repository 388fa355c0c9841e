"""Locations of runs and released models.

In a repository both are in its `checkpoints/`. If only the package is installed, runs go to `checkpoints/` in the
working directory, and the released models are in the package.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
"""Folder of the package `sparring`: the repository itself if that is installed."""
ROOT = PACKAGE if (PACKAGE / "pyproject.toml").is_file() else Path.cwd()
"""Base of relative run folders."""
CHECKPOINTS = ROOT / "checkpoints"
"""All runs."""
SHIPPED = PACKAGE / "checkpoints"
"""Folder whose `released/` holds the models of the package."""
