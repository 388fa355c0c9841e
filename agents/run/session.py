"""Where a run lives: its folder, made or opened again, locked, with the newest good training state and the logs.

`open_home` is for any trainer; `RunSession` adds the logs, the bar and a voice, for those that learn in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparring.agents.run.folder import RunFolder
from sparring.agents.run.fresh_run import changes, put_league_aside
from sparring.agents.run.lock import RunLock
from sparring.agents.run.logger import open_logger
from sparring.agents.run.progress import Progress
from sparring.agents.run.resume_fidelity import inexact
from sparring.agents.run.states import StateFolder, TrainingState
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.paths import ROOT
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import to_plain

NAMED = 5
"""So many changed options are named in a line."""


@dataclass
class Opened:
    """A run's folder and what was in it: `found` is its newest state, `changed` the options that now differ."""

    folder: RunFolder
    states: StateFolder
    lock: RunLock
    existed: bool
    found: TrainingState | None
    changed: dict[str, tuple[Any, Any]]
    fingerprint: str
    alerts: list[str] = field(default_factory=list)


def open_home(config: RunConfig) -> Opened:
    """Make the folder that `config` asks for, or open it again, and lock it.

    Raises `InputError` where it cannot be written, another trainer has it, its options have changed in a way that
    matters, or all of its states are damaged.
    """
    root = ROOT / config.checkpoint_dir
    existing = RunFolder.open(root, config.name)
    folder = existing or RunFolder.create(root, config.name, config.run)
    lock = RunLock(folder.path)
    try:
        changed = changes(folder, config) if existing else {}
        if existing is None:
            folder.write_config(to_plain(config))
        return _look_around(config, folder, lock, existing is not None, changed)
    except BaseException:
        lock.release()
        raise


def _look_around(
    config: RunConfig, folder: RunFolder, lock: RunLock, existed: bool, changed: dict[str, tuple[Any, Any]]
) -> Opened:
    """Tidy up after a killed process and find the newest state."""
    alerts: list[str] = []
    states = StateFolder(folder.state, config.keep_states, alerts.append)
    folder.clean()
    states.clean()
    found = states.latest() if existed else None
    if found is None and changed:  # the run begins anew, and with other options
        put_league_aside(folder)
        folder.write_config(to_plain(config))
    fingerprint = folder.fingerprint()
    if found and found.summary.get("config_sha256", fingerprint) != fingerprint:
        raise ConfigError(
            f"{folder.config}: is not what the run was begun with; restore it (every policy of the run holds "
            "a copy), and give what you want to change as options"
        )
    return Opened(folder, states, lock, existed, found, changed, fingerprint, alerts)


def begins_anew(changed: Mapping[str, Any]) -> str:
    """What a run says that found its folder and no state in it; `changed` are the options that are new."""
    line = "there is no training state yet: the run begins anew"
    named = [*list(changed)[:NAMED], *([f"{len(changed) - NAMED} more options"] if len(changed) > NAMED else [])]
    return f"{line}, and config.yaml now has its {', '.join(named)}" if changed else line


class RunSession:
    """The home of a run that learns in one process: `found` is the state to go on from, None to begin.

    `total` is what the bar counts to, in units called `unit`.
    """

    def __init__(self, config: RunConfig, *, total: int, unit: str = "update") -> None:
        opened = open_home(config)
        self.folder, self.states, self.found = opened.folder, opened.states, opened.found
        self.fingerprint = opened.fingerprint
        self._lock, self._opened, self._deterministic = opened.lock, opened, config.deterministic
        logs = opened.found.content["logger"] if opened.found else None
        try:
            self.logger = open_logger(config.logger, self.folder.path, self.folder.name, to_plain(config), logs)
        except BaseException:
            self._lock.release()
            raise
        self.progress = Progress(total, shown=config.logger.progress, unit=unit)
        self.states.alert = self.alert

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The options that are not what the run was begun with: (before, now)."""
        return self._opened.changed

    def greet(self, done: int, summary: Mapping[str, Any]) -> None:
        """Say whether the run was resumed, after `done` updates, and what has changed since.

        `summary` is what `save_state` would now be given.
        """
        for text in self._opened.alerts:
            self.alert(text)
        if self.found is None:
            if self._opened.existed:
                self.say(begins_anew(self._opened.changed))
            return
        self.progress.skip(done)
        self.say(f"resumed after update {done} from {self.found.path.name}")
        for key, (before, now) in self._opened.changed.items():
            self.say(f"option changed: {key} was {before} and is {now}")
        reasons = inexact(self.found.summary, summary, deterministic=self._deterministic)
        if reasons:
            self.say(f"inexact resume: {'; '.join(reasons)}")

    def say(self, text: str) -> None:
        """Tell the person at the terminal, and the log."""
        self.progress.say(text)
        self.logger.event(text)

    def alert(self, text: str) -> None:
        """Say that something is wrong although training goes on."""
        self.progress.say(f"alert: {text}")
        self.logger.event(text, kind="alert")

    def save_state(self, update: int, content: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """Publish a training state, the logs' position with it; where that fails, training goes on."""
        about = {"run": self.folder.name, "update": update, "config_sha256": self.fingerprint, **summary}
        try:
            self.states.publish(update, {**content, "logger": self.logger.state_dict()}, about)
        except OSError as error:
            self.alert(f"no training state is saved ({error.strerror}); training goes on, earlier states are whole")

    def close(self) -> None:
        """End the logs and the bar, and let another trainer in."""
        self.progress.close()
        self.logger.close()
        self._lock.release()
