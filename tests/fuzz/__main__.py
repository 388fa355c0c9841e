"""Fuzz the readers: `python -m tests.fuzz MATERIAL CASES READER...`; every case that fails is printed, exit code 1.

A case changes one file of MATERIAL (made by `material.py`, copied before), with a generator seeded by reader and
number. It must end in success or in an `InputError` of one line, in `SECONDS` and `MEMORY`. A success must be
harmless: what is in use is what the file holds now, or what it held before.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from sparring.configs.core.errors import LONGEST, InputError
from sparring.configs.core.tensor_file import unpack
from tests.fuzz.mutations import HARMFUL, Change, change, damage, leaves, rezip, same, to_json, write
from tests.fuzz.reader import UNUSED, Reader
from tests.fuzz.readers import READERS

SECONDS = 60.0
MEMORY = 400_000_000
"""Bytes that a case may take beyond what the process has before."""


class TooSlowError(BaseException):
    """Raised by the alarm; no reader catches it."""


def main(arguments: list[str]) -> int:
    """Run the cases of the readers named; return 1 if any failed."""
    material, cases = Path(arguments[0]), int(arguments[1])
    torch.set_num_threads(1)
    faulthandler.enable()
    signal.signal(signal.SIGALRM, _too_slow)
    failed = 0
    for name in arguments[2:] or READERS:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            failed += _reader(name, _copy(material, Path(folder)), cases)
    return int(failed > 0)


def _copy(material: Path, folder: Path) -> Path:
    """Copy the runs, with the folder of checkpoints in their configurations replaced."""
    root = folder / "root"
    shutil.copytree(material, root)
    for config in root.glob("*/config.yaml"):
        config.write_text(config.read_text().replace(str(material), str(root)))
    return root


def _reader(name: str, root: Path, cases: int) -> int:
    reader = READERS[name](root)
    started, failed, taken = time.perf_counter(), 0, 0
    try:
        for _ in range(2):  # the file as it is, which also fills all caches
            wrong, used = _limited(reader, reader.data, seconds=300.0, memory=10 * MEMORY)
            if wrong or used is None or (wrong := _harm(reader, data=reader.data, made=None, used=used)):
                raise RuntimeError(f"{name}: the valid file is refused or not taken as it is: {wrong}")
        for number in range(cases):
            words, data, made = _case(reader, random.Random(f"{name} {number}"))
            print(f"{name} {number}: {words}", file=_LAST, flush=True)
            wrong, used = _limited(reader, data)
            taken += used is not None
            wrong = wrong or (_harm(reader, data, made, used) if used is not None else "")
            if wrong:
                failed += 1
                print(f"{name} {number}: {words}: {wrong}", flush=True)
    finally:
        reader.close()
    print(f"{name}: {cases} cases, {taken} taken, {failed} failed, {time.perf_counter() - started:.1f} s", flush=True)
    return failed


_LAST = open(tempfile.gettempdir() + "/fuzz-last.txt", "w", encoding="utf-8")  # noqa: SIM115


def _case(reader: Reader, rng: random.Random) -> tuple[str, bytes, Change | None]:
    """Return a case: its words, the changed file, and the change of content, if it is one."""
    roll = rng.random()
    zipped = reader.data[:2] == b"PK"
    if reader.original and roll < 0.85:
        made = change(reader.original, rng, tensors=reader.tensors)
        if isinstance(made.content, dict) and "sha256" not in str(made.path[:1]):
            made.content.update(reader.dump(made.content))
        try:
            return str(made), write(made.content) if reader.tensors else to_json(made.content), made
        except (TypeError, RuntimeError):
            pass
    words, data = rezip(reader.data, rng) if zipped and roll < 0.95 else damage(reader.data, rng)
    return words, data, None


def _limited(reader: Reader, data: bytes, *, seconds: float = SECONDS, memory: int = MEMORY) -> tuple[str, Any]:
    """Read a changed file; return what is wrong with the way it ended, and what is in use after a success."""
    reader.put(data)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, before[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            used = reader.read()
        return "", UNUSED if used is None else used
    except InputError as error:
        lines = str(error)
        if data == reader.data:
            raise
        wrong = "several lines" if "\n" in lines else "too long" if len(lines) > 2 * LONGEST else ""
        return wrong and f"{wrong}: {lines[:300]!r}", None
    except (Exception, TooSlowError, SystemExit) as error:
        at = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in at if "site-packages" not in frame.filename] or at
        return f"{type(error).__name__}: {str(error)[:150]!r} at {Path(ours[-1].filename).name}:{ours[-1].lineno}", None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _harm(reader: Reader, data: bytes, made: Change | None, used: Any) -> str:
    """Return why a success was not harmless."""
    harmless = made is not None and str(made).startswith(reader.harmless or ("-",))
    if made is not None and made.kind in HARMFUL and not harmless:
        return "was taken"
    if used is UNUSED:
        return ""
    content = made.content if made else unpack(data) if reader.tensors else reader.original
    now, before, asked = leaves(used), leaves(reader.original), leaves(content)
    if harmless and made is not None:  # its place has a default, the one of files that were written without it
        place = made.path[:-1] if isinstance(made.path[-1], int) else made.path  # the others of a list move up
        now = {path: value for path, value in now.items() if path[: len(place)] != place}
    for path in now:
        if not any(path in one and same(now[path], one[path]) for one in (asked, before)):
            return f"{'/'.join(map(str, path))} is now {str(now[path])[:60]}, neither the file's nor the old one"
    return ""


def _too_slow(number: int, frame: Any) -> None:
    raise TooSlowError("took too long")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
