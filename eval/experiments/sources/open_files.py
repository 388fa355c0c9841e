"""Files that a process of this machine has open: a log that is still written belongs to a running run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def open_files(suffix_or_part: str) -> set[str]:
    """Return paths of files that other processes have open and whose path holds `suffix_or_part`.

    Empty where the system has no /proc; only processes of the same user are seen.
    """
    found = set()
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for entry in os.scandir(descriptors):
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if suffix_or_part in target:
                        found.add(target)
    return found
