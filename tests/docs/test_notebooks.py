"""The documentation notebooks are valid Jupyter files; tests/test_wheel.py runs them from the wheel."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.stem: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("site_notebooks", ROOT / "docs" / "site_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_failing_cell_is_reported(hook):
    cells = [{"cell_type": "code", "source": ["1 / 0"]}]
    with pytest.raises(ZeroDivisionError):
        hook.run({"cells": cells})


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_notebook_has_jupyter_format(name):
    """The requirements of format 4.5; files stay small, and reveal nothing of the machine."""
    notebook = NOTEBOOKS[name]
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", name) for name in names)
    for cell in notebook["cells"]:
        extra = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | extra
    text = json.dumps(notebook)
    assert len(text) < 100_000
    assert str(Path.home()) not in text


def test_notebook_page_has_cells_and_outputs(hook):
    output = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
    picture = {"output_type": "display_data", "data": {"image/png": "aGk="}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["a = 1\n", "print(a)"], "outputs": [output, picture]},
    ]
    page, pictures = hook.page_of({"cells": cells}, "one")
    assert page.startswith('# Title\n\n<p><a href="one.ipynb" download>')
    assert '```python\na = 1\nprint(a)\n```\n\n```text\n1\n```\n\n<img src="one_1.png"' in page
    assert pictures == {"one_1.png": b"hi"}
