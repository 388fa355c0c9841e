"""Script tags in the names on pages: whether one could run, by parsing the HTML, and by a browser where there is one.

A name that ran would set the title of its page to `ran`. A control page, which does run such a script, shows that this
would be seen. Without Chromium on the PATH only the HTML is read, and the page of results says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.torture.code_execution import saved_game
from benchmarks.torture.commands import run, text
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, SKIPPED, Place, Step, Verdict
from benchmarks.torture.runs import match

MARK = "document.title='ran'"
IMAGE = f'<img src=x onerror="{MARK}">'
NAMES = (
    *(f"</script><script>{MARK}</script><!--", f'">{IMAGE}', f"<svg onload={MARK}>"),
    *(f"'-({MARK})-'", f"{{{{data}}}}${{{MARK}}}"),
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVENTS = ("onerror", "onload", "onclick", "onmouseover", "onfocus")


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for the control, and for every page and name."""
    yield Step("a browser", "the control page", partial(_control, place))
    for kind in ("Diplomacy replay", "dogfight replay", "report of a run"):
        for number, name in enumerate(NAMES, 1):
            yield Step(kind, f"name {number}", partial(_try, place, kind, name), kind)


def _control(place: Place) -> Verdict:
    page = place.fresh() / "control.html"
    page.write_text(f"<title>quiet</title><p>{IMAGE}")
    if not _scripts(page):
        return Verdict(FAILED, "reading the HTML does not see the script of the control page")
    if CHROMIUM is None:
        return Verdict(SKIPPED, "no chromium on the PATH: pages are only parsed")
    if _title(page) != "ran":
        return Verdict(FAILED, "the browser does not run the script of the control page")
    return Verdict(HARMLESS, "the marker is seen")


def _try(place: Place, kind: str, name: str) -> Verdict:
    page = place.fresh() / "page.html"
    words = {"Diplomacy replay": _diplomacy, "dogfight replay": _dogfight}.get(kind, _report)(place, page, name)
    ended = run(words, page.with_name("log"))
    if refused := ended.refusal():
        return Verdict(REFUSED, refused)
    if not page.exists():
        return Verdict(FAILED, f"no page and no refusal: {ended}")
    if scripts := _scripts(page):
        return Verdict(FAILED, f"the name became code: {scripts[0][:200]}")
    if CHROMIUM is not None and _title(page) == "ran":
        return Verdict(FAILED, "the script ran, and set the title")
    shown = "shown as text" if MARK in text(page).replace("\\u0027", "'") else "not shown"
    return Verdict(HARMLESS, f"{shown}, parsed{' and opened in Chromium' if CHROMIUM else ' only'}", f"names {shown}")


def _diplomacy(place: Place, page: Path, name: str) -> list[str]:
    return ["eval/diplomacy_replay.py", "--game", str(saved_game(page.parent, name)), "--out", str(page)]


def _dogfight(place: Place, page: Path, name: str) -> list[str]:
    """A policy whose file has the name; names of files have no slash."""
    policy = page.with_name(f"{name.replace('/', chr(92))}.pt")
    shutil.copy(place.cut("self_play") / "final.pt", policy)
    return match(policy, page.parent, "--replay", str(page))


def _report(place: Place, page: Path, name: str) -> list[str]:
    """A run whose stored name, opponents and metrics are the name."""
    folder = place.copy(place.cut("self_play"))
    quoted = json.dumps(name)[1:-1]
    for file, word, other in (
        *(("config.yaml", "local", name), ("origin.json", "local", name)),
        *(("metrics.jsonl", "brawler", quoted), ("events.jsonl", "brawler", quoted)),
    ):
        (folder / file).write_text((folder / file).read_text().replace(word, other))
    with (folder / "events.jsonl").open("a") as events:
        events.write(json.dumps({"time": 0.0, "env_steps": 1, "kind": "alert", "text": name}) + "\n")
    return ["eval/runs.py", "analyze", str(folder), "--html", str(page)]


class _Reader(HTMLParser):
    """Collects what would run: scripts that hold the mark outside a string, and attributes of events that do."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.inside, self.code = False, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "script"
        self.code += [f"{tag} {key}={value}" for key, value in attrs if key in EVENTS and MARK in (value or "")]

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.code += [data] if self.inside and data.strip().startswith(MARK) else []


def _scripts(page: Path) -> list[str]:
    reader = _Reader()
    reader.feed(text(page))
    return reader.code


def _title(page: Path) -> str:
    """Return the title of a page once it has run in Chromium."""
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'browser'}"]
    words = [str(CHROMIUM), *quiet, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120.0, check=False)
    return done.stdout.partition("<title>")[2].partition("</title>")[0]
