"""Single flipped bits and truncations of every file that a run leaves, as read by resuming, evaluation and analysis.

A damaged file must be refused in one line that names it, or the result must equal the undamaged file's, with or without
an announcement. Damage that a later reader cannot detect, such as a digit in an unhashed log, is counted separately.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.torture.commands import DAMAGED, Ended, kept, run
from benchmarks.torture.part import FAILED, HARMLESS, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, differences, match, newest_state

NAME = "self_play"
LOGS = ("metrics.jsonl", "events.jsonl")
RESUME = ("state/state.pt", "state/manifest.json", "final.pt", "manifest.json", "pool/index.json", "pool/snapshot.pt")
OTHERS = ("league.json", "config.yaml", "origin.json", *LOGS)
READERS = {
    "resume": (*RESUME, *OTHERS),
    "evaluation": ("final.pt", "manifest.json", "config.yaml", "pool/snapshot.pt"),
    "analysis": ("config.yaml", "origin.json", "league.json", "manifest.json", "state/manifest.json", *LOGS),
}
FLIPS = 4
"""Flips of each file at random, beside those at its ends."""
ENDS = {"flip in the first byte": 0.0, "flip in the last": 1.0}


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every reader, file and damage: three truncations, two flips at its ends, `FLIPS` anywhere."""
    for reader, names in READERS.items():
        for name in names:
            rng = random.Random(f"files {place.seed} {reader} {name}")
            damages = [(what, 0.0, 0) for what in ("cut to 0 bytes", "cut in half", "cut by 1 byte")]
            damages += [(what, where, 0) for what, where in ENDS.items()]
            damages += [("flip", rng.random(), rng.randrange(8)) for _ in range(FLIPS)]
            for what, where, bit in damages:
                words = f"flip of bit {bit} at {where:.4f}" if what == "flip" else what
                attempt = partial(_try, place, reader, name, what, where, bit)
                yield Step(f"{reader}: {name}", words, attempt, f"{reader} {name}")


def _try(place: Place, reader: str, name: str, what: str, where: float, bit: int) -> Verdict:
    """Damage one file in a copy of a run, and read it."""
    folder = place.copy(place.cut(NAME))
    file = _file(folder, name)
    data = file.read_bytes()
    if not data:
        return Verdict(HARMLESS, "an empty file")
    file.write_bytes(_damaged(data, what, where, bit))
    if reader == "resume":
        return _resume(place, folder, file)
    words = _words(folder, file, reader)
    ended = run(words, folder.parent / "log")
    if reader == "analysis" and ended.code == DAMAGED and not ended.crashed and _named(file, ended.last):
        return Verdict(HARMLESS, ended.last, "announced, the rest read")
    if (verdict := judged(ended, *_names(file), harmless="the same result")).result != HARMLESS:
        return verdict
    now, before = _result(folder, ended, reader), _reference(place, name, reader)
    if now == before:
        return Verdict(HARMLESS, verdict.words, "same result")
    if _named(file, ended.output):
        return Verdict(HARMLESS, ended.last, "announced, the rest read")
    if reader == "analysis" and name in LOGS:
        health = run(["eval/runs.py", "health", str(folder)], folder.parent / "health")
        said = next((line for line in health.output.splitlines() if _named(file, line)), "")
        if said and not health.crashed:
            return Verdict(HARMLESS, said, "told by `runs.py health`")
    return Verdict(FAILED, f"another result, without a word: {_first_difference(now, before)}")


def _file(folder: Path, name: str) -> Path:
    """Return the path of a file; of the newest state, or of the newest snapshot."""
    if name.startswith("state/"):
        return newest_state(folder) / name.removeprefix("state/")
    return max((folder / "pool").glob("*.pt")) if name == "pool/snapshot.pt" else folder / name


def _damaged(data: bytes, what: str, where: float, bit: int) -> bytes:
    cuts = {"cut to 0 bytes": 0, "cut in half": len(data) // 2, "cut by 1 byte": len(data) - 1}
    if what in cuts:
        return data[: cuts[what]]
    changed = bytearray(data)
    changed[min(int(where * len(data)), len(data) - 1)] ^= 1 << bit
    return bytes(changed)


def _resume(place: Place, folder: Path, file: Path) -> Verdict:
    """Resume to the end; the run must be the undisturbed one, or have said which file was damaged."""
    ended = run(RUNS[NAME].command(folder.parent, "max_updates=0"), folder.parent / "log")
    if (verdict := judged(ended, *_names(file), harmless="the same result")).result != HARMLESS:
        return verdict
    said = next((line for line in ended.output.splitlines() if "alert: " in line and _named(file, line)), "")
    wrong = [text for text in differences(place.whole(NAME), folder) if ".damaged" not in text]
    if not wrong:
        return Verdict(HARMLESS, said or "the same end", "announced, same end" if said else "same end, no word")
    if said and all(text.startswith(file.name) for text in wrong):
        return Verdict(HARMLESS, said, "announced, same end but for the damaged file")
    return Verdict(FAILED, f"another end{' after ' + said if said else ', without a word'}: {', '.join(wrong[:4])}")


def _words(folder: Path, file: Path, reader: str) -> list[str]:
    """Return the command that reads a run; the match is against the snapshot if it is the one that is damaged."""
    if reader == "analysis":
        return ["eval/runs.py", "get-metrics", str(folder), "--json"]
    opponent = str(file) if file.parent.name == "pool" else "ace"
    return match(folder / "final.pt", folder.parent / "out", opponent=opponent)


def _result(folder: Path, ended: Ended, reader: str) -> str:
    text = (folder.parent / "out" / "eval.json").read_text() if reader == "evaluation" else ended.output
    return text.replace(str(folder.parent), "")


def _reference(place: Place, name: str, reader: str) -> str:
    """Return what the undamaged run gives."""
    known = place.folder / f"{reader}{' of the pool' if name.startswith('pool') else ''}.reference"
    if not known.exists():
        folder = place.copy(place.cut(NAME))
        ended = kept(_words(folder, _file(folder, name), reader), folder.parent / "log")
        known.write_text(_result(folder, ended, reader))
    return known.read_text()


def _names(file: Path) -> tuple[str, ...]:
    """Return what a line may name: the file, or its state's folder."""
    return (file.stem, file.parent.name) if file.parent.name.startswith("update_") else (file.stem,)


def _named(file: Path, text: str) -> bool:
    return any(name in text for name in _names(file))


def _first_difference(now: str, before: str) -> str:
    equal = next((i for i, (a, b) in enumerate(zip(now, before, strict=False)) if a != b), 0)
    at = max(0, equal - 60)
    return f"{now[at : at + 120]!r} where it was {before[at : at + 120]!r}"
