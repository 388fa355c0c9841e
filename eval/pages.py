"""Pages for the browser: a template whose marks are replaced by a title, data, styles and scripts."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import printable


def fill_page(template: Path, *, title: str, data: Any, **parts: str) -> str:
    """Return the text of `template` with every {{name}} replaced, in one pass.

    Names are `title` and `data` (JSON), both escaped, and those of `parts`, which are taken as they are.
    """
    plain = json.dumps(data, separators=(",", ":"))
    # In a script element only "<" needs escaping; & and > are escaped as well, to be safe.
    inert = plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    known = {"title": html.escape(printable(title)), "data": inert} | parts
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: known[mark[1]], template.read_text(encoding="utf-8"))


def join_files(folder: Path, *names: str) -> str:
    """Return the texts of files of `folder`, such as the scripts of a page, one after another."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
