"""Print how many options a checkout has, then each that no run or sweep file sets: `python options.py ROOT`.

An option counts once, however many kinds of run have it; items of lists have no number: `phases.stages.at`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

SECTIONS_OF_SWEEPS = ("defaults", "changes")


def main() -> None:
    """Run the command line in `sys.argv`."""
    root = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(root))
    kinds = import_module("sparring.configs.kinds")
    options = dict.fromkeys(key for kind in kinds.run_kinds() for key in kinds.declared(kind))
    print(len(options))
    print(*unset(options, root / "configs"), sep="\n")


def unset(options: dict[str, None], folder: Path) -> list[str]:
    """Options that no file below `run` and `sweep` of the folder of configurations sets."""
    used = {key for path in sorted(folder.glob("run/*.yaml")) for key in keys(read(path))}
    for path in sorted(folder.glob("sweep/*.yaml")):
        sweep = read(path)
        used |= {key for section in _sections(sweep) for key in keys(section)}
        used |= {*((sweep.get("search") or {}).get("space") or {})}
    return [key for key in options if key not in used and not any(name.startswith(f"{key}.") for name in used)]


def read(path: Path) -> Any:
    """Content of a YAML file, {} for an empty one."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _sections(sweep: Any) -> Iterator[Any]:
    for name in SECTIONS_OF_SWEEPS:
        yield sweep.get(name, {})
    for run in (sweep.get("runs") or {}).values():
        yield run.get("changes", {})


def keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of nested options, those of a list's items without a number."""
    items = value if isinstance(value, list) and any(isinstance(item, dict) for item in value) else [value]
    for item in items:
        if not isinstance(item, dict):
            yield prefix
            continue
        for name, inner in item.items():
            yield from keys(inner, f"{prefix}.{name}" if prefix else str(name))


if __name__ == "__main__":
    main()
