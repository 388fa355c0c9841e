"""The package python-chess, an extra: importing Sparring works without it, and playing chess says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from sparring.configs.core.errors import InputError

PACKAGE = "chess"


def check_package() -> None:
    """Raise `InputError` if python-chess is missing."""
    if find_spec(PACKAGE) is None:
        raise InputError(f"chess needs the package {PACKAGE}: pip install 'sparring[chess]'")
