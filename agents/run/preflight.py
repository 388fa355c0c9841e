"""Claim the folder of a run: lock it, and refuse invalid changes of a continued run and invalid new runs.

This does not import torch, so the command line does it before loading torch and the simulator, which takes half a
minute on a slow machine. With several processes, the first one does it once all are connected.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from sparring.agents.run.fidelity.origin import write_origin
from sparring.agents.run.folder import FINAL, RunExistsError, RunFolder, RunLock, RunLockedError
from sparring.agents.run.fresh_run import changes, is_fresh
from sparring.configs.core.errors import ConfigError, suggestion
from sparring.configs.core.files import naming_files
from sparring.configs.core.paths import CHECKPOINTS, ROOT, SHIPPED, holds
from sparring.configs.core.run_contents import STATE, refuse_training_state
from sparring.configs.language import GIVE_ADAPTER
from sparring.configs.schema import DIPLOMACY, DOGFIGHT, GRPORunConfig, PPORunConfig, RunConfig
from sparring.configs.serialization import to_plain
from sparring.curriculum.league.file import LeagueError, LeagueFile


class FolderClaim:
    """The folder named by `config`, locked until `release` if it exists, else created by `folder`; also a context.

    `existed` is true if the folder was there; `changed` maps options that differ from its own to (before, now).

    Raises `InputError` if another trainer holds it, if an option has changed on which its results depend, or if the
    source of a new run is missing.
    """

    def __init__(self, config: RunConfig) -> None:
        if isinstance(config, PPORunConfig) and config.trainer == "sb3":
            check_sb3(config)
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
        if isinstance(config, GRPORunConfig) and fresh:
            check_sources(config)
        if isinstance(config, PPORunConfig) and fresh and config.init_from:
            initial_policy(config)

    def folder(self) -> RunFolder:
        """Return the folder; if it does not exist, create it with its config.yaml and lock it.

        Raises `RunLockedError` if another process has created it meanwhile and trains there.
        """
        if self._folder is None:
            try:
                folder = RunFolder.create(self._root, self._config.name, self._config.run)
                made = True
            except RunExistsError:
                folder = RunFolder(self._root / self._config.name)
                made = False
            try:
                lock = RunLock(folder.path)
            except RunLockedError as error:
                if made and isinstance(error.__cause__, OSError):  # not held by another process
                    folder.remove_unused()
                raise
            if folder.config.exists():  # written, and the lock released, since this process looked for the folder
                lock.release()
                raise RunExistsError(f"{folder.path}: was made by another start meanwhile; start again to go on")
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


def check_sources(config: GRPORunConfig) -> None:
    """Refuse a new GRPO run whose initial adapter or league is missing."""
    adapter, source = config.model.adapter, config.league.inherit
    if adapter == GIVE_ADAPTER:
        raise ConfigError(
            f"model.adapter is missing: +run={config.run} trains a given adapter; give model.adapter=FILE, such as "
            "checkpoints/RUN/final.pt"
        )
    if adapter and not holds(Path(adapter).is_file):
        raise ConfigError(f"model.adapter={adapter}: is no file; give an adapter's, such as checkpoints/RUN/final.pt")
    if source:
        try:
            LeagueFile(ROOT / config.checkpoint_dir / source).read()
        except LeagueError as error:
            raise LeagueError(f"league.inherit={source}: {error}") from error


def initial_policy(config: PPORunConfig) -> Path:
    """Return the file of `init_from`: a path, `released/NAME`, or the final policy of the run with that name.

    `.pt` may be left out. Raises `ConfigError` if there is none, `TrainingStateError` for a training state.
    """
    text, runs = config.init_from, ROOT / config.checkpoint_dir
    files = (Path(text), ROOT / text, runs / text / FINAL)
    for path in (*files, *(place / f"{text}.pt" for place in (Path(), ROOT, runs, CHECKPOINTS, SHIPPED))):
        if holds(path.is_file) or holds((path / STATE).is_file):
            refuse_training_state(path, f"init_from={text}")
        if holds(path.is_file):
            return path
    known = sorted(path.parent.name for path in runs.glob(f"*/{FINAL}"))
    raise ConfigError(f"init_from={text}: is neither a policy's file nor a run with a {FINAL}{suggestion(text, known)}")


def check_sb3(config: PPORunConfig) -> None:
    """Refuse options that SB3's PPO does not support here."""
    if config.env.id == DIPLOMACY:
        raise ConfigError(f"env.id={config.env.id}: trainer=sb3 plays {DOGFIGHT} and Gymnasium's environments only")
    if config.init_from:
        raise ConfigError(f"init_from={config.init_from}: trainer=sb3 begins with random weights; use trainer=ppo")
    if config.network.blocks:
        raise ConfigError(f"network.blocks={config.network.blocks}: trainer=sb3 knows plain layers only; use 0")
    if config.ppo.adaptive_kl:
        raise ConfigError(f"ppo.adaptive_kl={config.ppo.adaptive_kl}: trainer=sb3 anneals by the clock only; use 0")
    for index, phase in enumerate(config.phases):
        if min(phase.scripted_start, phase.scripted_end) < 1.0:
            key = f"phases.{index}.scripted_end={phase.scripted_end}"
            raise ConfigError(f"{key}: trainer=sb3 has no self-play; use 1, or +run=bots_only")
