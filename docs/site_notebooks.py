"""Notebooks of the documentation: run and stored by `python docs/site_notebooks.py`, shown in the site by this hook.

Their outputs are text and pictures of matplotlib. A few lines of Python run the code cells, in order, in one namespace,
without Jupyter and its thirty packages. The files are notebooks of format 4.5, which Jupyter opens.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "notebooks"
MADE = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w+")
PICTURE_INCHES = (6.0, 2.8)
Cell = dict[str, Any]


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its code cells; an exception in a cell is raised."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"cell {number}", "exec")
            cell = {**cell, "outputs": _outputs(code, names), "execution_count": None}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(code: Any, names: dict[str, Any]) -> list[Cell]:
    """Run the code of a cell and return its text and pictures."""
    import matplotlib.pyplot as plt

    plt.rcParams |= {"figure.figsize": PICTURE_INCHES, "figure.dpi": 80}
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    outputs: list[Cell] = []
    if text := MADE.sub("/tmp/runs", printed.getvalue()):
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    for figure in map(plt.figure, plt.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight", metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["a figure"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return outputs


def page_of(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return the page that shows a notebook as Markdown, and its pictures by file name."""
    note = f'<p><a href="{name}.ipynb" download>Download this notebook</a>. A test runs it.</p>\n'
    title, *rest = notebook["cells"]
    parts, pictures = ["".join(title["source"]), note], dict[str, bytes]()
    for cell in rest:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            else:
                file = f"{name}_{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(output["data"]["image/png"])
                parts.append(f'<img src="{file}" alt="Output of the cell above">')
    return "\n\n".join(parts) + "\n", pictures


def notebooks() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every notebook with its path."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        yield path, json.loads(path.read_text(encoding="utf-8"))


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the notebooks, with their pictures, to the site."""
    from mkdocs.structure.files import File

    for path, notebook in notebooks():
        content, pictures = page_of(notebook, path.stem)
        files.append(File.generated(config, f"{FOLDER.name}/{path.name}.md", content=content))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"{FOLDER.name}/{name}", content=picture))
    return files


def main() -> None:
    """Run the notebooks named on the command line, or all, and store their outputs in them."""
    for path, notebook in notebooks():
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            done = run(notebook)
            path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(os.path.relpath(path))


if __name__ == "__main__":
    main()
