"""SIGKILL at random moments of five trainers' runs; resumed each time, they must end as undisturbed runs, bit for bit.

A process lasts a drawn number of saves, then a drawn time, or until a save's temporary file is seen. The next one
resumes. A run that ends before its kills are used up is compared and started again. The files show when a kill came. A
temporary file means during a save; without a new training state and output of the run, it was during start-up.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.torture.commands import SECONDS, Running, text
from benchmarks.torture.part import FAILED, HARMLESS, Place, Step, Verdict
from benchmarks.torture.runs import RUNS, TinyRun, differences, updates_done

LONGEST_LIFE, EARLY = 3, 0.1
"""Saves after which a life ends at the latest; share of lives that end in the start-up, wherever that is."""
FROM_THE_START = "from the beginning"
"""What a resumed run says if it does not have a state yet."""


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every kill, in equal shares over the trainers, and one for the end of each trainer's run."""
    for number, name in enumerate(RUNS):
        victim = Victim(RUNS[name], place, random.Random(f"kills {place.seed} {name}"))
        share = range(number, place.kills, len(RUNS))
        yield from (Step(name, f"kill {kill + 1} of {place.kills}", victim.life, kind=name) for kill in share)
        if share:
            yield Step(name, "the end, compared bit for bit", victim.end)


class Victim:
    """One trainer's run, killed again and again in folders of its own."""

    def __init__(self, run: TinyRun, place: Place, rng: random.Random) -> None:
        self.run, self.place, self.rng = run, place, rng
        self.round, self.interval = 0, 0.5
        self.fell: Counter[str] = Counter()
        self.early = 0  # lives of this round killed before their first state, after which a run starts again

    @property
    def root(self) -> Path:
        return self.place.folder / f"kills-{self.run.name}-{self.round}"

    @property
    def folder(self) -> Path:
        return self.root / self.run.name

    def life(self) -> Verdict:
        """Run until the drawn moment and kill; a run that ends before is compared and started again."""
        while True:
            self.root.mkdir(exist_ok=True)
            before = updates_done(self.folder)
            running = Running(self.run.command(self.root), self.root / "log")
            self._until_the_moment(running, before)
            if running.kill():
                where, after = self._where(running, before), updates_done(self.folder)
                self.fell[where] += 1
                self.early += self.folder.exists() and after < 0
                return Verdict(HARMLESS, f"killed {where} after update {after}", where)
            if wrong := self._wrong(running):
                return Verdict(FAILED, wrong)

    def end(self) -> Verdict:
        """Let the run end, and compare it."""
        running = Running(self.run.command(self.root), self.root / "log")
        running.wait(10 * SECONDS)
        if wrong := self._wrong(running):
            return Verdict(FAILED, wrong)
        fell = ", ".join(f"{count} {where}" for where, count in sorted(self.fell.items()))
        runs = f"{self.round} whole {'run' if self.round == 1 else 'runs'}"
        return Verdict(HARMLESS, f"{runs} equal to the undisturbed one; kills: {fell}")

    def _wrong(self, running: Running) -> str:
        """Return what is wrong with a run that ended by itself; remove it if nothing is."""
        ended, folder = running.wait(), self.folder
        if ended.code != 0:
            return str(ended)
        events = text(folder / "events.jsonl")
        wrong = [word for word in ("damaged", "inexact resume", '"alert"') if word in events]
        wrong += [FROM_THE_START] if events.count(FROM_THE_START) > self.early else []
        wrong += differences(self.place.whole(self.run.name), folder)
        if wrong:
            return f"{folder}: {', '.join(wrong[:5])}"
        shutil.rmtree(self.root)
        self.round, self.early = self.round + 1, 0
        return ""

    def _until_the_moment(self, running: Running, before: int) -> None:
        if self.rng.random() < EARLY:
            time.sleep(self.rng.uniform(0.0, 2.0))
            return
        lasts, aim, part = self.rng.randint(0, LONGEST_LIFE), self.rng.random(), self.rng.random()
        start = time.perf_counter()
        if not _wait(running, lambda: updates_done(self.folder) >= max(before, 0) + lasts):
            return
        if lasts:
            self.interval = min((time.perf_counter() - start) / lasts, 5.0)
        if aim < 0.5:
            time.sleep(part * self.interval)
        elif _wait(running, self._saves):
            time.sleep(part * 0.004)

    def _saves(self) -> bool:
        return any(any(self.folder.glob(pattern)) for pattern in (".*.tmp", "state/.*.tmp", "pool/.*.tmp"))

    def _where(self, running: Running, before: int) -> str:
        if any(self.folder.rglob(".*.tmp")):
            return "in a save"
        began = "update" in text(running.log) or updates_done(self.folder) > before
        return "in training" if began else "in the start-up"


def _wait(running: Running, happened: Callable[[], bool]) -> bool:
    """Wait until something happened; False if the command ended or `SECONDS` passed before."""
    late = time.perf_counter() + SECONDS
    while not happened():
        if not running.alive() or time.perf_counter() > late:
            return False
        time.sleep(0.002)
    return True
