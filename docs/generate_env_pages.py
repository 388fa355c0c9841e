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

from gymnasium.envs.registration import load_env_creator, parse_env_id, registry  # noqa: E402

from sparring import envs  # noqa: E402 - importing it registers the games


def pages() -> dict[Path, str]:
    """Every game's page: where it belongs, and what it must say."""
    games = {env_id: spec.entry_point for env_id, spec in registry.items() if spec.namespace == "sparring"}
    found = {}
    for env_id, entry_point in sorted({**envs.PARALLEL, **envs.AEC, **games}.items()):
        assert isinstance(entry_point, str)
        text = inspect.getdoc(load_env_creator(entry_point)) or ""
        notice = "<!-- Written by docs/generate_env_pages.py from the class docstring: edit that. -->"
        _, name, _ = parse_env_id(env_id)
        found[ROOT / "docs" / "envs" / f"{name.lower()}.md"] = f"{notice}\n\n# {env_id}\n\n{text}\n"
    return found


if __name__ == "__main__":
    for path, page in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
        print(path.relative_to(ROOT))
