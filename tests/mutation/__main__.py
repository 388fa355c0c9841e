"""Plant faults one at a time and record which the tests notice: `make mutation`; docs/results/mutation.md.

Exit codes: 0 every fault without a stated reason was caught, 1 one survived or no test judged it, 2 bad input.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.golden.checkout import Checkout, copy_working_tree
from tests.mutation.faults import Fault, FaultError, read_faults
from tests.mutation.page import page
from tests.mutation.results import store, stored
from tests.mutation.trial import FACTOR, TrialResult, Trials

ROOT = Path(__file__).resolve().parents[2]
BAD_INPUT = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    options, started = _parser().parse_args(arguments), time.perf_counter()
    try:
        faults = [fault for fault in read_faults() if any(word in fault.name for word in options.only)]
        for fault in faults:
            fault.changed(ROOT)
        if not faults:
            raise FaultError(f"--only {' '.join(options.only)}: is part of no fault's name")
        results = stored(options.results, faults, ROOT)
        done = [result.fault for result in results]
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            results += _run([fault for fault in faults if fault not in done], Path(folder).resolve(), options.results)
    except FaultError as error:
        print(f"mutation: {error}", file=sys.stderr)
        return BAD_INPUT
    if options.page:
        command = " ".join(["python -m tests.mutation", *arguments])
        seconds = max(sum(result.seconds for result in results), time.perf_counter() - started)
        facts = {"commit": _commit(), "machine": _machine(), "seconds": seconds}
        options.page.write_text(
            page(results, command=command, factor=FACTOR, listed=len(read_faults()), **facts), encoding="utf-8"
        )
    caught = sum(result.caught for result in results)
    print(f"{caught} of {len(results)} faults were caught")
    return int(any(not result.caught and not result.fault.equivalent for result in results))


def _run(faults: Sequence[Fault], scratch: Path, file: Path | None) -> list[TrialResult]:
    if not faults:
        return []
    copy_working_tree(ROOT, scratch / "files")
    trials = Trials(Checkout.at(scratch / "files", scratch / "imports"))
    print(f"running the tests of {len(faults)} faults without any fault", flush=True)
    try:
        trials.measure(test for fault in faults for test in fault.tests)
        results = []
        for fault in sorted(faults, key=trials.cost):  # the cheapest first
            results.append(trials.run(fault))
            last = results[-1]
            if file:
                store(file, last, ROOT)
            print(f"{last.seconds:6.1f} s  {last.outcome:9} {fault.name}  {last.noticed_by}", flush=True)
        return results
    finally:
        trials.close()


def _commit() -> str:
    said = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{name}, Python {platform.python_version()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORDS", help="faults whose names contain one of these"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results there, do not repeat them")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the results there, as markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
