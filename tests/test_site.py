"""The documentation site: it builds without warnings, its links lead somewhere, and it asks the network for nothing."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Links(HTMLParser):
    """Links, anchors and embedded resources of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.resources = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        elif tag == "link" and "stylesheet" in found.get("rel", ""):
            self.resources.add(found["href"])
        elif tag in ("script", "img", "iframe", "source", "video") and found.get("src"):
            self.resources.add(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
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


def test_every_page_of_docs_is_in_the_navigation(site):
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


def test_nothing_is_fetched_from_the_network(site, pages):
    for path, page in pages.items():
        assert [each for each in page.resources if re.match(r"(\w+:)?//", each)] == [], path
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']+", sheet.read_text("utf-8")) == [], sheet


def test_the_search_works_where_a_page_is_opened_as_a_file(site):
    """The index is a script that the page can load, and what starts a worker there is the site's own."""
    text = (site / "search" / "search_index.js").read_text("utf-8")
    assert text.startswith("var __index = {")
    assert json.loads(text.removeprefix("var __index = "))["docs"]
    worker = (site / "assets" / "iframe-worker.js").resolve()
    for page in (site / "index.html", site / "envs" / "dogfight.html"):
        resources = Links(page.read_text("utf-8")).resources
        assert worker in {(page.parent / each).resolve() for each in resources}, page


def test_diagrams_are_pictures_of_the_site(site):
    """The theme loads Mermaid from a server where a page has a fence of it."""
    text = (site / "architecture.html").read_text("utf-8")
    drawn = [each for each in Links(text).resources if each.startswith("images/diagrams/")]
    assert len(drawn) == 2
    assert all((site / each).read_text("utf-8").startswith("<svg") for each in drawn)
    assert not [path for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text("utf-8")]


def test_notebooks_are_pages_with_their_outputs(site):
    text = (site / "notebooks" / "reading_a_run.ipynb.html").read_text("utf-8")
    page = Links(text)
    assert {"reading_a_run.ipynb", "../tutorials/tables.html"} <= page.links
    assert "reading_a_run_1.png" in page.resources
    assert (site / "notebooks" / "reading_a_run_1.png").read_bytes().startswith(b"\x89PNG")
    assert "response against" in re.sub(r"<[^>]+>", "", text)
    assert "notebooks/first_agent.ipynb.html" in Links((site / "index.html").read_text("utf-8")).links


def test_links_to_code_show_the_code(site):
    assert "repository/agents/run/fit.py.html" in Links((site / "architecture.html").read_text("utf-8")).links
    code = re.sub(r"<[^>]+>", "", (site / "repository/agents/run/fit.py.html").read_text("utf-8"))
    assert "def fit(trainer: Trainer, session: RunSession)" in code
