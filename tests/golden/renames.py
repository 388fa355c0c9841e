"""Declared changes of config keys: `renames.json`, the only differences that a comparison overlooks.

`config` has new keys by old ones, dotted as on the command line, null for a key that is gone; a section's key stands
for all inside it. `added` lists keys that did not exist before, `dropped` those that runs of some kinds no longer have.
Everything else about a config has to stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden.leaves import Leaves

FILE = Path(__file__).with_name("renames.json")
CONFIG_FILE = "config.yaml"
SECTION = "config/"
"""Where a checkpoint or a manifest holds the config of its run."""


@dataclass(frozen=True)
class Renames:
    """Old keys and what became of them."""

    config: Mapping[str, str | None] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path = FILE) -> Renames:
        """Read the declared changes."""
        plain = json.loads(file.read_text(encoding="utf-8"))
        return cls(plain["config"], tuple(plain["added"]), tuple(plain["dropped"]))

    def new_key(self, key: str) -> str | None:
        """Find what a config key is called now; None if it is gone."""
        for old in _prefixes(key):
            if old in self.config:
                new = self.config[old]
                return None if new is None else new + key[len(old) :]
        return key

    def leaves(self, name: str, leaves: Leaves) -> Leaves:
        """Bring a file's leaves to the new keys, without those that are gone or were added."""
        found: Leaves = {}
        for key, leaf in leaves.items():
            start = 0 if name == CONFIG_FILE else _config_start(key)
            new = key if start is None else self._moved(key[:start], key[start:])
            if new is not None:
                found[new] = leaf
        return found

    def without_dropped(self, name: str, first: Leaves, second: Leaves) -> Leaves:
        """Return the first leaves without those of dropped config keys that the second lack."""
        return {key: leaf for key, leaf in first.items() if key in second or not self._is_dropped(name, key)}

    def _is_dropped(self, name: str, key: str) -> bool:
        start = 0 if name == CONFIG_FILE else _config_start(key)
        path = "" if start is None else _bare(key[start:].replace("/", "."))
        return any(prefix in self.dropped for prefix in _prefixes(path))

    def option(self, option: str, keys: Callable[[], Iterable[str]]) -> str | None:
        """Spell an option KEY=VALUE for a checkout that knows `keys`; None where it is gone there."""
        key, equals, value = option.partition("=")
        new = self.new_key(key)
        if not equals or new == key or key in keys():
            return option
        return None if new is None else f"{new}={value}"

    def _moved(self, before: str, path: str) -> str | None:
        new = self.new_key(path.replace("/", "."))
        if new is None or (of_all := self.new_key(_bare(new))) is None:
            return None
        return None if any(prefix in self.added for prefix in _prefixes(of_all)) else before + new.replace(".", "/")


def _config_start(key: str) -> int | None:
    """Find where a config's own path begins within a leaf's, if it does."""
    at = f"/{key}".find(f"/{SECTION}")
    return None if at < 0 else at + len(SECTION)


def _bare(key: str) -> str:
    """A dotted key without the numbers of list items."""
    return ".".join(part for part in key.split(".") if not part.isdigit())


def _prefixes(key: str) -> list[str]:
    """A dotted key and all sections around it, the longest first."""
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
