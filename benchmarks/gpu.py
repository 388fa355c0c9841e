"""Checks and measurements of everything that runs on a GPU, in nine minutes: `make gpu`.

Kernels against the CPU's, the captured step, env steps per second, whole PPO updates in three precisions, an exact
resume, Diplomacy, a language model and GRPO. Each part runs in its own process under its own time limit. A part that
crashes, hangs or lacks a package does not stop the others. The report is a page and the same data as JSON, with figures
of the same machine's CPU for comparison. Without a GPU, `--device cpu` runs all of it at tiny sizes.

    python benchmarks/gpu.py --parts kernels,speed --out gpu.md
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.gpu_run.process import BROKEN, NOT_RUN, Outcome, run_part
from benchmarks.gpu_run.registry import NAMES, PARTS, WHOLE, Part
from sparring.configs.core.errors import ConfigError, choose

OUT = Path("checkpoints/gpu.md")
SLOWER = 4.0
"""Times the limit of a part on a CPU, where nothing is lent by the second."""


def main() -> int:
    """Run the parts and write the report; return 1 if a part did not pass."""
    args = parse()
    # Threads that spin while they wait ruin everything else that runs on the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if args.alone:
        return alone(args)
    started, chosen = time.monotonic(), chosen_parts(args.parts)
    check_device(args.device)
    report, outcomes = begin_report(args), []
    for part in chosen:
        outcome = one_part(part, args, left=WHOLE - (time.monotonic() - started))
        say(outcome)
        outcomes.append(outcome)
        report["parts"].append(outcome.plain() | {"title": part.title})
        report["seconds"] = time.monotonic() - started
        save(report, args.out)
    print(f"\n{args.out.read_text(encoding='utf-8')}")
    return int(any(outcome.status in BROKEN for outcome in outcomes))


def parse() -> argparse.Namespace:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", default=",".join(NAMES), metavar="A,B", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--device", default="cuda", metavar="D", help="cuda, cuda:1 ..., or cpu to try the script")
    parser.add_argument("--limit", type=float, default=WHOLE, metavar="S", help="no part gets more seconds than this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="tiny sizes on a GPU, too, to test the script")
    parser.add_argument("--commit", default="", help="the commit to name in the report where git cannot be asked")
    parser.add_argument("--out", type=Path, default=OUT, help=f"the page, .json beside it (default: {OUT})")
    parser.add_argument("--alone", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("result", nargs="?", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.limit <= 0:
        parser.error(f"--limit={args.limit}: must be above 0")
    args.quick |= args.device == "cpu"
    return args


def alone(args: argparse.Namespace) -> int:
    """Run one part in this process, and write its findings to the file that the parent reads."""
    from benchmarks.gpu_parts.part import PartOptions

    part = PARTS[NAMES.index(args.alone)]
    found = part.load()(PartOptions(args.device, args.seed, args.quick))
    args.result.write_text(json.dumps(found.plain()), encoding="utf-8")
    return 0


def chosen_parts(names: str) -> list[Part]:
    """Return the parts of a comma-separated list in their usual order; raises `UnknownNameError` for an unknown one."""
    wanted = {choose("--parts", name, NAMES) for name in names.split(",")}
    return [part for part in PARTS if part.name in wanted]


def check_device(name: str) -> None:
    """Raise `ConfigError` for a missing device."""
    import torch  # late: --help does without

    from sparring.configs.core.device import choose_device

    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device={name}: no CUDA device on this machine; --device cpu tries the script at tiny sizes")
    choose_device(name)


def one_part(part: Part, args: argparse.Namespace, *, left: float) -> Outcome:
    """Run a part in its own process, within its limit and the time `left` for all; a busy CPU may take longer."""
    limit = min(part.limit * (SLOWER if args.quick else 1.0), args.limit, left)
    if limit <= 1.0:
        return Outcome(part.name, NOT_RUN, limit=part.limit, why="no time was left")
    options = ["--device", args.device, "--seed", str(args.seed), *(["--quick"] if args.quick else [])]
    command = [sys.executable, "-W", "ignore::FutureWarning", str(Path(__file__).resolve())]
    return run_part(part.name, [*command, "--alone", part.name, *options], limit=limit)


def say(outcome: Outcome) -> None:
    """Print a line about a finished part."""
    why = f": {outcome.why}" if outcome.why else ""
    print(f"{outcome.name:<10} {outcome.status}{why} ({outcome.seconds:.1f} s)", flush=True)


def begin_report(args: argparse.Namespace) -> dict[str, Any]:
    """Return the header of the report, known before the first part runs."""
    from benchmarks.gpu_run.machine import commit, machine

    return {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(args.commit),
        "seed": args.seed,
        "quick": args.quick,
        "machine": machine(args.device),
        "seconds": 0.0,
        "parts": [],
    }


def save(report: dict[str, Any], out: Path) -> None:
    """Write the page and the JSON so far: after each part, in case a later one does not finish."""
    from benchmarks.gpu_run.page import page

    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(report), encoding="utf-8")
    out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_script(main))
