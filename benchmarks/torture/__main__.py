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
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks.command import run_script
from benchmarks.gpu_run.machine import commit
from benchmarks.report import heading, publish, table
from benchmarks.torture import code_execution, disk, files, hostile, kills
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, SKIPPED, Place, Step, Verdict, sliced
from benchmarks.torture.runs import RUNS
from sparring.configs.core.errors import InputError

PARTS = {
    "kills": (kills, "SIGKILL at random moments, resumed, compared bit for bit with an undisturbed run"),
    "files": (files, "Flipped bits and truncations of every file that a run leaves"),
    "disk": (disk, "Full disk, and two starts at once in one folder"),
    "hostile": (hostile, "Run folders and policies of a stranger"),
    "code": (code_execution, "Every way by which a stranger's file could make code run, each with a canary"),
}

END, NO_TIME = "the end", "no time was left"
"""First words of a step that finishes earlier ones and is always tried; the reason for a step that is not tried."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 if a step failed, or if none was tried."""
    args = _parser().parse_args(arguments)
    chosen = [name for name in PARTS if name in args.only]
    started, texts = time.monotonic(), list[str]()
    results = set[str]()
    ends = math.inf if args.minutes is None else started + 60.0 * args.minutes
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder), args.seed, args.kills or (100 if args.full else len(RUNS)))
        for number, name in enumerate(chosen, 1):
            module, title = PARTS[name]
            steps = module.steps(place) if args.full or args.match else sliced(module.steps(place))
            matching = [step for step in steps if args.match in f"{step.group}, {step.what}"]
            tried = _try(f"{name} ({number}/{len(chosen)})", matching, place, ends)
            results |= {verdict.result for _, verdict in tried}
            texts += [f"## {name}\n", f"{title}.\n", _table(tried), *_notes(tried)] if tried else []
            state = "" if number == len(chosen) else " so far"
            publish("\n".join([*_head(args, time.monotonic() - started, state), *texts]), args.out)
    return int(FAILED in results or results <= {SKIPPED})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--only", type=_parts, default=list(PARTS), metavar="P,P", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--match", default="", metavar="TEXT", help="of the steps, those with TEXT in group or name")
    parser.add_argument("--full", action="store_true", help="every step; else one of each kind")
    parser.add_argument("--kills", type=_count, metavar="N", help="over five trainers (default: 5; --full: 100)")
    limit = "what is not reached by then is not tried (default: no limit)"
    parser.add_argument("--minutes", type=_count, metavar="N", help=limit)
    parser.add_argument("--seed", type=int, default=0, help="of moments and places (default: 0)")
    parser.add_argument("--out", type=Path, help="write the page there, after every part")
    return parser


def _parts(text: str) -> list[str]:
    if wrong := [name for name in text.split(",") if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r}: choose from {', '.join(PARTS)}")
    return text.split(",")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 100000")
    return int(text)


def _try(label: str, steps: Iterable[Step], place: Place, ends: float) -> list[tuple[Step, Verdict]]:
    """Try the steps of one part, below a bar with the time left, until the moment `ends`."""
    tried = []
    with tqdm(steps, desc=label, unit="step", mininterval=1.0 if sys.stderr.isatty() else 30.0) as bar:
        for step in bar:
            if time.monotonic() > ends and not step.what.startswith(END):
                tried.append((step, Verdict(SKIPPED, NO_TIME)))
                continue
            try:
                verdict = step.attempt()
            except (OSError, ValueError, RuntimeError, LookupError, InputError) as error:
                verdict = Verdict(FAILED, f"the step itself ended: {type(error).__name__}: {str(error)[:300]}")
            tried.append((step, verdict))
            if verdict.result == FAILED:
                bar.write(f"FAILED {label}, {step.group}, {step.what}: {verdict.words}", file=sys.stderr)
            place.clear()
    return tried


def _head(args: argparse.Namespace, seconds: float, state: str) -> list[str]:
    """Return how to repeat it, and where and when it ran."""
    scope = "Every step" if args.full else "One step of each kind"
    machine = f"{platform.system()} {platform.release()}, nice {os.nice(0)}"
    return [
        heading("Torture", ("torch", "warp-lang", "numpy")).replace(sys.argv[0], "-m benchmarks.torture"),
        f"{scope}. Commit {commit() or 'unknown'}, seed {args.seed}, {machine}, {seconds:.0f} s{state}, "
        f"{datetime.datetime.now():%H:%M} at the end.\n",
    ]


def _table(tried: Sequence[tuple[Step, Verdict]]) -> str:
    groups: dict[str, Counter[str]] = {}
    for step, verdict in tried:
        groups.setdefault(step.group, Counter())[verdict.result] += 1
    results = (REFUSED, HARMLESS, FAILED, SKIPPED)
    rows = [[group, str(count.total()), *(str(count[result]) for result in results)] for group, count in groups.items()]
    return table(["what", "steps", "refused in one line", *results[1:]], rows)


def _notes(tried: Sequence[tuple[Step, Verdict]]) -> list[str]:
    """Return a line for each failure, each step not tried, and each step that ends a group with a summary."""
    kinds = Counter(verdict.kind for _, verdict in tried if verdict.kind)
    lines = [f"- {count} {kind}" for kind, count in sorted(kinds.items())]
    for step, verdict in tried:
        reported = verdict.result in (FAILED, SKIPPED) and verdict.words != NO_TIME
        if reported or step.what.startswith(END):
            # In one line, without what Markdown or HTML would take for its own.
            words = " ".join(verdict.words.split()).replace("<", "&lt;").replace("|", "\\|")
            lines.append(f"- {verdict.result}: {step.group}, {step.what}: {words}")
    return ["\n".join(lines) + "\n"] if lines else []


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks/torture"))
