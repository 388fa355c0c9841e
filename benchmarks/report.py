"""Report of a measurement: markdown tables below a line with machine, date and command."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sparring.configs.core.device import usable_cores


def heading(title: str, packages: Sequence[str] = ()) -> str:
    """Return a title and the data needed to repeat the measurement: machine, load, versions, date, command."""
    cores = usable_cores()
    versions = "".join(f", {name} {version(name)}" for name in packages)
    command = shlex.join(["python", *invocation()])
    return (
        f"# {title}\n\n"
        f"{processor()}, {cores} cores usable, load {os.getloadavg()[0]:.1f} at the start, Python "
        f"{platform.python_version()}{versions}, {datetime.date.today().isoformat()}\n\n    {command}\n"
    )


def invocation() -> list[str]:
    """Return the arguments of Python: a script's path, or -m and the name of a module that was started so."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or not spec.name.startswith("benchmarks."):
        return sys.argv
    return ["-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]


def processor() -> str:
    """Return the processor's name as Linux reports it, else its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a markdown table; the first column is left-aligned, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def publish(text: str, out: Path | None) -> None:
    """Print the report and, if a path is given, write it there."""
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
