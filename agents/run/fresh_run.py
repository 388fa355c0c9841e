"""Run folders without any update, as left by a start that failed after its folder was created.

Such a folder accepts any configuration, so that the corrected command works under the same name. The files of a start
before its first update are listed here. A folder with any other file (a state, even a damaged one, a policy, a row of
metrics) was trained, and continues with its own options.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring.agents.run.fidelity.origin import ORIGIN
from sparring.agents.run.folder import LOCK, RunFolder
from sparring.agents.run.logger import EVENTS, METRICS, WANDB_ID
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.regular_file import read_regular_text
from sparring.configs.core.run_contents import MANIFEST, OLD_LOCK
from sparring.configs.schema import RunConfig
from sparring.configs.stored.migrations import from_stored
from sparring.configs.stored.resume_changes import differences, drift
from sparring.configs.stored.retired import is_retired, run_message
from sparring.curriculum.league import file

WANDB, TENSORBOARD = "wandb", "events.out.tfevents."
BEFORE = ".before"
"""Suffix of the league file of an earlier start with other options."""
LEFT = ("config.yaml", ORIGIN, LOCK, EVENTS, WANDB_ID, WANDB, file.FILE, OLD_LOCK, file.FILE + BEFORE, "adapters")
EMPTY = (METRICS, "pool", "state")
"""Created before the first update, and empty until then, but for the index of a pool without snapshots."""
INDEX = "index.json"


def is_fresh(folder: RunFolder) -> bool:
    """Return True if a run's folder never had an update or a training state."""
    return all(_is_left_by_a_start(path) for path in folder.path.iterdir())


def changes(folder: RunFolder, config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return options that differ from those of a run's folder, by dotted key: (before, now).

    Raises `ConfigError` if the run was trained and its results depend on one of them, or on a version of the
    environment that is no longer registered.
    """
    before = from_stored(folder.read_config())
    if is_fresh(folder):
        return differences(before, config)
    if is_retired(before.env.id):
        raise ConfigError(run_message(folder.path, before.env.id))
    try:
        return drift(before, config)
    except ConfigError as error:
        if _noted_fingerprint(folder) not in ("", folder.fingerprint()):  # the file differs, not what is typed
            raise ConfigError(changed_config(folder)) from error
        raise


def changed_config(folder: RunFolder) -> str:
    """Describe a config.yaml that is not the one that the training states noted."""
    return (
        f"{folder.config}: is not what the run was started with; restore it (every policy of the run holds a copy), "
        "and give what you want to change as options"
    )


def _noted_fingerprint(folder: RunFolder) -> str:
    """Return the fingerprint of config.yaml in the newest training state; empty where none can be read."""
    newest = max(folder.state.glob("update_??????"), default=folder.state)
    try:
        return str(json.loads(read_regular_text(newest / MANIFEST))["summary"]["config_sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def put_league_aside(folder: RunFolder) -> None:
    """Rename the league of a start with other options to `.before`, because its players belong to that start."""
    league = folder.path / file.FILE
    if is_fresh(folder) and league.exists():
        league.replace(league.with_name(league.name + BEFORE))


def _is_left_by_a_start(path: Path) -> bool:
    if path.name in EMPTY:
        return not (any(each.name != INDEX for each in path.iterdir()) if path.is_dir() else path.stat().st_size)
    return path.name in LEFT or path.name.startswith(TENSORBOARD)
