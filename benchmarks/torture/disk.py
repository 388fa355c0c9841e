"""A full disk, and two starts at once in one run folder.

The disk is a tmpfs of a few hundred KiB in a mount namespace of the process's own (`unshare -Urm`), so that writes end
in ENOSPC; where that is not allowed, only the limit on the size of a file is used (RLIMIT_FSIZE), so that they end in
EFBIG. After both the run is resumed with room: nothing that was saved may be lost, and the end is the undisturbed one.
"""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.torture.commands import ROOT, SECONDS, Ended, Running, run
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, SKIPPED, Place, Step, Verdict
from benchmarks.torture.runs import RUNS, differences, load, updates_done

RUN = RUNS["self_play"]
KIB = (40, 150, 400, 800)
"""Sizes of the disk; the whole run takes about 1,200 KiB."""
FILE_BYTES = (500, 8_000, 20_000, 30_000)
"""Limits on the size of a file; a training state has about 60,000 bytes, the logs grow."""
STARTS = 5


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every size of the disk, limit of a file, and pair of starts."""
    for kib in KIB:
        yield Step("full disk: tmpfs, ENOSPC", f"{kib} KiB", partial(_small_disk, place, kib), "tmpfs")
    for limit in FILE_BYTES:
        yield Step(
            "full disk: RLIMIT_FSIZE, EFBIG", f"{limit} bytes a file", partial(_small_files, place, limit), "limit"
        )
    rng = random.Random(f"disk {place.seed}")
    for number in range(STARTS):
        yield Step(
            "two starts at once", f"pair {number + 1}", partial(_two_starts, place, rng.uniform(0.0, 0.05)), "pair"
        )


def _small_disk(place: Place, kib: int) -> Verdict:
    """Start the run on a small disk, copy what is there to a large one, and resume."""
    folder = place.fresh()
    mount, out = folder / "mnt", folder / "out"
    mount.mkdir()
    words = [sys.executable, str(ROOT / "train.py"), *RUN.command(mount)[1:]]
    script = (
        f"mount -t tmpfs -o size={kib}k tmpfs {shlex.quote(str(mount))} || exit 77\n"
        f"{shlex.join(words)} > {shlex.quote(str(folder / 'log'))} 2>&1\ncode=$?\n"
        f"cp -a {shlex.quote(str(mount))} {shlex.quote(str(out))}\nexit $code\n"
    )
    if shutil.which("unshare") is None:
        return Verdict(SKIPPED, "there is no unshare on the PATH")
    try:
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", script],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5 * SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(FAILED, f"took longer than {5 * SECONDS:.0f} s")
    if not (folder / "log").exists():
        return Verdict(SKIPPED, f"a tmpfs is not allowed here: {done.stderr.strip()[:200]}")
    ended = Ended(tuple(RUN.command(mount)), done.returncode, (folder / "log").read_text(errors="replace"))
    return _judge(place, ended, out, "No space left")


def _small_files(place: Place, limit: int) -> Verdict:
    folder = place.fresh()
    ended = run(RUN.command(folder), folder / "log", file_bytes=limit)
    return _judge(place, ended, folder, "File too large")


def _judge(place: Place, ended: Ended, root: Path, reason: str) -> Verdict:
    """Check how the run ended without room, then resume it with room and compare."""
    if ended.crashed or (ended.code != 0 and not ended.refusal()):
        return Verdict(FAILED, ended.crashed or f"not one line: {ended}")
    if reason not in ended.output:
        return Verdict(FAILED, f"the disk was not full, or no word of it: {ended}")
    folder = root / RUN.name
    reached = updates_done(folder)
    for state in (folder / "state").glob("update_*/state.pt"):
        load(state)
    again = run(RUN.command(root), root.parent / "again")
    if again.code != 0 or "damaged" in again.output:
        return Verdict(FAILED, f"with room again, {again}")
    begins = (
        f"resumed after update {reached} " in again.output or reached < 0 or f" {reached} updates done" in again.output
    )
    if not begins:
        return Verdict(FAILED, f"update {reached} was saved, but {again.output.splitlines()[:3]}")
    wrong = differences(place.whole(RUN.name), folder)
    other = next((line for line in ended.output.splitlines() if "alert: no snapshot" in line), "")
    if wrong and not other:
        return Verdict(FAILED, f"another end: {', '.join(wrong[:4])}")
    place.done(root)
    kind = "other opponents after an alert that a snapshot was not taken" if wrong else "the same end after resuming"
    how = REFUSED if ended.code else HARMLESS
    return Verdict(how, f"{ended.last}; resumed after update {reached}", kind)


def _two_starts(place: Place, apart: float) -> Verdict:
    """Start the same run twice, `apart` seconds from each other."""
    folder = place.fresh()
    first = Running(RUN.command(folder), folder / "first")
    first.process.join(apart)
    second = Running(RUN.command(folder), folder / "second")
    both = [first.wait(), second.wait()]
    if [one.code for one in both if one.crashed] or sorted(str(one.code) for one in both) != ["0", "2"]:
        return Verdict(FAILED, f"not one at work and one refused: {both[0]}; {both[1]}")
    refused = next(one for one in both if one.code == 2)
    if not refused.refusal(RUN.name):
        return Verdict(FAILED, f"not refused in one line: {refused}")
    if wrong := differences(place.whole(RUN.name), folder / RUN.name):
        return Verdict(FAILED, f"the one that went on ended otherwise: {', '.join(wrong[:4])}")
    place.done(folder)
    return Verdict(REFUSED, refused.last)
