"""The report as a markdown page, from the same data as the JSON beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import table

SUMMARY = ("part", "result", "seconds", "limit")


def page(report: Mapping[str, Any]) -> str:
    """Return the page: machine, command, summary, then each part with tables, checks and, on failure, its output."""
    rows = [_summary(part) for part in report["parts"]]
    text = ["# GPU\n", _heading(report), table(SUMMARY, rows)]
    return "\n".join([*text, *(_part(part) for part in report["parts"])])


def _heading(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    gpu = ""
    if "gpu" in machine:
        gpu = (
            f"{machine['gpu']} ({machine['gpu_memory_gib']} GiB), driver {machine['driver']}, CUDA {machine['cuda']}; "
        )
    kind = "tiny sizes, to see that the script works; " if report["quick"] else ""
    return (
        f"{gpu}{machine['cpu']}, {machine['cores']} cores usable, load {machine['load']} at the start, "
        f"Python {machine['python']}, {packages}, {machine['system']}.\n\n"
        f"{kind}{report['date']}, commit {report['commit'] or 'unknown'}, seed {report['seed']}, "
        f"{report['seconds']:.0f} s in all.\n\n    {report['command']}\n"
    )


def _summary(part: Mapping[str, Any]) -> list[str]:
    why = f": {part['why']}" if part["why"] else ""
    return [part["name"], f"{part['status']}{why}", f"{part['seconds']:.1f}", f"{part['limit']:.0f}"]


def _part(part: Mapping[str, Any]) -> str:
    lines = [f"## {part['title']}\n", f"{_summary(part)[1]}, {part['seconds']:.1f} s.\n"]
    found = part["found"]
    for one in found.get("tables", []):
        lines += [f"{one['title']}\n"] if one["title"] else []
        lines.append(table(one["head"], one["rows"]))
    lines += _checks(found.get("checks", {}))
    lines += [f"{note}\n" for note in found.get("notes", [])]
    if part["output"]:
        lines.append("\n".join(f"    {line}" for line in part["output"].splitlines()) + "\n")
    return "\n".join(lines)


def _checks(checks: Mapping[str, bool]) -> Sequence[str]:
    if not checks:
        return []
    return ["\n".join(f"- {'holds' if holds else 'DOES NOT HOLD'}: {name}" for name, holds in checks.items()) + "\n"]
