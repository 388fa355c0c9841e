"""The training loop of every trainer: update, evaluate, log, apply the guard's verdict, save.

The policy is always saved before the training state, so that every state has a policy.
"""

from __future__ import annotations

from pathlib import Path

from sparring.agents.callbacks import RunProgress
from sparring.agents.run.guard import GAVE_UP, GuardVerdict
from sparring.agents.run.peer_loss import saving_on_peer_loss
from sparring.agents.run.progress import counted
from sparring.agents.run.session import RunSession
from sparring.agents.run.signals import Stopped
from sparring.agents.run.states import reading
from sparring.agents.run.trainer import Trainer
from sparring.configs.core.errors import InputError


def fit(trainer: Trainer, session: RunSession) -> Path:
    """Train until no update is left or a stop is requested; return the path of the final policy.

    On Ctrl-C or SIGTERM the update in progress is finished and saved, marked as interrupted; then `Stopped`, a
    `SystemExit`, is raised. A run stopped by a callback is saved likewise; if the callback raised, so does this.
    Raises `LearningFailed` if the guard gives up, `InputError` if the policy is not writable.
    """
    with session.starting():
        restore(trainer, session)
    session.report_resume(trainer.updates_done, trainer.summary(), cannot_save=trainer.cannot_save)
    try:
        with session.training(), session.stop, saving_on_peer_loss(trainer, session):
            if trainer.over:
                _restore_final(trainer, session)
                session.say(trainer.nothing_left())
            else:
                _train(trainer, session)
    except Stopped:  # during an update
        session.progress.say(f"{trainer.final} is the policy of the last training state; {session.hint}")
        raise
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
    while not trainer.over and not session.asked_to_stop():
        metrics = _update(trainer, session)
        if metrics is None:
            continue
        if session.state_is_due(trainer.updates_done):
            save(trainer, session)
        session.callbacks.after_update(progress_of(trainer, session), metrics)
    _finish(trainer, session)
    session.callbacks.report_written(progress_of(trainer, session))


def progress_of(trainer: Trainer, session: RunSession) -> RunProgress:
    """Return the position after the last finished update, for callbacks."""
    folder = session.folder
    return RunProgress(folder.name, folder.path, trainer.updates_done, trainer.updates, trainer.env_steps)


def _update(trainer: Trainer, session: RunSession) -> dict[str, float] | None:
    """Do one update and return its metrics; None if the guard rolled back to an earlier state instead."""
    metrics = trainer.update()
    metrics |= trainer.evaluate()
    metrics |= session.watch(metrics)
    session.logger.log(trainer.env_steps, metrics)
    session.log_videos()
    session.progress.advance(*trainer.headline(metrics))
    if session.verdict is GuardVerdict.GO_ON:
        trainer.advance()
        return metrics
    if session.verdict is GuardVerdict.GIVE_UP or not _roll_back(trainer, session):
        session.give_up(trainer.updates_done, metrics, GAVE_UP)
    return None


def _roll_back(trainer: Trainer, session: RunSession) -> bool:
    """Restore the newest good state, except for the guard; return False if there is none."""
    found = session.newest_state()
    if found is None:
        return False
    with reading(found):
        trainer.load_state_dict(found)
        session.rewind(found, trainer.updates_done)
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
