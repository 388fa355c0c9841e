"""The session of a run: its folder and lock, training states, logs, progress bar, stop requests and guard.

With several processes, only process 0 opens the folder and writes. The content it found is broadcast; the sessions of
the other processes print and write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from sparring.agents.callbacks import Callback, CallbackDispatcher
from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.run.fidelity import inexact
from sparring.agents.run.folder import RunFolder, RunLock
from sparring.agents.run.guard import Guard, Guarded, GuardVerdict, LearningFailed
from sparring.agents.run.logger import Logger, VideoThreads, open_logger
from sparring.agents.run.preflight import FolderClaim, changed_config, put_league_aside
from sparring.agents.run.progress import Progress, counted
from sparring.agents.run.signals import StopRequest
from sparring.agents.run.states import StateFolder, TrainingState, reading
from sparring.configs.core.errors import ConfigError, InputError, as_called
from sparring.configs.core.files import naming_files
from sparring.configs.core.manifest import damage, listed, repair_manifest
from sparring.configs.core.session import GuardConfig
from sparring.configs.core.tensor_file import check_finite
from sparring.configs.core.typed import ContentError
from sparring.configs.resume import moved_by_length, resume_hint
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import to_plain

NAMED = 5
"""Maximum number of changed options named in a line."""
STATE_SECONDS = 600.0
"""Longest time between training states if updates are shorter: what a killed run loses at most."""


@dataclass(frozen=True)
class OpenedFolder:
    """A run's folder as opened by process 0: `found` is its newest state, `changed` maps options to (before, now)."""

    folder: RunFolder
    existed: bool
    found: TrainingState | None
    changed: dict[str, tuple[Any, Any]]
    alerts: list[str]


