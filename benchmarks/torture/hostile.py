"""Hostile inputs: run folders, policies, saved games, PGN and text endpoints of a stranger.

Each is read by the command that a user would read it with, within a limit of memory and time: refused in one line, or
harmless. Whatever is said must hold nothing that a terminal obeys.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.torture.code_execution import saved_game
from benchmarks.torture.commands import DAMAGED, SECONDS, Ended, Running, run
from benchmarks.torture.part import FAILED, HARMLESS, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, newest_state

RUN = RUNS["self_play"]
HUGE, BOMB = 8 << 30, 4 << 30
"""Bytes of a sparse file, and of a zip's member when inflated; both are more than a command may take."""
DEEP = 100_000
LAUGHS = "seed: [" + "&a0 [ha], " + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)) + "]\n"
NAMES = {"a newline": "a\nb", "an escape of the terminal": "a\x1b[2Jb", "a script tag": "<script>alert(1)<\\script>"}
REFUSED_OR_READ = "read, without harm"
TWICE = "the archive twice"
Change = Callable[[Path, Path], None]
"""A change of a run folder; the second path is a file outside it."""


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every hostile input and reader."""
    for what, change in _folders().items():
        for reader in ("resume", "evaluation", "analysis"):
            yield Step(f"run folder, {reader}", what, partial(_folder, place, change, reader), what)
    for what, name in NAMES.items():
        for command in ("list", "get-run"):
            yield Step("name of a run", f"{what}, runs.py {command}", partial(_name, place, name, command), what)
    for what, data in _policies().items():
        yield Step("policy", what, partial(_policy, place, data, "one of them is played" if what == TWICE else ""))
    for what, edit in _games().items():
        yield Step("saved game of Diplomacy", what, partial(_game, place, edit))
    for what, text in _pgn().items():
        yield Step("PGN", what, partial(_play, place, "chess", text))
    for what, text in _json().items():
        yield Step("a file resumed in play.py", what, partial(_play, place, "diplomacy", text))
    for what in ENDPOINTS:
        yield Step("text endpoint", what, partial(_endpoint, place, what))


# ---- run folders


def _folders() -> dict[str, Change]:
    changes: dict[str, Change] = {}
    for name in ("config.yaml", "metrics.jsonl", "final.pt", "league.json"):
        changes[f"{name} a link out"] = partial(_link, name)
        changes[f"{name} a FIFO"] = partial(_fifo, name)
        changes[f"{name} of {HUGE >> 30} GiB"] = partial(_huge, name)
    changes["the training states a link out"] = partial(_link_folder, "state")
    changes["the pool a link out"] = partial(_link_folder, "pool")
    for name in ("manifest.json", "league.json", "pool/index.json", "origin.json"):
        changes[f"{name} of {DEEP} lists"] = partial(_text, name, "[" * DEEP + "]" * DEEP)
        changes[f"{name} of NaN"] = partial(_text, name, "[NaN, 1e999, " + "9" * 400 + "]")
    changes["the state's manifest of lists"] = lambda folder, _: _text(
        str((newest_state(folder) / "manifest.json").relative_to(folder)), "[" * DEEP, folder, _
    )
    changes["config.yaml of lists"] = partial(_text, "config.yaml", "phases: " + "[" * DEEP + "]" * DEEP)
    changes["config.yaml that expands"] = partial(_text, "config.yaml", LAUGHS)
    changes["metrics.jsonl of one line of 200 MB"] = partial(
        _text, "metrics.jsonl", '{"a": "' + "x" * 200_000_000 + '"}'
    )
    changes["metrics.jsonl of lists"] = partial(_text, "metrics.jsonl", ("[" * DEEP + "]" * DEEP + "\n") * 3)
    changes["events.jsonl of escapes"] = partial(
        _text,
        "events.jsonl",
        json.dumps({"time": 1.0, "env_steps": 1, "kind": "alert", "text": "\x1b[2J<script>"}) + "\n",
    )
    return changes


def _link(name: str, folder: Path, outside: Path) -> None:
    shutil.copy(folder / name, outside)
    (folder / name).unlink()
    (folder / name).symlink_to(outside)


def _link_folder(name: str, folder: Path, outside: Path) -> None:
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)


def _fifo(name: str, folder: Path, outside: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def _huge(name: str, folder: Path, outside: Path) -> None:
    with (folder / name).open("wb") as file:
        file.truncate(HUGE)


def _text(name: str, text: str, folder: Path, outside: Path) -> None:
    (folder / name).write_text(text)


def _folder(place: Place, change: Change, reader: str) -> Verdict:
    folder = place.copy(place.cut(RUN.name))
    outside = folder.parent / "outside"
    change(folder, outside)
    before = _digest(outside)
    ended = run(_reading(folder, reader), folder.parent / "log")
    if _digest(outside) != before:
        return Verdict(FAILED, f"a file outside the run's folder was changed: {ended}")
    verdict = judged(ended, harmless=REFUSED_OR_READ)
    if reader == "analysis" and ended.code == DAMAGED and not ended.crashed:
        verdict = Verdict(HARMLESS, "reported in the table of what is wrong", "reported by `runs.py analyze`")
    return _kept(place, folder.parent, verdict, ended)


def _reading(folder: Path, reader: str) -> list[str]:
    """Return the command that resumes a run, plays its policy or reports on it."""
    if reader == "resume":
        return ["train.py", f"resume={folder.name}", f"checkpoint_dir={folder.parent}", "max_updates=0"]
    if reader == "analysis":
        return ["eval/runs.py", "analyze", str(folder)]
    few = ["--opponents", "ace", "--games", "2", "--threads", "1", "--device", "cpu"]
    return ["eval/run.py", "--ckpt", str(folder / "final.pt"), *few, "--out", str(folder.parent / "out")]


def _digest(path: Path) -> list[tuple[str, int, int]]:
    """Return what would show a change: names, sizes and times of everything there."""
    paths = [path, *sorted(path.rglob("*"))] if path.exists() else []
    return [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in paths]


def _kept(place: Place, folder: Path, verdict: Verdict, ended: Ended) -> Verdict:
    """Check the output as well, and remove the folder of what held."""
    raw = [char for char in ended.output if not char.isprintable() and char not in "\n\r\t"]
    if raw and verdict.result != FAILED:
        verdict = Verdict(FAILED, f"the output holds {raw[0]!r}, which a terminal may obey: {ended}")
    if verdict.result != FAILED:
        place.done(folder)
    return verdict


def _name(place: Place, name: str, command: str) -> Verdict:
    folder = place.copy(place.cut(RUN.name))
    named = folder.with_name(name)
    folder.rename(named)
    words = ["list", "--dir", str(named.parent)] if command == "list" else [command, str(named)]
    ended = run(["eval/runs.py", *words], named.parent / "log")
    return _kept(place, named.parent, judged(ended, harmless=REFUSED_OR_READ), ended)


# ---- policies


def _policies() -> dict[str, Callable[[Path], bytes]]:
    return {
        f"a member that inflates to {BOMB >> 30} GiB": partial(_zip, member="archive/data/0", size=BOMB),
        "a pickle that inflates": partial(_zip, member="archive/data.pkl", size=BOMB),
        TWICE: lambda policy: policy.read_bytes() + policy.read_bytes(),
        "no zip": lambda policy: b"\x80\x02" + b"(" * DEEP + b".",
        "nothing": lambda policy: b"",
    }


def _zip(policy: Path, *, member: str, size: int) -> bytes:
    """The archive of a policy, with a member of zeros, deflated, that is much larger than the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(policy) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        ours = next((name for name in old.namelist() if name.endswith(member.partition("/")[2])), member)
        for name in old.namelist():
            if name != ours:
                new.writestr(name, old.read(name))
        with new.open(ours, "w", force_zip64=True) as file:
            for _ in range(size >> 24):
                file.write(bytes(1 << 24))
    return buffer.getvalue()


