"""What all parts share: a step and its verdict, and the place where runs are made once and damaged in copies."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.torture.commands import Ended, kept
from benchmarks.torture.runs import RUNS

REFUSED, HARMLESS, FAILED, SKIPPED = "refused", "harmless", "FAILED", "not tried"


@dataclass(frozen=True)
class Verdict:
    """How a step ended: one of the four words above, why, and a word under which such steps are counted."""

    result: str
    words: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Step:
    """One thing to try: the group it is counted in, what it is, the call that tries it, and its kind.

    Of the steps of one kind a slice has one; a step without a kind is in each slice.
    """

    group: str
    what: str
    attempt: Callable[[], Verdict]
    kind: str = ""


def sliced(steps: Iterable[Step]) -> list[Step]:
    """Return one step of each kind, of the n-th kind the n-th, and all without a kind, in their order."""
    steps, kinds = list(steps), dict[str, list[Step]]()
    for step in steps:
        kinds.setdefault(step.kind, []).append(step)
    chosen = [same[number % len(same)] for number, (kind, same) in enumerate(kinds.items()) if kind]
    return [step for step in steps if not step.kind or any(step is one for one in chosen)]


@dataclass
class Place:
    """Folder of everything that is made, seed, and number of kills; runs are made when first needed."""

    folder: Path
    seed: int = 0
    kills: int = len(RUNS)
    count: int = 0

    def whole(self, name: str) -> Path:
        """Return the folder of an undisturbed run of this trainer."""
        return self._made(name, "whole")

    def cut(self, name: str) -> Path:
        """Return the folder of a run that stopped three updates before its end."""
        return self._made(name, "cut", f"max_updates={RUNS[name].updates - 3}")

    def _made(self, name: str, kind: str, *more: str) -> Path:
        root = self.folder / kind
        root.mkdir(parents=True, exist_ok=True)
        if not (root / f"{name}.made").exists():
            kept(RUNS[name].command(root, *more), root / f"{name}.log")
            (root / f"{name}.made").touch()
        return root / name

    def copy(self, run: Path) -> Path:
        """Return a copy of a run folder under the same name, in a new folder."""
        return Path(shutil.copytree(run, self.fresh() / run.name))

    def fresh(self) -> Path:
        """Return a new, empty folder, which lasts until the end of the step."""
        self.count += 1
        target = self.folder / "tried" / f"{self.count:05d}"
        target.mkdir(parents=True)
        return target

    def clear(self) -> None:
        """Remove all folders of `fresh` and `copy`."""
        shutil.rmtree(self.folder / "tried", ignore_errors=True)


def judged(ended: Ended, *names: str, harmless: str = "") -> Verdict:
    """Return the verdict on a command given bad input: refused in one line that names one of `names`, or harmless.

    `harmless` is why its success does not matter; empty if it would.
    """
    if ended.crashed:
        return Verdict(FAILED, f"{ended.crashed}: {ended}")
    if line := ended.refusal(*names):
        return Verdict(REFUSED, line)
    if ended.code == 0 and harmless:
        return Verdict(HARMLESS, harmless)
    return Verdict(FAILED, f"neither refused in one line that names {' or '.join(names)} nor harmless: {ended}")