class RunSession:
    """Session in the folder named by `config`, created or opened, and locked until `close`; also a context.

    `found` is the state to continue from, None for a fresh start. `total` is the length of the bar, in `unit`s. `claim`
    is the folder if the caller has claimed it already. `callbacks` are called by the first process.

    Raises `InputError` if the folder cannot be written, another trainer holds it, an option has changed on which the
    results depend, or all of its states are damaged.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        total: int,
        unit: str = "update",
        processes: Processes = ALONE,
        claim: FolderClaim | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.unit, self.processes = config, unit, processes
        self.leads = processes.first
        self.peer_lost = False
        """True once another process is lost; communication is impossible from then on."""
        self._logs_open = False
        self.guard: Guard | None = None
        self.on_state_saved: Callable[[], None] = lambda: None
        """Called after a state is published, to delete files that no kept state needs."""
        self.callbacks = CallbackDispatcher()
        self._videos = VideoThreads()
        self._claim: FolderClaim | RunLock | None = claim
        try:
            with naming_files(Path(config.checkpoint_dir, config.name)):
                opened = processes.run_on_rank0(lambda: self._open_folder(claim or FolderClaim(config)))
            self.folder, self.existed, self.found = opened.folder, opened.existed, opened.found
            self.changed = opened.changed
            self.logger = Logger()
            self._policies = _policies(self.found)
            self._waiting: list[tuple[str, str]] = []  # events, text and kind, until the logs are open
            if self.leads:
                self.states.alert = self.alert
        except BaseException:
            self._release()
            raise
        self.progress = Progress(total, enabled=config.logger.progress and self.leads, unit=unit)
        self.hint = resume_hint(config, self.folder.name)
        update = self.found.summary.get("update", 0) if self.found else 0
        about: dict[str, Any] = {"unit": unit, "remaining": self.progress.update_left}
        self.stop = StopRequest(config.grace_seconds, self._kept(update), self.hint, **about)
        self.stop.at_once = processes.alone  # until the first update; several processes agree on a stop
        self.callbacks = CallbackDispatcher(callbacks if self.leads else (), self.stop.request)
        self._saved_at = time.monotonic()
        self.unsaved = ""
        """Why the last training state was not saved; empty if it was."""
        for text in opened.alerts:
            self.alert(text)
        if self.found is None:
            try:
                self.open_logs()
            except BaseException:
                self._release()
                raise

    def _open_folder(self, claim: FolderClaim) -> OpenedFolder:
        """Lock the folder, remove leftovers of a killed process, and read the newest state; on process 0 only."""
        self._claim = claim
        folder, changed = claim.folder(), claim.changed
        alerts: list[str] = []
        self.states = StateFolder(folder.state, self.config.keep_states, alerts.append)
        folder.clean()
        self.states.clean()
        state = self.states.latest() if claim.existed else None
        if state is None and changed:  # a fresh start with other options than before
            put_league_aside(folder)
            folder.write_config(to_plain(self.config))
        self.fingerprint = folder.fingerprint()
        if state and state.summary.get("config_sha256", self.fingerprint) != self.fingerprint:
            raise ConfigError(changed_config(folder))
        repaired = repair_manifest(folder.path, _policies(state))
        alerts += [repaired] if repaired else []
        return OpenedFolder(folder, claim.existed, state, changed, [*alerts, *damage(folder.path)])

    def open_logs(self) -> None:
        """Open the logs, at the position of the state found; a state that is refused before has changed no file.

        Raises `StateError` for a state without that position, `InputError` if a log cannot be opened.
        """
        if not self.leads:
            return
        hashes = self.found.summary.get("logs_sha256") if self.found else None  # earlier states lack it
        folder, plain = self.folder, to_plain(self.config)
        with reading(self.found), self.starting():
            logs = self.found.content["logger"] if self.found else None
            self.logger = open_logger(self.config.logger, folder.path, folder.name, plain, logs, hashes)
        self._logs_open = True
        self.logger.alert = self.alert
        for text, kind in self._waiting:
            self.logger.event(text, kind)
        for text in self.logger.damage:
            self.alert(text)

    def starting(self) -> AbstractContextManager[None]:
        """Turn an `OSError` at the start of a run into an `InputError` that names the file."""
        return naming_files(self.folder.path)

    def training(self) -> AbstractContextManager[None]:
        """Turn an `OSError` of a file in the run's folder into an `InputError` that names it."""
        return naming_files(self.folder.path, only_inside=True)

    def open_guard(self, config: GuardConfig, learner: Guarded, *, adaptive_kl: float = 0.0) -> Guard:
        """Create the guard of `learner`'s updates and restore it from the state found, if any."""
        self.guard = Guard(config, learner, adaptive_kl=adaptive_kl, alert=self.alert)
        if self.found:
            self.guard.load_state_dict(self.found.content["guard"])
        return self.guard

    def report_resume(self, done: int, summary: Mapping[str, Any], *, cannot_save: str = "") -> None:
        """Report whether the run was resumed, after `done` updates, which options changed, and whether it is exact.

        `summary` is the current argument of `save_state`; `cannot_save` describes the part that states lack.
        """
        if self.found is None:
            if self.existed:
                self.say(fresh_start(self.changed))
            return
        self.progress.skip(done)
        self.say(f"resumed after update {done} from {self.found.path.name}")
        for key, (before, now) in self.changed.items():
            self.say(f"option changed: {key} was {before} and is {now}")
        reasons = inexact(self.found.summary, summary, deterministic=self.config.deterministic)
        reasons += [cannot_save] if cannot_save else []
        if done and (moved := moved_by_length(self.config, self.changed)):
            reasons.append(f"the updates before had {' and '.join(moved)} of a run with another length")
        if reasons:
            self.say(f"inexact resume: {'; '.join(reasons)}")

    def say(self, text: str) -> None:
        """Print a line and log it."""
        text = as_called(text)
        if self.leads:
            self.progress.say(text)
            self._event(text, "info")

    def alert(self, text: str) -> None:
        """Print and log a problem that does not stop training."""
        text = as_called(text)
        if self.leads:
            self.progress.say(f"alert: {text}")
            self._event(text, "alert")

    def _event(self, text: str, kind: str) -> None:
        if self._logs_open:
            self.logger.event(text, kind)
        else:
            self._waiting.append((text, kind))

    def film(self, env_steps: int, name: str, draw: Callable[[], bytes]) -> None:
        """Log the animated GIF that `draw` returns at `env_steps`; a thread draws it beside training."""
        if self.leads:
            self._videos.start(env_steps, name, draw)

    def log_videos(self, *, wait: bool = False) -> None:
        """Log the videos that are drawn, with `wait` also those in progress; a failed one raises an alert."""
        for video in self._videos.finished(wait=wait):
            if video.error is None:
                self.logger.video(video.env_steps, video.name, video.gif)
            else:
                reason = " ".join(str(video.error).split()) or type(video.error).__name__
                self.alert(f"{video.name} at {video.env_steps} env steps not rendered ({reason}); training continues")

    def keep(self, path: Path, save: Callable[[], None]) -> bool:
        """Save a policy and return True; a full or missing disk raises an alert, and so does a damaged manifest.

        The manifest is rebuilt. Processes that do not lead save nothing and return False.
        """
        if not self.leads:
            return False
        try:
            self._save(path, save)
        except (OSError, InputError) as error:
            self.alert(f"{path.name} was not saved ({getattr(error, 'strerror', error)}); training continues")
            return False
        return True

    def save_final(self, path: Path, save: Callable[[], None]) -> Exception | None:
        """Save the last policy; return the error that prevented it, an `InputError` for a full or missing disk.

        The caller raises it once the training state is saved.
        """
        try:
            if self.leads:
                self._save(path, save)
        except OSError as error:
            failed = InputError(f"{path}: cannot be written ({error.strerror}); free some space; {self.hint}")
            failed.__cause__ = error
            return failed
        except Exception as error:
            return error
        return None

    def _save(self, path: Path, save: Callable[[], None]) -> None:
        """Save a policy; first rebuild a damaged manifest of policies from the hashes in the last training state."""
        if repaired := repair_manifest(self.folder.path, self._policies):
            self.alert(repaired)
        save()
        self.callbacks.written[path] = None

    def state_is_due(self, update: int) -> bool:
        """Return True if enough updates or minutes have passed for a state, and the last update was sound."""
        late = time.monotonic() - self._saved_at >= STATE_SECONDS
        due = late or update % self.config.checkpoint_every == 0
        return (self.guard is None or self.guard.sound) and self.processes.broadcast(due)

    def save_state(self, update: int, content: Mapping[str, Any], summary: Mapping[str, Any]) -> bool:
        """Publish a training state, with the guard's and the position of the logs; a failure raises an alert.

        Return False after a failure, with the reason in `unsaved`; a state with a number that is not finite, which no
        start would read, is one. After the loss of a process, an existing complete state of this update is kept.
        """
        self._saved_at = time.monotonic()
        if not self.leads or (self.peer_lost and self.states.has(update)):
            return True
        self.unsaved = ""
        try:
            check_finite(content)
        except ContentError as error:
            self.unsaved = f"is not saved ({error})"
            self.alert(f"no training state was saved ({error}); training continues, earlier states are intact")
            return False
        content = {**content, **({"guard": self.guard.state_dict()} if self.guard else {})}
        self._policies = listed(self.folder.path, unless=self._policies)
        about = {"run": self.folder.name, "update": update, "config_sha256": self.fingerprint}
        about |= {"policies": self._policies, "logs_sha256": self.logger.hashes(), **summary}
        try:
            self.states.publish(update, {**content, "logger": self.logger.state_dict()}, about)
        except OSError as error:
            self.unsaved = "cannot be written; free some space"
            self.alert(f"no training state was saved ({error.strerror}); training continues, earlier states are intact")
            return False
        self.stop.saved = self._kept(update)
        try:
            self.on_state_saved()
        except (OSError, InputError) as error:
            self.alert(f"unneeded files remain ({getattr(error, 'strerror', error)}); training continues")
        return True

    def _kept(self, updates: int) -> str:
        """Return what a stop at once leaves, after a training state of so many `updates`."""
        return f"{counted(updates, self.unit)} {'is' if updates == 1 else 'are'} kept in {self.folder.path}"

    def newest_state(self) -> TrainingState | None:
        """Read the newest good state, on every process."""
        return self.processes.run_on_rank0(lambda: self.states.latest())

    def rewind(self, state: TrainingState, done: int) -> None:
        """Reset logs and bar to a state after `done` updates."""
        self.logger.rewind(state.content["logger"])
        self._videos.discard()
        self.progress.skip(done)
        self.alert(f"rolled back to {state.path.name}")

    @property
    def verdict(self) -> GuardVerdict:
        """The guard's verdict on the last update."""
        return self.guard.verdict if self.guard else GuardVerdict.GO_ON

    def watch(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Run the guard's detectors on an update's metrics; return the `guard/...` counters."""
        if self.guard is None:
            return {}
        return self.guard.watch(metrics, int(metrics.get("guard/quarantined_matches", 0)))

    def give_up(self, update: int, metrics: Mapping[str, float], reason: str) -> NoReturn:
        """End the run with a report, without a new training state. Raises `LearningFailed`."""
        path = self.folder.path / "guard_report.json"
        try:
            if self.leads and self.guard:
                self.guard.report(path, update, metrics, reason=reason)
        except OSError as error:
            self.alert(f"{path.name} is not written ({error.strerror})")
        self.alert(f"the run ends after {self.unit} {update}: {reason}; see {path}")
        raise LearningFailed(1)

    def take_over(self, lock: RunLock) -> None:
        """Take the role of process 0 after its loss; `lock` is the folder's lock."""
        self._claim, self.leads = lock, True

    def close(self) -> None:
        """Close bar and logs, and release the lock."""
        try:
            self.log_videos(wait=True)
            self.progress.close()
            self.logger.close()
        finally:
            self._release()

    def __enter__(self) -> RunSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _release(self) -> None:
        if self._claim:
            self._claim.release()


def _policies(state: TrainingState | None) -> dict[str, str]:
    """Return the SHA-256 of every policy at a training state, by file name; earlier states have no hashes."""
    return dict(state.summary.get("policies", {})) if state else {}


def fresh_start(changed: Mapping[str, Any]) -> str:
    """Describe a start in a folder without a state; `changed` are the changed options."""
    line = "there is no training state yet: the run starts from the beginning"
    named = [*list(changed)[:NAMED], *([f"{len(changed) - NAMED} more options"] if len(changed) > NAMED else [])]
    return f"{line}, and config.yaml now has its {', '.join(named)}" if changed else line
