"""Claim the folder of a run: lock it, and refuse invalid changes of a continued run and invalid new runs.

This does not import torch, so the command line does it before loading torch and the simulator, which takes half a
minute on a slow machine. With several processes, the first one does it once all are connected.

A folder without any update, as left by a start that failed, accepts any configuration: the corrected command works
under the same name. The files of a start before its first update are listed here. A folder with any other file (a
state, even a damaged one, a policy, a row of metrics) was trained, and continues with its own options.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from sparring.agents.run.folder import (
    FINAL,
    LOCK,
    ORIGIN,
    RunExistsError,
    RunFolder,
    RunLock,
    RunLockedError,
    write_origin,
)
from sparring.agents.run.log_files import EVENTS, METRICS
from sparring.agents.run.logger import WANDB_ID
from sparring.configs.core.errors import ConfigError, moved, suggestion
from sparring.configs.core.files import CHECKPOINTS, ROOT, SHIPPED, holds, naming_files, read_json
from sparring.configs.core.manifest import MANIFEST, OLD_LOCK, STATE, refuse_training_state
from sparring.configs.core.parts import parts
from sparring.configs.games import is_retired, run_message
from sparring.configs.resume import differences, drift
from sparring.configs.schema import PPORunConfig, RunConfig
from sparring.configs.serialization import from_stored, to_plain
from sparring.curriculum.league import file
from sparring.envs.game import load

__getattr__ = moved(__name__, {"check_sources": "sparring.agents.language.grpo.sources"})

WANDB, TENSORBOARD = "wandb", "events.out.tfevents."
BEFORE = ".before"
"""Suffix of the league file of an earlier start with other options."""
FILES_OF_A_START = (
    "config.yaml",
    ORIGIN,
    LOCK,
    EVENTS,
    WANDB_ID,
    WANDB,
    file.FILE,
    OLD_LOCK,
    file.FILE + BEFORE,
    "adapters",
    "data",
)
EMPTY_AT_FIRST = (METRICS, "pool", "state")
"""Created before the first update, and empty until then, but for the index of a pool without snapshots."""
INDEX = "index.json"


class FolderClaim:
    """The folder named by `config`, locked until `release` if it exists, else created by `folder`; also a context.

    `existed` is true if the folder was there; `changed` maps options that differ from its own to (before, now).

    Raises `InputError` if another trainer holds it, if an option has changed on which its results depend, or if the
    source of a new run is missing.
    """

    def __init__(self, config: RunConfig) -> None:
        if check := parts("trainers")[config.trainer].check_options:
            load(check)(config)
        self._config, self._root = config, ROOT / config.checkpoint_dir
        with naming_files(self._root / config.name):
            self._open()

    def _open(self) -> None:
        """Open and lock an existing folder, and check the options."""
        self._folder = RunFolder.open(self._root, self._config.name)
        # The lock comes first: a start beside a running trainer hears of that, not of options that differ. In a folder
        # that never had a lock no process trains; it comes last there, so that a refused command leaves nothing.
        self._lock = RunLock(self._folder.path) if self._folder and self._folder.lock.exists() else None
        try:
            self._check()
            if self._folder and not self._lock:
                self._lock = RunLock(self._folder.path)
        except BaseException:
            self.release()
            raise

    def _check(self) -> None:
        """Refuse changed options and missing sources; the lock of an existing folder is held."""
        config = self._config
        before = self._folder if self._folder and self._folder.config.exists() else None
        self.existed = before is not None
        fresh = before is None or is_fresh(before)
        if config.trainer == "sb3" and not fresh:
            raise ConfigError(f"name={config.name}: was started, and trainer=sb3 cannot resume; choose another name")
        self.changed: dict[str, tuple[Any, Any]] = changes(before, config) if before else {}
        if fresh and (check := parts("trainers")[config.trainer].check_sources):
            load(check)(config)
        if isinstance(config, PPORunConfig) and fresh and config.init_from:
            initial_policy(config)

    def folder(self) -> RunFolder:
        """Return the folder; if it does not exist, create it with its config.yaml and lock it.

        Raises `RunLockedError` if another process has created it meanwhile and trains there.
        """
        if self._folder is None:
            try:
                folder = RunFolder.create(self._root, self._config.name, self._config.run)
                created = True
            except RunExistsError:
                folder = RunFolder(self._root / self._config.name)
                created = False
            try:
                lock = RunLock(folder.path)
            except RunLockedError as error:
                if created and isinstance(error.__cause__, OSError):  # not held by another process
                    folder.remove_unused()
                raise
            if folder.config.exists():  # written, and the lock released, since this process looked for the folder
                lock.release()
                raise RunExistsError(f"{folder.path}: was created by another process; start again to continue")
            self._folder, self._lock = folder, lock
        if not self._folder.config.exists():
            self._write_config(self._folder)
        return self._folder

    def _write_config(self, folder: RunFolder) -> None:
        """Write config.yaml of a new folder; remove the folder if that fails."""
        try:
            folder.write_config(to_plain(self._config))
            write_origin(folder.path)
        except BaseException:
            self.release()
            folder.remove_unused()
            raise

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._lock:
            self._lock.release()

    def __enter__(self) -> FolderClaim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def initial_policy(config: PPORunConfig) -> Path:
    """Return the file of `init_from`: a path, `released/NAME`, or the final policy of the run with that name.

    `.pt` may be left out. Raises `ConfigError` if there is none, `TrainingStateError` for a training state.
    """
    text, runs = config.init_from, ROOT / config.checkpoint_dir
    files = (Path(text), ROOT / text, runs / text / FINAL)
    for path in (*files, *(directory / f"{text}.pt" for directory in (Path(), ROOT, runs, CHECKPOINTS, SHIPPED))):
        if holds(path.is_file) or holds((path / STATE).is_file):
            refuse_training_state(path, f"init_from={text}")
        if holds(path.is_file):
            return path
    names = sorted(path.parent.name for path in runs.glob(f"*/{FINAL}"))
    raise ConfigError(f"init_from={text}: is neither a policy's file nor a run with a {FINAL}{suggestion(text, names)}")


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
        f"{folder.config}: differs from the run's original; restore it (every policy of the run contains a copy), "
        "and pass your changes as options"
    )


def _noted_fingerprint(folder: RunFolder) -> str:
    """Return the fingerprint of config.yaml in the newest training state; empty where none can be read."""
    newest = max(folder.state.glob("update_??????"), default=folder.state)
    try:
        return str(read_json(newest / MANIFEST)["summary"]["config_sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def put_league_aside(folder: RunFolder) -> None:
    """Rename the league of a start with other options to `.before`, because its players belong to that start."""
    league = folder.path / file.FILE
    if is_fresh(folder) and league.exists():
        league.replace(league.with_name(league.name + BEFORE))


def _is_left_by_a_start(path: Path) -> bool:
    if path.name in EMPTY_AT_FIRST:
        return not (any(each.name != INDEX for each in path.iterdir()) if path.is_dir() else path.stat().st_size)
    return path.name in FILES_OF_A_START or path.name.startswith(TENSORBOARD)
