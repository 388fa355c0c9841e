"""The training loop of every trainer: update, evaluate, log, apply the guard's verdict, save.

The policy is always saved before the training state, so every state has a policy. When a process of a run is lost,
process 0 saves the policy and a training state from after the last update. If process 0 died, the first process to get
the folder's lock saves at least the policy. The episodes of the lost process are missing, so a run resumed from such a
state restarts all episodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from sparring.agents.callbacks import RunProgress
from sparring.agents.distributed.processes import ProcessLostError
from sparring.agents.run.folder import RunLock, RunLockedError
from sparring.agents.run.guard import GAVE_UP, GuardVerdict
from sparring.agents.run.progress import counted
from sparring.agents.run.session import RunSession
from sparring.agents.run.signals import Stopped
from sparring.agents.run.states import TrainingState, reading
from sparring.configs.core.errors import InputError


class Trainer(Protocol):
    """One algorithm, created from a configuration before its run has a folder. Every process of a run has one.

    `restore_or_init` is called first. `updates_done` then counts the updates. A trainer that derives from this class
    sets `session` there, and has the usual `final` and `over`.
    """

    session: RunSession

    unit: str
    """Name of an update: update, step."""
    updates: int
    """Total number of updates to do."""
    updates_done: int
    cannot_save: str
    """The part that training states lack, as a phrase; empty if states are complete."""

    @property
    def final(self) -> Path:
        """The path of the final policy."""
        return self.session.folder.final

    @property
    def over(self) -> bool:
        """True if no update is left."""
        return self.updates_done >= self.updates

    @property
    def env_steps(self) -> int:
        """The x-axis of the latest update's metrics."""

    def restore_or_init(self, session: RunSession) -> None:
        """Open the files in the run's folder, and continue from the state that `session` found, if any."""

    def nothing_left(self) -> str:
        """Return a message: why no update is left, and which option to raise."""

    def describe(self) -> Iterator[str]:
        """Yield lines that describe the model and the machine."""

    def update(self) -> dict[str, float]:
        """Do one update; return its metrics. A trainer with a guard calls it here."""

    def evaluate(self) -> dict[str, float]:
        """Do the evaluations that are due after the update; return their metrics."""

    def advance(self) -> None:
        """Finish an update that the guard accepted, after its metrics are logged."""

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return the progress bar's description and status."""

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the policy after `updates_done` updates. Raises `OSError` if it cannot be written."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that an update changes, as plain data and tensors; called by all processes."""

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from a state, at the start or when the guard rolls back."""

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""

    def close(self) -> None:
        """End threads and processes."""


def fit(trainer: Trainer, session: RunSession) -> Path:
    """Train until no update is left or a stop is requested; return the path of the final policy.

    On Ctrl-C or SIGTERM the update in progress is finished and saved, marked as interrupted. Then `Stopped`, a
    `SystemExit`, is raised; before the first update it is raised at once. A run stopped by a callback is also saved; an
    exception in the callback is then raised again. Raises `LearningFailed` if the guard gives up, `InputError` if the
    policy is not writable.
    """
    with session.stop:
        with session.starting():
            restore(trainer, session)
        session.report_resume(trainer.updates_done, trainer.summary(), cannot_save=trainer.cannot_save)
        with session.training(), saving_on_peer_loss(trainer, session):
            if trainer.over:
                _restore_final(trainer, session)
                session.say(trainer.nothing_left())
            else:
                _train(trainer, session)
    if session.callbacks.error is not None:
        raise session.callbacks.error
    if session.stop.exit_code:
        raise Stopped(session.stop.exit_code)
    return trainer.final


def restore(trainer: Trainer, session: RunSession) -> None:
    """Start the trainer, or continue from the state found, then the logs; raises `StateError` if it does not fit."""
    with reading(session.found):
        trainer.restore_or_init(session)
    if session.found:
        session.open_logs()


def save(trainer: Trainer, session: RunSession) -> None:
    """Save the policy, marked as interrupted until `fit` ends, then the state; a failure raises an alert."""
    session.keep(trainer.final, lambda: trainer.save_policy(trainer.final, interrupted=True))
    session.save_state(trainer.updates_done, trainer.state_dict(), trainer.summary())


def _train(trainer: Trainer, session: RunSession) -> None:
    if trainer.updates_done == 0 or not session.processes.run_on_rank0(trainer.final.exists):
        save(trainer, session)  # the guard can then always roll back, and there is always a policy
    for line in trainer.describe():
        session.say(line)
    session.stop.at_once = False
    while not trainer.over and not session.stop.asked_of_any(session.processes.largest):
        metrics = trainer.update()
        metrics |= trainer.evaluate()
        metrics |= session.watch(metrics)
        session.logger.log(trainer.env_steps, metrics)
        session.log_videos()
        session.progress.advance(*trainer.headline(metrics))
        if session.verdict is not GuardVerdict.GO_ON:
            if session.verdict is GuardVerdict.GIVE_UP or not _roll_back(trainer, session):
                session.give_up(trainer.updates_done, metrics, GAVE_UP)
            continue
        trainer.advance()
        if session.state_is_due(trainer.updates_done):
            save(trainer, session)
        session.callbacks.after_update(progress_of(trainer, session), metrics)
    _finish(trainer, session)
    session.callbacks.report_written(progress_of(trainer, session))


def progress_of(trainer: Trainer, session: RunSession) -> RunProgress:
    """Return the position after the last finished update, for callbacks."""
    folder = session.folder.path
    return RunProgress(folder.name, folder, trainer.updates_done, trainer.updates, trainer.env_steps)


def _roll_back(trainer: Trainer, session: RunSession) -> bool:
    """Restore the newest good state, except for the guard; return False if there is none."""
    state = session.newest_state()
    if state is None:
        return False
    with reading(state):
        trainer.load_state_dict(state)
        session.rewind(state, trainer.updates_done)
    return True


def _restore_final(trainer: Trainer, session: RunSession) -> None:
    """Write the policy of a finished run again: it is missing or an earlier one if the disk was full at the end."""
    failed = session.save_final(trainer.final, lambda: trainer.save_policy(trainer.final, interrupted=False))
    if failed:
        raise failed


def _finish(trainer: Trainer, session: RunSession) -> None:
    """Save policy and training state, the state even if the policy cannot be; raise what prevented either."""
    stopped = session.stop.asked
    failed = session.save_final(trainer.final, lambda: trainer.save_policy(trainer.final, interrupted=stopped))
    saved = session.save_state(trainer.updates_done, trainer.state_dict(), trainer.summary())
    if failed:
        raise failed
    if not saved:
        raise InputError(f"{session.folder.state}: the last training state {session.unsaved}; {session.hint}")
    done = counted(trainer.updates_done, session.unit)
    if session.callbacks.error is not None:
        session.alert(f"a callback raised {type(session.callbacks.error).__name__}; the run ends, its state is saved")
    session.say(f"{'interrupted' if stopped else 'done'} after {done}: {trainer.final}")
    if stopped:
        session.say(session.hint)


ATTEMPTS, PAUSE = 20, 0.1
"""Attempts at the folder's lock, and the pause between them (s): a dying process closes its files one by one."""


