"""The core and its parts: which file belongs to which, and what one imports of another.

A part is a game, the language models, the games of other packages, the trainer of SB3, attacks on policies, the
population of styles, or the analysis of runs. The core is the rest and must not import them. The league
(`curriculum/league/`) is in the core, because PPO and GRPO use it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PARTS = {
    "dogfight": ("envs/dogfight/",),
    "air_combat": ("envs/air_combat/",),
    "diplomacy": ("envs/diplomacy/", "eval/diplomacy_replay.py"),
    "chess": ("envs/chess/",),
    "imported": (
        "envs/imported/",
        "eval/check.py",
        "agents/play/seat",
        "agents/play/turn",
        "agents/play/exploitability",
    ),
    "openspiel_text": ("envs/openspiel_text/",),
    "exploitability": ("eval/exploit",),
    "language": (
        "agents/language/",
        "envs/text.py",
        "envs/text_moves.py",
        "envs/reasoning.py",
        "envs/hubs/",
        "configs/language/",
        "eval/served.py",
    ),
    "sb3": ("agents/baselines/",),
    "population": ("agents/population/", "curriculum/population/"),
    "runs": ("eval/analysis/", "eval/runs.py", "eval/curves.py", "eval/seeds.py"),
}
"""Beginnings of the paths of each part's files."""
CORE = "core"
ROOMS = ("agents", "configs", "curriculum", "envs", "eval", "sparring", "train.py")


def part_of(path: str) -> str:
    """Return the part of a file, by its path below the repository, or `CORE`."""
    return next((name for name, starts in PARTS.items() if path.startswith(starts)), CORE)


def part_of_test(path: Path) -> str:
    """Return the part of a file or folder below tests/: the part of the files that it mirrors, or `CORE`."""
    name = path.as_posix().replace("test_", "")
    return part_of(name if path.suffix else f"{name}/")


def sources(root: Path) -> dict[str, str]:
    """Return the source of every product file by its path; those behind the links of `sparring/` only once."""
    paths = [path for room in ROOMS for path in ([root / room] if "." in room else (root / room).rglob("*.py"))]
    inside = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: path.read_text("utf-8") for name, path in inside.items() if not path.parent.is_symlink()}


def lines(files: Mapping[str, str]) -> Counter[str]:
    """Return the number of lines of the core and of each part."""
    counts: Counter[str] = Counter()
    for name, source in files.items():
        counts[part_of(name)] += source.count("\n")
    return counts


def crossings(files: Mapping[str, str]) -> dict[tuple[str, str], set[str]]:
    """Return what the core and each part import of another part, as "file imports module"; late imports count too."""
    edges: dict[tuple[str, str], set[str]] = {}
    for name, source in files.items():
        for node in ast.walk(ast.parse(source)):
            for module in _modules(node, files):
                pair = part_of(name), part_of(module)
                if pair[1] not in (CORE, pair[0]):
                    edges.setdefault(pair, set()).add(f"{name} imports {module}")
    return edges


def _modules(node: ast.AST, files: Mapping[str, str]) -> set[str]:
    """Files or folders, with a slash at the end, that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return set()
    return {_file(name.split(".")[1:], files) for name in names if name.startswith("sparring.")}


def _file(parts: list[str], files: Mapping[str, str]) -> str:
    for length in (len(parts), len(parts) - 1):
        path = "/".join(parts[:length])
        if f"{path}.py" in files:
            return f"{path}.py"
        if f"{path}/__init__.py" in files:
            return f"{path}/"
    return "/".join(parts)
