"""Local cache of answers from the W&B cloud: one JSON file per answer, with the time it was fetched.

An answer about a run that has ended is kept until the run changes; others count for `FRESH` seconds. With `offline` any
answer counts, however old. The figures say how many answers came from the cache and how old the oldest of them is.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import read_regular_text
from sparring.eval.experiments.record import RunNetworkError

FRESH = 60.0
"""Seconds."""


class CloudCache:
    """Answers in `folder`, by default that of the user's caches."""

    def __init__(self, folder: Path | None = None, *, offline: bool = False) -> None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = folder or home / "sparring" / "wandb"
        self.offline = offline
        self.hits, self.misses, self.oldest = 0, 0, 0.0

    def get(self, key: str, fetch: Callable[[], Any], *, version: str = "") -> Any:
        """Return the cached answer for `key`, else that of `fetch`, which is stored.

        With a `version`, such as the time of a run's last sign of life, an answer of the same version does not age.
        Raises `RunNetworkError` if `offline` and there is no answer.
        """
        path = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        found = _read(path, key)
        if found and (self.offline or _counts(found, version)):
            self.hits += 1
            self.oldest = max(self.oldest, time.time() - found["fetched"])
            return found["answer"]
        if self.offline:
            raise RunNetworkError(f"--offline: the cache has no answer for {key}; ask once without --offline")
        answer = fetch()
        self.misses += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = {"key": key, "fetched": time.time(), "version": version, "answer": answer}
        write_atomically(path, json.dumps(entry))
        return answer

    def figures(self) -> dict[str, Any]:
        """Return hits, misses and the age of the oldest answer used, in seconds."""
        return {"hits": self.hits, "misses": self.misses, "oldest_seconds": round(self.oldest, 1)}


def _counts(found: dict[str, Any], version: str) -> bool:
    if version:
        return found.get("version") == version
    return 0 <= time.time() - found["fetched"] < FRESH


def _read(path: Path, key: str) -> dict[str, Any] | None:
    """Return an entry; a missing, damaged or foreign one is None, and is fetched again."""
    try:
        found = json.loads(read_regular_text(path))
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and found.get("key") == key and "answer" in found
    return found if whole and isinstance(found.get("fetched"), float) else None
