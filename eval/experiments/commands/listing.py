"""Commands that list and read runs."""

from __future__ import annotations

import typer


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
