"""Diagrams of the documentation: pictures in the site, drawn beforehand by `python docs/site_diagrams.py`.

A page has its diagram as a fence of Mermaid, which GitHub and editors draw themselves. The site's theme would load
Mermaid from a server at view time. Instead, every fence is drawn once, as an SVG file in docs/images/diagrams/ named by
the SHA-256 of the fence. This hook of mkdocs.yml shows that file; a fence without one fails the build.

Drawing needs npm, which gets Mermaid's package, and chromium; building the site needs neither.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDER = "images/diagrams"
FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MERMAID = "mermaid@11.17.2"
OPTIONS = {
    "startOnLoad": False,
    "securityLevel": "strict",
    "theme": "neutral",
    "fontFamily": "sans-serif",
    "htmlLabels": False,  # text of HTML is not shown in a picture
    "deterministicIds": True,
}
PAGE = """<!doctype html><meta charset="utf-8"><script src="mermaid.min.js"></script><body><script>
const encode = text => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
(async () => {
  mermaid.initialize(OPTIONS);
  const drawn = {};
  for (const [name, source] of Object.entries(SOURCES)) drawn[name] = (await mermaid.render(`d${name}`, source)).svg;
  document.body.textContent = `drawn:${encode(JSON.stringify(drawn))}:`;
})();
</script>"""
CHROMIUM = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page with its diagrams as pictures; each leads to its file, where it can be enlarged."""
    root = "../" * page.file.src_uri.count("/")

    def picture(fence: re.Match[str]) -> str:
        path = f"{FOLDER}/{name_of(fence[1])}.svg"
        if not (DOCS / path).is_file():
            raise FileNotFoundError(f"{page.file.src_uri}: a diagram is not drawn; run `python docs/site_diagrams.py`")
        headings = HEADING.findall(markdown[: fence.start()])
        return f"[![Diagram: {headings[-1] if headings else page.file.name}]({root}{path})]({root}{path})"

    return FENCE.sub(picture, markdown)


def name_of(source: str) -> str:
    """Return the name of the picture of a diagram, without its suffix."""
    return sha256(source.encode()).hexdigest()[:16]


def sources() -> dict[str, str]:
    """Return the diagrams of all pages by name."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
    return {name_of(source): source for text in texts for source in FENCE.findall(text)}


def draw(diagrams: dict[str, str]) -> dict[str, str]:
    """Return the diagrams as SVG by name."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=place, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(place).glob("*.tgz"))) as package:
            script = package.extractfile("package/dist/mermaid.min.js")
            assert script is not None
            Path(place, "mermaid.min.js").write_bytes(script.read())
        page = PAGE.replace("OPTIONS", json.dumps(OPTIONS)).replace("SOURCES", json.dumps(diagrams))
        Path(place, "page.html").write_text(page, encoding="utf-8")
        profile, budget = f"--user-data-dir={place}/profile", "--virtual-time-budget=60000"
        command = [chromium, *CHROMIUM, profile, budget, f"file://{place}/page.html"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"drawn:(.*):", done.stdout) or sys.exit(f"Mermaid drew nothing:\n{done.stdout[-2000:]}")
    drawn: dict[str, str] = json.loads(base64.b64decode(found[1]))
    return drawn


def main() -> None:
    """Draw all diagrams into docs/images/diagrams/, and remove those that no page has."""
    folder = DOCS / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, svg in draw(sources()).items():
        opaque = svg.replace('style="max-width', 'style="background-color: white; max-width', 1)  # for dark pages
        (folder / f"{name}.svg").write_text(f"{opaque}\n", encoding="utf-8")
        print((folder / f"{name}.svg").relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