@contextmanager
def saving_on_peer_loss(trainer: Trainer, session: RunSession) -> Iterator[None]:
    """Save policy and state, if possible, when a `ProcessLostError` is raised in this context, and re-raise it."""
    try:
        yield
    except ProcessLostError:
        lost_at, session.peer_lost = time.time(), True
        if session.guard:
            session.guard.take_back(trainer.updates_done)
        if session.leads:
            _save_policy(trainer)
            session.save_state(trainer.updates_done, trainer.state_dict(), trainer.summary())
            session.alert(f"another process was lost; {session.hint}")
        elif _take_over(trainer, session, lost_at):
            _save_policy(trainer)
        raise


def _save_policy(trainer: Trainer) -> None:
    if trainer.updates_done == 0:
        return  # nothing to save
    try:
        trainer.save_policy(trainer.final, interrupted=True)
    except (OSError, InputError) as error:
        print(f"{trainer.final}: cannot be written ({getattr(error, 'strerror', error)})", flush=True)
        return
    print(f"the policy after {counted(trainer.updates_done, 'update')} is saved: {trainer.final}", flush=True)


def _take_over(trainer: Trainer, session: RunSession, lost_at: float) -> bool:
    """Return True if this process has to save, because process 0 is dead and no other process has saved."""
    for _ in range(ATTEMPTS):
        try:
            session.take_over(RunLock(session.folder.path))
        except RunLockedError:
            time.sleep(PAUSE)
            continue
        return not (trainer.final.exists() and trainer.final.stat().st_mtime >= lost_at)
    return False
