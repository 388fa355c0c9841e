"""A full disk, and two starts at once in one run folder.

The disk is a tmpfs of a few hundred KiB in the process's own mount namespace (`unshare -Urm`): writes fail with ENOSPC.
Where that is not allowed, only the limit on the size of a file is used (`prlimit`): writes fail with EFBIG. After both,
the run is resumed with room. Saved data must not be lost, and the result must equal an undisturbed run's.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.torture.commands import BAD_INPUT, ROOT, SECONDS, Ended, Running, run
from benchmarks.torture.part import FAILED, REFUSED, SKIPPED, Place, Step, Verdict, judged
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
        script = f'mount -t tmpfs -o size={kib}k tmpfs disk && {{ "$@"; code=$?; cp -a disk saved; exit $code; }}'
        attempt = partial(_no_room, place, ["unshare", "-Urm", "sh", "-c", script, "sh"], "disk", "No space left")
        yield Step("full disk: tmpfs, ENOSPC", f"{kib} KiB", attempt, "tmpfs")
    for limit in FILE_BYTES:
        attempt = partial(_no_room, place, ["prlimit", f"--fsize={limit}"], "saved", "File too large")
        yield Step("full disk: RLIMIT_FSIZE, EFBIG", f"{limit} bytes a file", attempt, "limit")
    rng = random.Random(f"disk {place.seed}")
    for number in range(STARTS):
        attempt = partial(_two_starts, place, rng.uniform(0.0, 0.05))
        yield Step("two starts at once", f"pair {number + 1}", attempt, "pair")


def _no_room(place: Place, limiter: list[str], written: str, reason: str) -> Verdict:
    """Start the run below `limiter`, which leaves what it wrote in `saved`; then resume it with room and compare."""
    root = place.fresh()
    (root / written).mkdir()
    if shutil.which(limiter[0]) is None:
        return Verdict(SKIPPED, f"there is no {limiter[0]} on the PATH")
    words, seconds = RUN.command(root / written), 5 * SECONDS
    command = [*limiter, sys.executable, str(ROOT / "train.py"), *words[1:]]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Verdict(FAILED, f"took longer than {seconds:.0f} s")
    if not (root / "saved").exists():
        return Verdict(SKIPPED, f"a tmpfs is not allowed here: {done.stderr.strip()[:200]}")
    ended = Ended(tuple(words), done.returncode, done.stdout + done.stderr)
    if (verdict := judged(ended, harmless="ended by itself")).result == FAILED:
        return verdict
    if reason not in ended.output:
        return Verdict(FAILED, f"the disk was not full, or no word of it: {ended}")
    folder = root / "saved" / RUN.name
    reached = updates_done(folder)
    for state in (folder / "state").glob("update_*/state.pt"):
        load(state)
    again = run(RUN.command(root / "saved"), root / "again")
    if again.code != 0 or "damaged" in again.output:
        return Verdict(FAILED, f"with room again, {again}")
    begins = (f"resumed after update {reached} ", f" {reached} updates done")
    if reached >= 0 and not any(words in again.output for words in begins):
        return Verdict(FAILED, f"update {reached} was saved, but {again.output.splitlines()[:3]}")
    wrong = differences(place.whole(RUN.name), folder)
    if wrong and "alert: no snapshot" not in ended.output:
        return Verdict(FAILED, f"another end: {', '.join(wrong[:4])}")
    kind = "other opponents after an alert that a snapshot was not taken" if wrong else "the same end after resuming"
    return Verdict(verdict.result, f"{ended.last}; resumed after update {reached}", kind)


def _two_starts(place: Place, apart: float) -> Verdict:
    """Start the same run twice, `apart` seconds from each other."""
    folder = place.fresh()
    first = Running(RUN.command(folder), folder / "first")
    first.process.join(apart)
    second = Running(RUN.command(folder), folder / "second")
    done, refused = sorted((first.wait(), second.wait()), key=lambda one: str(one.code))
    if done.crashed or (done.code, refused.code) != (0, BAD_INPUT):
        return Verdict(FAILED, f"not one at work and one refused: {done}; {refused}")
    if (verdict := judged(refused, RUN.name)).result != REFUSED:
        return verdict
    if wrong := differences(place.whole(RUN.name), folder / RUN.name):
        return Verdict(FAILED, f"the one that went on ended otherwise: {', '.join(wrong[:4])}")
    return verdict
