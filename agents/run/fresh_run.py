"""A run folder in which nothing was learned yet: a start that was refused after its folder was made leaves one.

Such a folder takes any configuration, so that the corrected command works under the same name. Everything that a start
leaves before its first update is listed here; a folder with anything else in it, a state or what was kept of a damaged
one, a policy, a row of metrics, was trained, and goes on with the options it has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.agents.run.folder import LOCK, RunFolder
from sparring.agents.run.logger import EVENTS, METRICS, WANDB_ID
from sparring.configs.core.errors import ConfigError
from sparring.configs.migrations import from_stored
from sparring.configs.resume_changes import differences, drift
from sparring.configs.retired import is_retired, run_message
from sparring.configs.schema import RunConfig
from sparring.curriculum.league import file

WANDB, TENSORBOARD = "wandb", "events.out.tfevents."
BEFORE = ".before"
"""What is appended to the name of a league that a start under other options has left."""
LEFT = ("config.yaml", LOCK, EVENTS, WANDB_ID, WANDB, file.FILE, file.LOCK, file.FILE + BEFORE)
EMPTY = (METRICS, "pool", "state")
"""These are made before the first update, and have nothing in them."""


def is_fresh(folder: RunFolder) -> bool:
    """Return whether no update was ever done in a run's folder, and no training state is or was there."""
    return all(_is_left_by_a_start(path) for path in folder.path.iterdir())


def changes(folder: RunFolder, config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Options that differ from those of a run's folder, by dotted key: (before, now).

    Raises `ConfigError` where the run was trained and what it learned depends on one of them, or on a version of the
    environment that is no longer registered.
    """
    before = from_stored(folder.read_config())
    if is_fresh(folder):
        return differences(before, config)
    if is_retired(before.env.id):
        raise ConfigError(run_message(folder.path, before.env.id))
    return drift(before, config)


def put_league_aside(folder: RunFolder) -> None:
    """Keep the league of a start under other options as `.before`: its players are that start's."""
    league = folder.path / file.FILE
    if is_fresh(folder) and league.exists():
        league.replace(league.with_name(league.name + BEFORE))


def _is_left_by_a_start(path: Path) -> bool:
    if path.name in EMPTY:
        return not (any(path.iterdir()) if path.is_dir() else path.stat().st_size)
    return path.name in LEFT or path.name.startswith(TENSORBOARD)
