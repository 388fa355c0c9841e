"""Record the working tree and a commit, and compare them: `make golden BASE=<commit>`; docs/golden_runs.md.

Exit codes: 0 equal, 1 something differs or failed, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.golden.checkout import Checkout, CheckoutError, copy_commit, copy_working_tree
from tests.golden.compare import Recording, report
from tests.golden.parts import Part, select
from tests.golden.record import FILE, Recorder
from tests.golden.renames import Renames

ROOT = Path(__file__).resolve().parents[2]
BAD_INPUT = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        parts = select(word for word in options.parts.replace(",", " ").split())
        with tempfile.TemporaryDirectory(prefix="golden-") as folder:
            place = Path(options.keep or folder).resolve()
            return _compare(options, parts, place, Path(folder).resolve())
    except (CheckoutError, ValueError, FileExistsError) as error:
        print(f"golden: {error}", file=sys.stderr)
        return BAD_INPUT


def _compare(options: argparse.Namespace, parts: list[Part], place: Path, scratch: Path) -> int:
    renames = Renames.read()
    base, head = Path(options.base), place / "head"
    if not (base / FILE).exists():
        checkout = scratch / "base-files"
        commit = copy_commit(ROOT, options.base, checkout)
        base = _record(checkout, place / "base", f"commit {commit}", parts, renames, options.jobs)
    copy_working_tree(ROOT, scratch / "head-files")
    _record(scratch / "head-files", head, "the working tree", parts, renames, options.jobs)
    names = [part.name for part in parts]
    wrong = report(Recording(base), Recording(head), renames, not options.ignore_messages, names)
    print(f"{wrong} of {len(parts)} parts differ" if wrong else f"all {len(parts)} parts are equal")
    return min(wrong, 1)


def _record(files: Path, out: Path, source: str, parts: list[Part], renames: Renames, jobs: int) -> Path:
    print(f"recording {source}", flush=True)
    checkout = Checkout.at(files, files.with_name(f"{files.name}-imports"))
    Recorder(checkout, out, renames).record(parts, source, jobs)
    return out


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default="HEAD", metavar="B", help="a commit, or the folder of a recording")
    parser.add_argument(
        "--parts", default="", metavar="P,P", help="parts by the beginnings of their names; all of them"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="parts recorded at a time (default: 2)")
    parser.add_argument("--keep", metavar="DIR", help="keep the recordings as DIR/base and DIR/head")
    parser.add_argument("--ignore-messages", action="store_true", help="let the wording of events.jsonl differ")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
