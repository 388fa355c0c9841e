"""Single flipped bits and truncations of every file that a run leaves, as read by resuming, evaluation and analysis.

A damaged file must be refused in one line that names it, or be announced and not matter, or not matter at all: the
result is then the one of the undamaged file. What a later reader cannot see by itself, a digit in a log that nothing
has hashed, is counted apart.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.torture.commands import DAMAGED, Ended, run
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, Place, Step, Verdict
from benchmarks.torture.runs import RUNS, differences, newest_state

NAME = "self_play"
LOGS = ("metrics.jsonl", "events.jsonl")
RESUME = ("state/state.pt", "state/manifest.json", "final.pt", "manifest.json", "pool/index.json", "pool/snapshot.pt")
OTHERS = ("league.json", "config.yaml", "origin.json", *LOGS)
READERS = {
    "resume": (*RESUME, *OTHERS),
    "evaluation": ("final.pt", "manifest.json", "config.yaml", "pool/snapshot.pt"),
    "analysis": ("config.yaml", "origin.json", "league.json", "manifest.json", "state/manifest.json", *LOGS),
}


def steps(place: Place, flips: int) -> Iterator[Step]:
    """Yield a step for every reader, file and damage: three truncations, two flips at its ends, `flips` anywhere."""
    for reader, names in READERS.items():
        for name in names:
            rng = random.Random(f"files {place.seed} {reader} {name}")
            for what in (
                "cut to 0 bytes",
                "cut in half",
                "cut by 1 byte",
                "flip in the first byte",
                "flip in the last",
            ):
                yield Step(
                    f"{reader}: {name}", what, partial(_try, place, reader, name, what, 0.0, 0), f"{reader} {name}"
                )
            for number in range(max(0, flips - 2)):
                where, bit = rng.random(), rng.randrange(8)
                attempt = partial(_try, place, reader, name, "flip", where, bit)
                yield Step(
                    f"{reader}: {name}", f"flip {number + 1}, bit {bit} at {where:.4f}", attempt, f"{reader} {name}"
                )


def _try(place: Place, reader: str, name: str, what: str, where: float, bit: int) -> Verdict:
    """Damage one file in a copy of a run, and read it."""
    run_folder = place.copy(place.cut(NAME))
    file = _file(run_folder, name)
    data = file.read_bytes()
    if not data:
        return Verdict(HARMLESS, "an empty file")
    damaged = _damaged(data, what, where, bit)
    file.write_bytes(damaged)
    verdict = CALLS[reader](place, run_folder, file)
    if verdict.result != FAILED:
        place.done(run_folder.parent)
    return verdict


def _file(folder: Path, name: str) -> Path:
    """Return the path of a file; of the newest state, or of the newest snapshot."""
    if name.startswith("state/"):
        return newest_state(folder) / name.removeprefix("state/")
    return max((folder / "pool").glob("*.pt")) if name == "pool/snapshot.pt" else folder / name


def _damaged(data: bytes, what: str, where: float, bit: int) -> bytes:
    cuts = {"cut to 0 bytes": 0, "cut in half": len(data) // 2, "cut by 1 byte": len(data) - 1}
    if what in cuts:
        return data[: cuts[what]]
    places = {"flip in the first byte": 0, "flip in the last": len(data) - 1}
    at, changed = places.get(what, int(where * len(data))), bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


# ---- readers


def _resume(place: Place, folder: Path, file: Path) -> Verdict:
    """Resume to the end; the run must be the undisturbed one, or have said which file was damaged."""
    ended = run(RUNS[NAME].command(folder.parent, "max_updates=0"), folder.parent / "log")
    if verdict := _ended(ended, file):
        return verdict
    said = [line for line in ended.output.splitlines() if "alert: " in line and _named(file, line)]
    wrong = [text for text in differences(place.whole(NAME), folder) if ".damaged" not in text]
    if not wrong:
        return Verdict(
            HARMLESS, said[0] if said else "the same end", "announced, same end" if said else "same end, no word"
        )
    own = [text for text in wrong if not text.startswith(file.name)]
    if said and not own:
        return Verdict(HARMLESS, said[0], "announced, same end but for the damaged file")
    return Verdict(FAILED, f"another end{' after ' + said[0] if said else ', without a word'}: {', '.join(wrong[:4])}")


def _evaluation(place: Place, folder: Path, file: Path) -> Verdict:
    ended = _play(folder, file)
    if verdict := _ended(ended, file):
        return verdict
    return _same(_result(folder), _reference(place, "evaluation", file), ended, file)


def _play(folder: Path, file: Path) -> Ended:
    """Play two games, against the snapshot if it is the one that is damaged."""
    opponent = str(file) if file.parent.name == "pool" else "ace"
    few = ["--games", "2", "--out", str(folder.parent / "out"), "--threads", "1", "--device", "cpu"]
    words = ["eval/run.py", "--ckpt", str(folder / "final.pt"), "--opponents", opponent, *few]
    return run(words, folder.parent / "log")


def _result(folder: Path) -> str:
    text = (folder.parent / "out" / "eval.json").read_text()
    return text.replace(str(folder.parent), "")


def _analysis(place: Place, folder: Path, file: Path) -> Verdict:
    ended = _read(folder)
    if ended.code == DAMAGED and not ended.crashed and _named(file, ended.last):
        return Verdict(HARMLESS, ended.last, "announced, the rest read")
    if verdict := _ended(ended, file):
        return verdict
    reference = _reference(place, "analysis", file)
    if file.name in LOGS and _plain(ended, folder) != reference and not _named(file, ended.output):
        health = run(["eval/runs.py", "health", str(folder)], folder.parent / "health")
        said = next((line for line in health.output.splitlines() if _named(file, line)), "")
        if said and not health.crashed:
            return Verdict(HARMLESS, said, "told by `runs.py health`")
    return _same(_plain(ended, folder), reference, ended, file)


def _read(folder: Path) -> Ended:
    return run(["eval/runs.py", "get-metrics", str(folder), "--json"], folder.parent / "log")


def _plain(ended: Ended, folder: Path) -> str:
    return ended.output.replace(str(folder.parent), "")


CALLS: dict[str, Callable[[Place, Path, Path], Verdict]] = {
    "resume": _resume,
    "evaluation": _evaluation,
    "analysis": _analysis,
}
REFERENCES: dict[tuple[Path, str, bool], str] = {}


def _reference(place: Place, reader: str, file: Path) -> str:
    """Return what the undamaged run gives."""
    pool = file.parent.name == "pool"
    key = (place.folder, reader, pool)
    if key not in REFERENCES:
        folder = place.copy(place.cut(NAME))
        ended = (
            _play(folder, _file(folder, "pool/snapshot.pt") if pool else folder)
            if reader == "evaluation"
            else _read(folder)
        )
        if ended.code != 0:
            raise RuntimeError(f"without any damage, {ended}")
        REFERENCES[key] = _result(folder) if reader == "evaluation" else _plain(ended, folder)
        shutil.rmtree(folder.parent)
    return REFERENCES[key]


# ---- verdicts


def _ended(ended: Ended, file: Path) -> Verdict | None:
    """Return the verdict on a command that did not succeed."""
    if ended.crashed:
        return Verdict(FAILED, f"{ended.crashed}: {ended}")
    if ended.code == 0:
        return None
    line = ended.refusal()
    if line and _named(file, line):
        return Verdict(REFUSED, line)
    return Verdict(FAILED, f"not refused in one line that names {file.name}: {ended}")


def _same(now: str, before: str, ended: Ended, file: Path) -> Verdict:
    if now == before:
        return Verdict(HARMLESS, "the same result", "same result")
    if _named(file, ended.output):
        return Verdict(HARMLESS, ended.last, "announced, the rest read")
    return Verdict(FAILED, f"another result, without a word: {_first_difference(now, before)}")


def _named(file: Path, text: str) -> bool:
    """Return whether a line names the file, its state's folder, or the run's folder by its path."""
    state = file.parent.name if file.parent.name.startswith("update_") else file.name
    return bool(re.search(rf"{re.escape(file.name)}|{re.escape(file.stem)}|{re.escape(state)}", text))


def _first_difference(now: str, before: str) -> str:
    pairs: Sequence[tuple[str, str]] = list(zip(now.splitlines(), before.splitlines(), strict=False))
    one = next(((a, b) for a, b in pairs if a != b), (f"{len(now)} characters", f"{len(before)}"))
    at = next((i for i, (a, b) in enumerate(zip(*one, strict=False)) if a != b), 0)
    return f"{one[0][max(0, at - 60) : at + 60]!r} where it was {one[1][max(0, at - 60) : at + 60]!r}"
