"""Write docs/envs/NAME.md from the docstring of every registered game: `python docs/generate_env_pages.py`.

The docstring is the one place where a game is described; a test compares it with the code, and the pages with it.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[0] = str(ROOT)

from gymnasium.envs.registration import load_env_creator, registry  # noqa: E402

import envs  # noqa: E402, F401 - importing it registers the games


def pages() -> dict[Path, str]:
    """Every game's page: where it belongs, and what it must say."""
    found = {}
    for env_id, spec in sorted(registry.items()):
        if spec.namespace == "sparring":
            assert isinstance(spec.entry_point, str)
            text = inspect.getdoc(load_env_creator(spec.entry_point)) or ""
            notice = "<!-- Written by docs/generate_env_pages.py from the class docstring: edit that. -->"
            found[ROOT / "docs" / "envs" / f"{spec.name.lower()}.md"] = f"{notice}\n\n# {env_id}\n\n{text}\n"
    return found


if __name__ == "__main__":
    for path, page in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
        print(path.relative_to(ROOT))
