"""Script tags in the names on pages: whether one could run, by parsing the HTML, and by a browser where there is one.

A name that ran would set the title of its page to `ran`. A control page, which does run such a script, shows that this
would be seen. Without Chromium on the PATH only the HTML is read, and the page of results says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.torture.code_execution import saved_game
from benchmarks.torture.commands import run
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, SKIPPED, Place, Step, Verdict

MARK = "document.title='ran'"
NAMES = (
    f"</script><script>{MARK}</script><!--",
    f'"><img src=x onerror="{MARK}">',
    f"<svg onload={MARK}>",
    f"'-({MARK})-'",
    f"{{{{data}}}}${{{MARK}}}",
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVENTS = ("onerror", "onload", "onclick", "onmouseover", "onfocus")


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for the control, and for every page and name."""
    yield Step("a browser", "the control page", partial(_control, place))
    makers: dict[str, Callable[[Place, str], tuple[Path, str]]] = {
        "Diplomacy replay": _diplomacy,
        "dogfight replay": _dogfight,
        "report of a run": _report,
    }
    for kind, make in makers.items():
        for number, name in enumerate(NAMES, 1):
            yield Step(kind, f"name {number}", partial(_try, place, make, name), kind)


def _control(place: Place) -> Verdict:
    folder = place.fresh()
    (folder / "control.html").write_text(f"<title>quiet</title><p>{NAMES[1].removeprefix(chr(34) + '>')}</p>")
    if not _scripts(folder / "control.html"):
        return Verdict(FAILED, "reading the HTML does not see the script of the control page")
    if CHROMIUM is None:
        return Verdict(SKIPPED, "no chromium on the PATH: pages are only parsed")
    if _title(folder / "control.html") != "ran":
        return Verdict(FAILED, "the browser does not run the script of the control page")
    return Verdict(HARMLESS, "the marker is seen")


def _try(place: Place, make: Callable[[Place, str], tuple[Path, str]], name: str) -> Verdict:
    page, refused = make(place, name)
    if refused:
        return Verdict(REFUSED, refused)
    if not page.exists():
        return Verdict(FAILED, f"no page {page.name} and no refusal: {_log(page)}")
    if scripts := _scripts(page):
        return Verdict(FAILED, f"the name became code: {scripts[0][:200]}")
    if CHROMIUM is not None and (title := _title(page)) == "ran":
        return Verdict(FAILED, f"the script ran: title {title!r}")
    shown = "shown as text" if MARK in page.read_text(errors="replace").replace("\\u0027", "'") else "not shown"
    return Verdict(HARMLESS, f"{shown}, parsed{' and opened in Chromium' if CHROMIUM else ' only'}", f"names {shown}")


def _log(page: Path) -> str:
    return " ".join(file.read_text(errors="replace")[-200:] for file in page.parent.glob("*.log"))


# ---- pages


def _diplomacy(place: Place, name: str) -> tuple[Path, str]:
    folder = place.fresh()
    game = saved_game(folder, name)
    page = folder / "game.html"
    ended = run(["eval/diplomacy_replay.py", "--game", str(game), "--out", str(page)], folder / "page.log")
    return page, ended.refusal()


def _dogfight(place: Place, name: str) -> tuple[Path, str]:
    """A policy whose file has the name; names of files have no slash."""
    folder = place.fresh()
    policy = folder / f"{name.replace('/', chr(92))}.pt"
    shutil.copy(place.cut("self_play") / "final.pt", policy)
    few = ["--opponents", "ace", "--games", "2", "--out", str(folder), "--threads", "1", "--device", "cpu"]
    page = folder / "match.html"
    ended = run(["eval/run.py", "--ckpt", str(policy), *few, "--replay", str(page)], folder / "page.log")
    return page, ended.refusal()


def _report(place: Place, name: str) -> tuple[Path, str]:
    """A run whose stored name, opponents and metrics are the name."""
    folder = place.copy(place.cut("self_play"))
    for file in ("config.yaml", "origin.json", "metrics.jsonl", "events.jsonl"):
        text = (folder / file).read_text()
        quoted = json.dumps(name)[1:-1]
        (folder / file).write_text(
            text.replace("brawler", quoted) if file.endswith("jsonl") else text.replace("local", name)
        )
    with (folder / "events.jsonl").open("a") as events:
        events.write(json.dumps({"time": 0.0, "env_steps": 1, "kind": "alert", "text": name}) + "\n")
    page = folder.parent / "report.html"
    ended = run(["eval/runs.py", "analyze", str(folder), "--html", str(page)], folder.parent / "page.log")
    return page, ended.refusal()


# ---- reading pages


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
        if self.inside and data.strip().startswith(MARK):
            self.code.append(data)


def _scripts(page: Path) -> list[str]:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8", errors="replace"))
    return reader.code


def _title(page: Path) -> str:
    """Return the title of a page once it has run in Chromium."""
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'browser'}"]
    words = [str(CHROMIUM), *quiet, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120.0, check=False)
    _, _, rest = done.stdout.partition("<title>")
    return rest.partition("</title>")[0]
