"""Check of a run folder's content before anything in it is opened: files and folders only, each where it belongs.

A copied or downloaded folder may hold links to files elsewhere, FIFOs or devices. They are refused by name at the start
of a run; every single file is checked again when it is opened (`configs.core.regular_file`). Links are followed
nowhere, so the check stays inside the folder. W&B's own folder is skipped: it holds links, and the run opens no file
in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.regular_file import check_file, check_folder, read_regular_text

MANIFEST = "manifest.json"
STATE, STATE_FORMAT = "state.pt", "sparring-training-state"
"""A training state's file, and the format in the manifest beside it."""
POLICIES = ("final.pt", "best.pt")
"""Policies of a run that are named first."""
WANDB = "wandb"
FOLDERS = ("pool", "state", "final", "adapters", WANDB)
"""Names that are folders directly in a run's folder."""
STATES = "update_"
SUFFIXES = (".pt", ".json", ".jsonl", ".yaml", ".safetensors")
OLD_LOCK = "league.lock"
"""The lock of the league in folders of earlier versions."""
NAMES = ("lock", OLD_LOCK, "wandb_id")
"""A path with one of these suffixes or names is a file."""


class TrainingStateError(InputError):
    """A training state in place of a policy; the message is one line with the run's policies."""


def check_contents(folder: Path) -> None:
    """Raise `IrregularFileError` for a link, FIFO, socket or device in `folder`, or a folder in place of a file."""
    for name in FOLDERS:
        check_folder(folder / name)
    for place, folders, files in os.walk(folder):
        at_top = Path(place) == folder
        if at_top and WANDB in folders:
            folders.remove(WANDB)
        for name in folders:
            path = Path(place) / name
            if path.suffix in SUFFIXES or name in NAMES:
                check_file(path)
            check_folder(path)  # os.walk lists a link to a folder here, but does not enter it
        for name in files:
            path = Path(place) / name
            if name.startswith(STATES) and path.parent == folder / "state":
                check_folder(path)
            check_file(path)


def refuse_training_state(path: Path, given: str) -> None:
    """Raise `TrainingStateError` if the file or folder `path` is a state of a run; `given` is how the user named it."""
    folder = path.parent if path.name == STATE else path
    try:
        found = json.loads(read_regular_text(folder / MANIFEST, follow=True))
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(found, dict) or found.get("format") != STATE_FORMAT:
        return
    run = folder.resolve().parent.parent
    there = [name for name in POLICIES if (run / name).is_file()] or sorted(path.name for path in run.glob("*.pt"))[-2:]
    instead = f"give {' or '.join(str(run / name) for name in there)}" if there else "its run has saved no policy yet"
    raise TrainingStateError(f"{given}: is a training state, not a policy; {instead}")