def _policy(place: Place, make: Callable[[Path], bytes], harmless: str) -> Verdict:
    folder = place.fresh()
    path = folder / "final.pt"
    path.write_bytes(make(place.cut(RUN.name) / "final.pt"))
    few = ["--opponents", "ace", "--games", "2", "--threads", "1", "--device", "cpu", "--out", str(folder / "out")]
    ended = run(["eval/run.py", "--env", "dogfight", "--ckpt", str(path), *few], folder / "log")
    return _kept(place, folder, judged(ended, path.name, harmless=harmless), ended)


# ---- games

Edit = Callable[[dict[str, Any]], Any]


def _games() -> dict[str, Edit | str]:
    number = "9" * 400
    return {
        "NaN for every number": lambda game: _every(game, (int, float), float("nan")),
        "infinity for every number": lambda game: _every(game, (int, float), float("inf")),
        "negative numbers": lambda game: _every(game, (int, float), -1),
        "numbers of 400 digits": lambda game: _every(game, (int, float), int(number)),
        "script tags for every text": lambda game: _every(game, (str,), "</script><script>alert(1)</script>"),
        "escapes for every text": lambda game: _every(game, (str,), "\x1b[2J\n\x00"),
        "the first phase 20000 times": lambda game: {key: _many(value) for key, value in game.items()},
        "lists in lists": "[" * DEEP + "]" * DEEP,
        "a list": "[]",
        "nothing": "",
        "bytes": "\x00" * 1000,
    }


def _every(value: Any, kinds: tuple[type, ...], other: Any) -> Any:
    """Return nested data with `other` in place of each value of these types."""
    if isinstance(value, dict):
        return {key: _every(item, kinds, other) for key, item in value.items()}
    if isinstance(value, list):
        return [_every(item, kinds, other) for item in value]
    return other if type(value) in kinds else value


def _many(value: Any) -> Any:
    return value[:1] * 20_000 if isinstance(value, list) and value and isinstance(value[0], dict) else value


