"""Hooks of the documentation site (mkdocs.yml): navigation, links to the repository, sources of the API reference.

The pages can also be read in the repository. Two things differ in the site. The navigation is read from the tables of
docs/README.md. Links that leave docs/ lead to pages made from the files they name, so the site does not need a server
for source code. The reference is read by mkdocstrings from the folder `sparring`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS, REPOSITORY = "docs", "repository"
"""Folder of the pages; folder in the site of the pages made from other files."""
INDEX = "README.md"
FOLDERS = {"results/README.md": "Results", "lab_notes.md": ""}
"""Indexes whose pages stand below them in the navigation, with the name of that section, if it is one of its own."""
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml", ".cff": "yaml"}
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TABLE = re.compile(r"^\| (?P<title>[\w ]+?) \|.*\n\| ---.*\n(?P<rows>(?:\|.*\n?)+)", re.MULTILINE)


@event_priority(100)  # before mkdocstrings reads its search path
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation and the search path of the API reference."""
    config.nav = navigation()
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [str(ROOT)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside docs/ that a page links to, directly or through such a page."""
    pending = [(f"{DOCS}/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    added: set[str] = set()
    while pending:
        home, text = pending.pop()
        for path in sorted({path for path, _ in linked(text, home)} - added):
            if page_of(path).startswith(f"{REPOSITORY}/"):
                added.add(path)
                content = source_page(path)
                files.append(File.generated(config, page_of(path), content=content))
                if path.endswith(".md"):
                    pending.append((path, content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its relative links changed to those of the site."""
    return rewrite(markdown, page.file.src_uri)


def navigation() -> list[Any]:
    """Return mkdocs' `nav`: a section for each table of docs/README.md, an entry for each page in its first column.

    An index, such as results/README.md or lab_notes.md, is followed by the pages that its own tables list.
    """
    listed = {INDEX}
    sections: list[Any] = [{"Sparring": INDEX}]
    for title, paths in tables(f"{DOCS}/{INDEX}"):
        entries: list[Any] = []
        for path in paths:
            inner = [each for _, found in tables(f"{DOCS}/{path}") for each in found] if path in FOLDERS else []
            new = [each for each in dict.fromkeys([path, *inner]) if each not in listed]
            listed.update(new)
            entries += [{FOLDERS[path]: new}] if FOLDERS.get(path) else new
        sections.append({title: entries})
    return sections


def tables(home: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the title of each table of a page (its first heading) and the pages linked in its first column."""
    for table in TABLE.finditer((ROOT / home).read_text(encoding="utf-8")):
        cells = [row.split("|")[1] for row in table["rows"].splitlines()]
        yield table["title"].capitalize(), [page_of(path) for cell in cells for path, _ in linked(cell, home)]


def linked(text: str, home: str) -> list[tuple[str, str]]:
    """Return path and anchor of every relative link of a page; paths are those in the repository, `home` the page's."""
    found = []
    for part in FENCE.split(text)[::2]:
        found += [where for target in LINK.findall(part) if (where := resolve(target, home))]
    return found


def resolve(target: str, home: str) -> tuple[str, str] | None:
    """Return path in the repository and anchor of a link, None if it leads elsewhere or within its own page."""
    name, _, anchor = target.partition("#")
    if not name or "://" in target or target.startswith("mailto:"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(home), name))
    if (ROOT / path / INDEX).is_file():
        path = posixpath.join(path, INDEX)
    return path, anchor


def page_of(path: str) -> str:
    """Return where the site shows a file or folder of the repository, relative to docs/."""
    if path.startswith(f"{DOCS}/") and not path.endswith(".py"):
        return path.removeprefix(f"{DOCS}/") + ".md" * path.endswith(".ipynb")  # its page: docs/site_notebooks.py
    if (ROOT / path).is_dir():
        return f"{REPOSITORY}/{path}/folder.md"
    return f"{REPOSITORY}/{path}" if path.endswith(".md") else f"{REPOSITORY}/{path}.md"


def source_page(path: str) -> str:
    """Return the page for a file or folder outside docs/: a page as it stands, code as one block, or a list of files.

    A path that does not exist raises `FileNotFoundError`.
    """
    file = ROOT / path
    if path.endswith(".md"):
        return file.read_text(encoding="utf-8")
    title = f"# {path}\n\n"
    if file.is_dir():
        names = sorted(each.name + "/" * each.is_dir() for each in file.iterdir() if each.name[0] not in "._")
        return title + "".join(f"- `{name}`\n" for name in names)
    return f"{title}```{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text(encoding='utf-8')}\n```\n"


def rewrite(markdown: str, src_uri: str) -> str:
    """Return the page at `src_uri` of the site with relative links to files replaced by links to pages of the site."""
    made = src_uri.startswith(f"{REPOSITORY}/")
    home = src_uri.removeprefix(f"{REPOSITORY}/") if made else f"{DOCS}/{src_uri}"

    def replace(match: re.Match[str]) -> str:
        where = resolve(match[1], home)
        if where is None:
            return match[0]
        target = posixpath.relpath(page_of(where[0]), posixpath.dirname(src_uri) or ".")
        return f"]({target}{'#' + where[1] if where[1] else ''})"

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)
