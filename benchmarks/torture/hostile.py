"""Hostile inputs: run folders, policies, saved games, PGN and text endpoints of a stranger.

Each is read by the command that a user would read it with, within a limit of memory and time: refused in one line, or
harmless. Whatever is said must hold nothing that a terminal obeys.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.torture.code_execution import saved_game
from benchmarks.torture.commands import DAMAGED, SECONDS, Ended, Running, run, text
from benchmarks.torture.part import FAILED, HARMLESS, Place, Step, Verdict, judged
from benchmarks.torture.runs import diplomacy, match, newest_state, resume

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
    tables: tuple[tuple[str, Callable[[Place, Any], Verdict], dict[str, Any]], ...] = (
        ("policy", _policy, POLICIES),
        ("saved game of Diplomacy", _game, GAMES),
        ("PGN", partial(_play, env="chess", key="--opponent", name="game.pgn"), PGN),
        ("a file resumed in play.py", partial(_play, env="diplomacy", key="--opponents", name="game.json"), RESUMED),
        ("text endpoint", _endpoint, ANSWERS | STREAMS),
    )
    for group, attempt, table in tables:
        yield from (Step(group, what, partial(attempt, place, hostile)) for what, hostile in table.items())


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


# ---- games


def _every(kinds: tuple[type, ...], other: Any, value: Any) -> Any:
    """Return nested data with `other` in place of each value of these types."""
    if isinstance(value, dict):
        return {key: _every(kinds, other, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_every(kinds, other, item) for item in value]
    return other if type(value) in kinds else value


GAMES: dict[str, Callable[[dict[str, Any]], Any] | str] = {
    "NaN for every number": partial(_every, (int, float), float("nan")),
    "infinity for every number": partial(_every, (int, float), float("inf")),
    "negative numbers": partial(_every, (int, float), -1),
    "numbers of 400 digits": partial(_every, (int, float), int(DIGITS)),
    "script tags for every text": partial(_every, (str,), f"</script>{TAG}"),
    "escapes for every text": partial(_every, (str,), f"{ESCAPE}\n\x00"),
    "the first phase 20000 times": lambda game: game | {"phases": game["phases"][:1] * 20_000},
    "lists in lists": LISTS,
    "a list": "[]",
    "nothing": "",
    "bytes": "\x00" * 1000,
}
HEAD = '[White "You"]\n[Black "random"]\n[Result "*"]\n\n'
PGN = {
    "variations in variations": HEAD + "1. e4 " + "(1. d4 " * DEEP + ")" * DEEP + " *\n",
    "variations without end": HEAD + "1. e4 e5 " + "(" * DEEP,
    "script tags in names": HEAD.replace("random", TAG) + "1. e4 *\n",
    "escapes in names": HEAD.replace("random", f"{ESCAPE}x") + "1. e4 *\n",
    "zero bytes": HEAD + "1. e4\x00 e5\x00 *\n",
    "an illegal move": HEAD + "1. e4 e4 *\n",
    "a position that cannot be": '[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n' + HEAD + "1. e4 *\n",
    "a number of 400 digits": HEAD + f"{DIGITS}. e4 *\n",
    "a comment of 900 kB": HEAD + "1. e4 {" + "x" * 900_000 + "} *\n",
    "larger than is read": HEAD + "1. e4 {" + "x" * 5_000_000 + "} *\n",
    "nothing": "",
}
RESUMED = {
    "NaN": '{"version": NaN, "phases": [NaN]}',
    "400 digits": f'{{"version": {DIGITS}}}',
    "lists in lists": LISTS,
    "bytes": "\x00" * 100,
}


def _game(place: Place, hostile: Callable[[dict[str, Any]], Any] | str) -> Verdict:
    path = saved_game(place.fresh(), "random")
    path.write_text(hostile if isinstance(hostile, str) else json.dumps(hostile(json.loads(path.read_text()))))
    words = ["eval/diplomacy_replay.py", "--game", str(path), "--out", str(path.with_name("game.html"))]
    return judged(run(words, path.with_name("log")), path.name, harmless=READ)


def _play(place: Place, content: str, *, env: str, key: str, name: str) -> Verdict:
    """Go on with a game in the browser; a game that is taken serves its page, and is then stopped."""
    path = place.fresh() / name
    path.write_text(content)
    words = ["eval/play.py", "--env", env, key, "random", "--resume", str(path), "--no-browser", "--port", "0"]
    running, late = Running(words, path.with_name("log")), time.monotonic() + SECONDS
    while running.alive() and time.monotonic() < late:
        if "http://127.0.0.1" in text(running.log):
            running.kill()
            return judged(Ended(running.words, 0, text(running.log)), harmless="taken, and the page is served")
        time.sleep(0.05)
    return judged(running.wait(1.0), path.name)


# ---- text endpoints

ANSWERS = {
    "garbage": b"\xff\xfe\x00{]",
    "no text at all": b"",
    "an error of HTML": b"<html><script>alert(1)</script>\x1b[2J",
    "JSON of lists": LISTS.encode(),
    "another kind of JSON": b'{"data": [{"id": 3}], "choices": {"text": null}, "tokens": "x"}',
    "NaN for numbers": b'{"data": [{"id": "m"}], "tokens": [NaN, 1e999], "choices": [{"logprobs": NaN}]}',
}
STREAMS = {"an endless stream": (1 << 20, 0.01), "a huge answer": (1 << 20, 0.0), "a slow answer": (1, 1.0)}
"""Bytes sent at once and the pause after them, in seconds."""


class _Server(BaseHTTPRequestHandler):
    """Answers every request with `answer`; streams end after a minute, in which a client must have given up."""

    answer: bytes | tuple[int, float] = b""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(500 if self.answer == ANSWERS["an error of HTML"] else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        ends = time.monotonic() + 60.0
        try:
            if isinstance(self.answer, bytes):
                self.wfile.write(self.answer)
                return
            size, pause = self.answer
            self.wfile.write(b'{"data": [{"id": "')
            while time.monotonic() < ends:
                self.wfile.write(b"x" * size)
                time.sleep(pause)
        except OSError:
            return  # the client has given up

    do_POST = do_GET  # noqa: N815 - the name that the base class calls

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _endpoint(place: Place, answer: bytes | tuple[int, float]) -> Verdict:
    folder = place.fresh()
    options = ("--set", "model.name=tiny", "endpoint.timeout_seconds=5", "endpoint.total_seconds=10")
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Way", (_Server,), {"answer": answer})) as server:
        server.block_on_close = False  # a stream that nobody reads may still be open
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"127.0.0.1:{server.server_address[1]}"
        ended = run(diplomacy(f"http://{url}/v1", folder / "out", *options, "endpoint.retries=1"), folder / "log")
        server.shutdown()
    return judged(ended, url, "endpoint.structured")