def _game(place: Place, edit: Edit | str) -> Verdict:
    folder = place.fresh()
    path = saved_game(folder, "random")
    path.write_text(edit if isinstance(edit, str) else json.dumps(edit(json.loads(path.read_text()))))
    ended = run(["eval/diplomacy_replay.py", "--game", str(path), "--out", str(folder / "game.html")], folder / "log")
    return _kept(place, folder, judged(ended, path.name, harmless=REFUSED_OR_READ), ended)


def _pgn() -> dict[str, str]:
    head = '[White "You"]\n[Black "random"]\n[Result "*"]\n\n'
    return {
        "variations in variations": head + "1. e4 " + "(1. d4 " * DEEP + ")" * DEEP + " *\n",
        "variations without end": head + "1. e4 e5 " + "(" * DEEP,
        "script tags in names": head.replace("random", "<script>alert(1)</script>") + "1. e4 *\n",
        "escapes in names": head.replace("random", "\x1b[2Jx") + "1. e4 *\n",
        "zero bytes": head + "1. e4\x00 e5\x00 *\n",
        "an illegal move": head + "1. e4 e4 *\n",
        "a position that cannot be": '[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n' + head + "1. e4 *\n",
        "a number of 400 digits": head + f"{'9' * 400}. e4 *\n",
        "a comment of 900 kB": head + "1. e4 {" + "x" * 900_000 + "} *\n",
        "larger than is read": head + "1. e4 {" + "x" * 5_000_000 + "} *\n",
        "nothing": "",
    }


def _json() -> dict[str, str]:
    return {
        "NaN": '{"version": NaN, "phases": [NaN]}',
        "400 digits": '{"version": ' + "9" * 400 + "}",
        "lists in lists": "[" * DEEP + "]" * DEEP,
        "bytes": "\x00" * 100,
    }


def _play(place: Place, env: str, text: str) -> Verdict:
    """Go on with a game in the browser; a game that is taken serves its page, and is then stopped."""
    folder = place.fresh()
    path = folder / ("game.pgn" if env == "chess" else "game.json")
    path.write_text(text)
    opponent = ["--opponent", "random"] if env == "chess" else ["--opponents", "random"]
    words = ["eval/play.py", "--env", env, *opponent, "--resume", str(path), "--no-browser", "--port", "0"]
    running = Running(words, folder / "log")
    late = time.monotonic() + SECONDS
    while (
        running.alive()
        and "http://127.0.0.1" not in running.log.read_text(errors="replace")
        and time.monotonic() < late
    ):
        time.sleep(0.05)
    if running.alive() and time.monotonic() < late:
        running.kill()
        ended = Ended(running.words, 0, running.log.read_text(errors="replace"))
    else:
        ended = running.wait(1.0)
    return _kept(place, folder, judged(ended, path.name, harmless="taken, and the page is served"), ended)


# ---- text endpoints

ENDPOINTS = (
    *("garbage", "no text at all", "an error of HTML", "JSON of lists", "another kind of JSON", "an endless stream"),
    *("a huge answer", "a slow answer", "NaN for numbers"),
)


class _Server(BaseHTTPRequestHandler):
    """Answers every request in the way of its class."""

    way = ""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer()

    def _answer(self) -> None:
        self.send_response(500 if self.way == "an error of HTML" else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            for part in _answers(self.way):
                self.wfile.write(part)
        except OSError:
            return  # the client has given up

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _answers(way: str) -> Iterator[bytes]:
    """Yield the parts of an answer; endless ones end after a minute, in which a client must have given up."""
    plain = {
        "garbage": b"\xff\xfe\x00{]",
        "no text at all": b"",
        "an error of HTML": b"<html><script>alert(1)</script>\x1b[2J",
        "JSON of lists": b"[" * DEEP + b"]" * DEEP,
        "another kind of JSON": b'{"data": [{"id": 3}], "choices": {"text": null}, "tokens": "x"}',
        "NaN for numbers": b'{"data": [{"id": "m"}], "tokens": [NaN, 1e999], "choices": [{"logprobs": NaN}]}',
    }
    if way in plain:
        yield plain[way]
        return
    ends = time.monotonic() + 60.0
    yield b'{"data": [{"id": "'
    while time.monotonic() < ends:
        if way == "a slow answer":
            time.sleep(1.0)
        yield b"x" if way == "a slow answer" else b"x" * (1 << 20)
        if way == "an endless stream":
            time.sleep(0.01)


@contextmanager
def _serving(way: str) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Way", (_Server,), {"way": way}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _endpoint(place: Place, way: str) -> Verdict:
    folder = place.fresh()
    with _serving(way) as port:
        words: Sequence[str] = [
            *("eval/run.py", "--env", "diplomacy", "--ckpt", f"http://127.0.0.1:{port}/v1", "--opponents", "random"),
            *("--set", "model.name=tiny", "endpoint.timeout_seconds=5", "endpoint.total_seconds=10"),
            "endpoint.retries=1",
            *("--games", "7", "--last-year", "1901", "--out", str(folder / "out")),
        ]
        ended = run(words, folder / "log")
    return _kept(place, folder, judged(ended, f"127.0.0.1:{port}", "endpoint.structured"), ended)
