"""Torture the product and say what held: `python -m benchmarks.torture`, one step of each kind; `--full` for all.

Runs are killed, their files damaged, their disk filled, and files of strangers read. Every step ends refused in one
line, harmless, or FAILED; the exit code is 1 if any failed. Runs and files are made in a temporary folder.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from benchmarks.command import run_script
from benchmarks.gpu_run.machine import commit
from benchmarks.report import heading, publish, table
from benchmarks.torture import code_execution, disk, files, hostile, kills, pages
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, SKIPPED, Place, Step, Verdict, sliced
from sparring.configs.core.errors import InputError

TITLES = {
    "kills": "SIGKILL at random moments, resumed, compared bit for bit with an undisturbed run",
    "files": "flipped bits and truncations of every file that a run leaves",
    "disk": "full disk, and two starts at once in one folder",
    "hostile": "run folders, policies, saved games, endpoints of a stranger",
    "pages": "script tags in the names on replay and play pages",
    "code": "every way by which a stranger's file could make code run, each with a canary",
}

END, NO_TIME = "the end", "no time was left"
"""How a step begins that ends what others began, and which is therefore always tried; and why another is not."""


@dataclass(frozen=True)
class Tried:
    """A step that was tried, its part, and its verdict."""

    part: str
    step: Step
    verdict: Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 if a step failed."""
    args = _parser().parse_args(arguments)
    chosen = [name for name in TITLES if name in args.only]
    started, tried = time.monotonic(), list[Tried]()
    ends = math.inf if args.minutes is None else started + 60.0 * args.minutes
    with tempfile.TemporaryDirectory(prefix="torture-", dir=args.folder, ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder), args.seed)
        for number, name in enumerate(chosen, 1):
            tried += _part(f"{name} ({number}/{len(chosen)})", name, _steps(name, place, args), ends)
            publish(_page(tried, args, time.monotonic() - started, whole=name == chosen[-1]), args.out)
    return int(any(one.verdict.result == FAILED for one in tried))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--only", type=_parts, default=list(TITLES), metavar="P,P", help=f"of {', '.join(TITLES)}")
    parser.add_argument("--match", default="", metavar="TEXT", help="of the steps, those with TEXT in group or name")
    parser.add_argument("--full", action="store_true", help="every step; else one of each kind")
    parser.add_argument("--kills", type=_count, metavar="N", help="over five trainers (default: 5; --full: 100)")
    parser.add_argument(
        "--damages", type=_count, default=6, metavar="N", help="bit flips of each file, beside truncations (default: 6)"
    )
    parser.add_argument(
        "--minutes",
        type=_count,
        metavar="N",
        help="what is not reached by then is not tried (default: no limit)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of moments and places (default: 0)")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made (default: the system's)")
    parser.add_argument("--out", type=Path, help="write the page there, after every part")
    return parser


def _parts(text: str) -> list[str]:
    wrong = [name for name in text.split(",") if name not in TITLES]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r}: choose from {', '.join(TITLES)}")
    return text.split(",")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 100000")
    return int(text)


def _steps(name: str, place: Place, args: argparse.Namespace) -> list[Step]:
    makers: dict[str, Callable[[], Iterator[Step]]] = {
        "kills": lambda: kills.steps(place, args.kills or (100 if args.full else len(kills.TRAINERS))),
        "files": lambda: files.steps(place, args.damages),
        "disk": lambda: disk.steps(place),
        "hostile": lambda: hostile.steps(place),
        "pages": lambda: pages.steps(place),
        "code": lambda: code_execution.steps(place),
    }
    steps = makers[name]() if args.full or args.match else sliced(makers[name]())
    return [step for step in steps if args.match in f"{step.group}, {step.what}"]


def _part(label: str, name: str, steps: Sequence[Step], ends: float) -> list[Tried]:
    """Try the steps of one part, below a bar with the time left, until the moment `ends`."""
    tried = []
    with tqdm(steps, desc=label, unit="step", mininterval=1.0 if sys.stderr.isatty() else 30.0) as bar:
        for step in bar:
            if time.monotonic() > ends and not step.what.startswith(END):
                tried.append(Tried(name, step, Verdict(SKIPPED, NO_TIME)))
                continue
            try:
                verdict = step.attempt()
            except (OSError, ValueError, RuntimeError, LookupError, InputError) as error:
                verdict = Verdict(FAILED, f"the step itself ended: {type(error).__name__}: {str(error)[:300]}")
            tried.append(Tried(name, step, verdict))
            if verdict.result == FAILED:
                bar.write(f"FAILED {name}, {step.group}, {step.what}: {verdict.words}", file=sys.stderr)
    return tried


def _page(tried: Sequence[Tried], args: argparse.Namespace, seconds: float, *, whole: bool) -> str:
    """Return the page: how to repeat it, a table by part and group, what was not tried, and every failure."""
    text = [
        heading("Torture", ("torch", "warp-lang", "numpy")).replace(sys.argv[0], "-m benchmarks.torture"),
        f"{'Every step' if args.full else 'One step of each kind'}. Commit {commit() or 'unknown'}, seed {args.seed}, "
        f"{platform.system()} {platform.release()}, nice "
        f"{os.nice(0)}, {seconds:.0f} s{'' if whole else ' so far'}, {datetime.datetime.now():%H:%M} at the end.\n",
    ]
    for part, title in TITLES.items():
        ours = [one for one in tried if one.part == part]
        if ours:
            text += [f"## {part}\n", f"{title[0].upper()}{title[1:]}.\n", _table(ours), *_notes(ours)]
    return "\n".join(text)


def _table(tried: Sequence[Tried]) -> str:
    groups: dict[str, Counter[str]] = {}
    for one in tried:
        groups.setdefault(one.step.group, Counter())[one.verdict.result] += 1
    results = (REFUSED, HARMLESS, FAILED, SKIPPED)
    rows = [[group, str(count.total()), *(str(count[result]) for result in results)] for group, count in groups.items()]
    return table(["what", "steps", "refused in one line", *results[1:]], rows)


def _notes(tried: Sequence[Tried]) -> list[str]:
    """Return a line for each failure, each step not tried, and each step that ends a group with a summary."""
    kinds = Counter(one.verdict.kind for one in tried if one.verdict.kind)
    lines = [f"- {count} {kind}" for kind, count in sorted(kinds.items())]
    for one in tried:
        told = one.verdict.result in (FAILED, SKIPPED) and one.verdict.words != NO_TIME
        if told or one.step.what.startswith(END):
            lines.append(f"- {one.verdict.result}: {one.step.group}, {one.step.what}: {_plain(one.verdict.words)}")
    return ["\n".join(lines) + "\n"] if lines else []


def _plain(words: str) -> str:
    """Return words for a page: in one line, without what Markdown or HTML would take for its own."""
    return " ".join(words.split()).replace("<", "&lt;").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks/torture"))
