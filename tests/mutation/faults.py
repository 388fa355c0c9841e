"""The list of planted faults: each replaces one piece of text in one file and names the tests that should notice.

The files `faults/<area>.toml` hold tables `[[fault]]` with the keys of `Fault`. They are data: nothing in them is run
before it is planted in a scratch copy.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "faults"
NEEDED = {"what", "file", "old", "new", "tests"}
"""Keys of every fault; `equivalent` may be added."""


class FaultError(ValueError):
    """A fault that cannot be planted; the message is one line naming it, what is wrong and what to do."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault in `file`: its only occurrence of `old` becomes `new`.

    Attributes:
        area: name of the list it stands in.
        what: the fault in a few words.
        tests: test files, or single tests of theirs as pytest names them, that should notice.
        equivalent: why nothing can notice; empty for a fault that has to be noticed.

    """

    area: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def plant(self, root: Path) -> None:
        """Change the file under `root`; raises `FaultError` if the old text is not in it exactly once."""
        path = root / self.file
        changed, before = self.changed(root), path.stat()
        path.write_text(changed, encoding="utf-8")
        # Cached bytecode counts as current if size and full seconds are equal: a change of the same size needs another.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 2 * 10**9))

    def changed(self, root: Path) -> str:
        """Return the file's content with the fault; raises `FaultError` like `plant`."""
        path = root / self.file
        if not path.is_file():
            raise FaultError(f"{self.name}: {self.file} does not exist; name the file that has the code now")
        source = path.read_text(encoding="utf-8")
        found = source.count(self.old)
        if found != 1:
            advice = "give the text as it is now" if not found else "give more of the text around it"
            raise FaultError(f"{self.name}: {self.old!r} occurs {found} times in {self.file}; {advice}")
        if self.old == self.new:
            raise FaultError(f"{self.name}: old and new text are equal; change something")
        return source.replace(self.old, self.new)

    @property
    def name(self) -> str:
        """Area and description."""
        return f"{self.area}: {self.what}"


def read_faults(folder: Path = FOLDER) -> list[Fault]:
    """Return the faults of all lists in `folder`; raises `FaultError` for an entry with missing or unknown keys."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            wrong = sorted((NEEDED - set(entry)) | (set(entry) - NEEDED - {"equivalent"}))
            if wrong:
                raise FaultError(f"{path.name}: {entry.get('what', entry)}: {wrong[0]} is missing or unknown")
            found.append(Fault(area=path.stem, **entry | {"tests": tuple(entry["tests"])}))
    return found
