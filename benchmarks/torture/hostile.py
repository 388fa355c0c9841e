"""Hostile inputs: run folders and policies of a stranger.

Each is read by the command that a user would use, within a limit of memory and time, and must be refused in one line or
be harmless. The output must not contain terminal escapes. `tests/fuzz` covers games, pages and answers.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.torture.commands import DAMAGED, run
from benchmarks.torture.part import FAILED, HARMLESS, Place, Step, Verdict, judged
from benchmarks.torture.runs import match, newest_state, resume

HUGE, BOMB, DEEP = 8 << 30, 4 << 30, 100_000
"""Bytes of a sparse file, and of a zip's member when inflated, both more than a command may take; lists in lists."""
LISTS, DIGITS, TAG, ESCAPE = "[" * DEEP + "]" * DEEP, "9" * 400, "<script>alert(1)</script>", "\x1b[2J"
LAUGHS = "seed: [" + "&a0 [ha], " + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)) + "]\n"
NAMES = {"a newline": "a\nb", "an escape of the terminal": f"a{ESCAPE}b", "a script tag": TAG.replace("/", "\\")}
READ = "read, without harm"


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every hostile input and reader."""
    for what, change in _folders().items():
        for reader in ("resume", "evaluation", "analysis"):
            yield Step(f"run folder, {reader}", what, partial(_folder, place, change, reader), what)
    for what, name in NAMES.items():
        for command in ("list", "get-run"):
            yield Step("name of a run", f"{what}, runs.py {command}", partial(_name, place, name, command), what)
    for what, hostile in POLICIES.items():
        yield Step("policy", what, partial(_policy, place, hostile))


# ---- run folders

Change = Callable[[Path, Path], None]
"""A change of a run folder; the second path is one outside it."""


def _folders() -> dict[str, Change]:
    log = json.dumps({"time": 1.0, "env_steps": 1, "kind": "alert", "text": f"{ESCAPE}<script>"})
    changes: dict[str, Change] = {
        "the training states a link out": partial(_link, "state"),
        "the pool a link out": partial(_link, "pool"),
    }
    for name in ("config.yaml", "metrics.jsonl", "final.pt", "league.json"):
        changes[f"{name} a link out"] = partial(_link, name)
        changes[f"{name} a FIFO"] = partial(_fifo, name)
        changes[f"{name} of {HUGE >> 30} GiB"] = partial(_huge, name)
    for name in ("manifest.json", "league.json", "pool/index.json", "origin.json"):
        changes[f"{name} of {DEEP} lists"] = partial(_text, name, LISTS)
        changes[f"{name} of NaN"] = partial(_text, name, f"[NaN, 1e999, {DIGITS}]")
    texts = {
        "the state's manifest of lists": ("manifest.json of the newest state", "[" * DEEP),
        "config.yaml of lists": ("config.yaml", f"phases: {LISTS}"),
        "config.yaml that expands": ("config.yaml", LAUGHS),
        "metrics.jsonl of one line of 200 MB": ("metrics.jsonl", '{"a": "' + "x" * 200_000_000 + '"}'),
        "metrics.jsonl of lists": ("metrics.jsonl", f"{LISTS}\n" * 3),
        "events.jsonl of escapes": ("events.jsonl", f"{log}\n"),
    }
    for what, (name, content) in texts.items():
        changes[what] = partial(_text, name, content)
    return changes


def _link(name: str, folder: Path, outside: Path) -> None:
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)


def _fifo(name: str, folder: Path, outside: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def _huge(name: str, folder: Path, outside: Path) -> None:
    (folder / name).write_bytes(b"")
    os.truncate(folder / name, HUGE)


def _text(name: str, content: str, folder: Path, outside: Path) -> None:
    path = newest_state(folder) / "manifest.json" if name.endswith("newest state") else folder / name
    path.write_text(content)


def _folder(place: Place, change: Change, reader: str) -> Verdict:
    folder = place.copy(place.cut("self_play"))
    outside = folder.parent / "outside"
    change(folder, outside)
    commands = {"resume": resume(folder, "max_updates=0"), "analysis": ["eval/runs.py", "analyze", str(folder)]}
    before = _state_of(outside)
    ended = run(commands.get(reader, match(folder / "final.pt", folder.parent / "out")), folder.parent / "log")
    if _state_of(outside) != before:
        return Verdict(FAILED, f"a file outside the run's folder was changed: {ended}")
    if reader == "analysis" and ended.code == DAMAGED and not ended.crashed:
        return Verdict(HARMLESS, "reported in the table of what is wrong", "reported by `runs.py analyze`")
    return judged(ended, harmless=READ)


def _state_of(path: Path) -> list[tuple[str, int, int]]:
    """Return what would show a change: names, sizes and times of everything there."""
    paths = [path, *sorted(path.rglob("*"))] if path.exists() else []
    return [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in paths]


def _name(place: Place, name: str, command: str) -> Verdict:
    folder = place.copy(place.cut("self_play"))
    named = folder.rename(folder.with_name(name))
    words = ["list", "--dir", str(named.parent)] if command == "list" else [command, str(named)]
    return judged(run(["eval/runs.py", *words], named.parent / "log"), harmless=READ)


# ---- policies


def _bomb(member: str, policy: Path) -> bytes:
    """The archive of a policy, with a member of zeros, deflated, that is much larger than the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(policy) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        bomb = next(name for name in old.namelist() if name.endswith(member))
        for name in old.namelist():
            if name != bomb:
                new.writestr(name, old.read(name))
        with new.open(bomb, "w", force_zip64=True) as file:
            for _ in range(BOMB >> 24):
                file.write(bytes(1 << 24))
    return buffer.getvalue()


POLICIES: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    f"a member that inflates to {BOMB >> 30} GiB": ("", partial(_bomb, "data/0")),
    "a pickle that inflates": ("", partial(_bomb, "data.pkl")),
    "the archive twice": ("one of them is played", lambda policy: policy.read_bytes() * 2),
    "no zip": ("", lambda policy: b"\x80\x02" + b"(" * DEEP + b"."),
    "nothing": ("", lambda policy: b""),
}
"""Why a success is harmless, empty where it would not be; and the file."""


def _policy(place: Place, hostile: tuple[str, Callable[[Path], bytes]]) -> Verdict:
    harmless, make = hostile
    path = place.fresh() / "final.pt"
    path.write_bytes(make(place.cut("self_play") / "final.pt"))
    ended = run(match(path, path.parent / "out", "--env", "dogfight"), path.parent / "log")
    return judged(ended, path.name, harmless=harmless)
