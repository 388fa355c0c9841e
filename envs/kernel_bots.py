"""The table of scripted players and their branches in a kernel: every bot has its own, or the game does not load."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from sparring.configs.core.errors import ConfigError


def check_branches(bots: Sequence[str], *functions: Any) -> None:
    """Refuse a table of bots unless each is compared, by its number, with `bot` in one of these Warp functions.

    A bot without a comparison of its own would play as another one, or do nothing. Kernels cannot raise errors, so
    their modules call this once, when they are imported. Raises `ConfigError` naming the bots and the functions.
    """
    compared = {number for function in functions for number in _compared(function)}
    if missing := [name for number, name in enumerate(bots) if number not in compared]:
        places = ", ".join(f"{function.func.__module__}.{function.func.__name__}" for function in functions)
        raise ConfigError(
            f"bots={', '.join(missing)}: no branch in {places}; add one, or remove the name from its table"
        )


def _compared(function: Any) -> Iterator[int]:
    """Yield the numbers that a Warp function compares with its variable `bot`, by == or !=."""
    names = function.func.__globals__
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function.func)))):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "bot":
            for operator, value in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.Eq | ast.NotEq) and isinstance(value, ast.Name):
                    yield int(names[value.id])
