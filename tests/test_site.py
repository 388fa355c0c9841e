"""The documentation site builds without warnings, has valid links, and loads nothing from the network."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.eval.browser.browser import browser, needs_chromium

ROOT = Path(__file__).resolve().parents[1]


UNREAD = re.compile(r"(<(script|style)\b[^>]*>).*?</\2>|<!--.*?-->", re.DOTALL)
TAG = re.compile(r"""<([a-z]\w*)\s((?:"[^"]*"|'[^']*'|[^>"'])*)>""")
ATTRIBUTE = re.compile(r"""(?<![\w-])(id|name|href|src|rel)=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")


class Links:
    """Links, anchors and embedded resources of a page, parsed faster than by `html.parser`."""

    def __init__(self, text):
        self.links, self.anchors, self.resources = set(), set(), set()
        for tag, attributes in TAG.findall(UNREAD.sub(r"\1", text)):
            found = {key: unescape("".join(value)) for key, *value in ATTRIBUTE.findall(attributes)}
            self.anchors |= {found[key] for key in ("id", "name") if key in found}
            if tag == "a" and found.get("href"):
                self.links.add(found["href"])
            elif tag == "link" and "stylesheet" in found.get("rel", ""):
                self.resources.add(found["href"])
            elif tag in ("script", "img", "iframe", "source", "video") and found.get("src"):
                self.resources.add(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_docs_page_is_in_navigation(site):
    home = Links((site / "index.html").read_text(encoding="utf-8"))
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README.html", "index.html")
        assert name in home.links or name == "index.html", name


def test_links_lead_to_pages_and_headings(pages):
    found = cache(lambda folder, name: ((folder / name).resolve(), (folder / name).is_file()))
    for path, page in pages.items():
        for link in page.links:
            name, _, anchor = unquote(link).partition("#")
            if re.match(r"\w+:", link):
                continue
            target, exists = found(path.parent, name) if name else (path, True)
            assert exists, (path, link)
            assert not anchor or target not in pages or anchor in pages[target].anchors, (path, link)


def test_nothing_is_fetched_from_network(site, pages):
    for path, page in pages.items():
        assert [each for each in page.resources if re.match(r"(\w+:)?//", each)] == [], path
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']+", sheet.read_text("utf-8")) == [], sheet


def test_search_works_from_local_file(site):
    """The index is a script the page can load, and the worker shim is the site's own."""
    text = (site / "search" / "search_index.js").read_text("utf-8")
    assert text.startswith("var __index = {")
    assert json.loads(text.removeprefix("var __index = "))["docs"]
    worker = (site / "assets" / "iframe-worker.js").resolve()
    for page in (site / "index.html", site / "envs" / "dogfight.html"):
        resources = Links(page.read_text("utf-8")).resources
        assert worker in {(page.parent / each).resolve() for each in resources}, page


def test_diagrams_are_pictures_of_site(site):
    """The theme would load Mermaid from a server for a fenced diagram."""
    text = (site / "architecture.html").read_text("utf-8")
    drawn = [each for each in Links(text).resources if each.startswith("images/diagrams/")]
    assert len(drawn) == 2
    assert all((site / each).read_text("utf-8").startswith("<svg") for each in drawn)
    assert not [path for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text("utf-8")]


def test_notebooks_are_pages_with_outputs(site):
    text = (site / "notebooks" / "reading_a_run.ipynb.html").read_text("utf-8")
    page = Links(text)
    assert {"reading_a_run.ipynb", "../tutorials/tables.html"} <= page.links
    assert "reading_a_run_1.png" in page.resources
    assert (site / "notebooks" / "reading_a_run_1.png").read_bytes().startswith(b"\x89PNG")
    assert "response against" in re.sub(r"<[^>]+>", "", text)
    assert "notebooks/first_agent.ipynb.html" in Links((site / "index.html").read_text("utf-8")).links


def test_links_to_code_show_code(site):
    assert "repository/agents/run/fit.py.html" in Links((site / "architecture.html").read_text("utf-8")).links
    code = re.sub(r"<[^>]+>", "", (site / "repository/agents/run/fit.py.html").read_text("utf-8"))
    assert "def fit(trainer: Trainer, session: RunSession)" in code


# ---- the pages in a browser, from the disk

SHOWN = ("index.html", "fly.html", "diplomacy.html", "air_fights.html", "league.html", "envs/dogfight.html")
"""Pages that every run of the tests opens: those that do something, and one of each kind of the others."""
LOCAL = ("file:", "data:", "blob:", "about:")
MACHINES = '"source": "rendering", "level": "warning"'
"""Of entries of the console about drawing without a graphics card."""
WIDTH = 400
CONTROLS = {
    *("button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton"),
    *("switch", "tab", "menuitem", "treeitem", "Canvas", "application"),
}
"""Roles that a screen reader names, where they can have the focus."""


def faults(tab, address):
    """Return a page's faults on a phone: errors, external requests, excess width, unnamed controls."""
    tab.console.clear()
    tab.requests.clear()
    tab.open(address, width=WIDTH, height=800, mobile=True)
    tab.value("new Promise((done) => setTimeout(done, 100))")
    wide = tab.value("document.documentElement.scrollWidth")
    return [
        *(one for one in tab.console if MACHINES not in one),
        *(f"asks for {one[:200]}" for one in tab.requests if not one.startswith(LOCAL)),
        *([f"is {wide} pixels wide"] if wide > WIDTH else []),
        *nameless(tab),
    ]


def nameless(tab):
    for node in tab.call("Accessibility.getFullAXTree")["nodes"]:
        focusable = any(each["name"] == "focusable" and each["value"]["value"] for each in node.get("properties", ()))
        if node["ignored"] or node["role"]["value"] not in CONTROLS or not focusable:
            continue
        if not node.get("name", {}).get("value", "").strip():
            about = tab.call("DOM.describeNode", backendNodeId=node["backendDOMNodeId"])["node"]
            yield f"a {node['role']['value']} has no name: {about['nodeName']} {about.get('attributes')}"


def wrong_pages(site, names, folder):
    """Return the faults of the pages, by name."""
    with browser(folder) as tab:
        tab.call("Network.enable")
        tab.call("Accessibility.enable")
        return {name: wrong for name in names if (wrong := faults(tab, (site / name).as_uri()))}


@needs_chromium
def test_pages_work_offline_on_phone_and_with_screen_reader(site, tmp_path):
    assert wrong_pages(site, SHOWN, tmp_path) == {}


@needs_chromium
@pytest.mark.slow
def test_every_page_works_offline_on_phone_and_with_screen_reader(site, pages, tmp_path):
    names = [path.relative_to(site).as_posix() for path in pages]
    assert len(names) > 150
    assert wrong_pages(site, sorted(set(names) - {*SHOWN}), tmp_path) == {}


@needs_chromium
def test_checker_finds_page_faults(tmp_path):
    content = (
        "<!doctype html><meta name=viewport content='width=device-width'><img src='https://elsewhere.invalid/a.png'>"
        "<button></button><input><a href='#'></a><canvas tabindex=0></canvas><button aria-label=Fire></button>"
        "<div style='width:500px'>wide</div><script>missing()</script>"
    )
    (tmp_path / "bad.html").write_text(content)
    (wrong,) = wrong_pages(tmp_path, ["bad.html"], tmp_path / "profile").values()
    assert "missing is not defined" in " ".join(wrong)
    assert "asks for https://elsewhere.invalid/a.png" in wrong
    assert "is 500 pixels wide" in wrong or "is 508 pixels wide" in wrong
    assert sorted(one.split()[1] for one in wrong if one.startswith("a ")) == ["Canvas", "button", "link", "textbox"]
