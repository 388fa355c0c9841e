"""Save the policy and a training state from after the last update when a process of a run is lost.

Process 0 saves. If process 0 died, the first process to get the folder's lock saves at least the policy. The episodes
of the lost process are missing, so a run continued from such a state restarts all episodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sparring.agents.distributed.processes import ProcessLostError
from sparring.agents.run.folder import RunLock, RunLockedError
from sparring.agents.run.progress import counted
from sparring.agents.run.session import RunSession
from sparring.agents.run.trainer import Trainer
from sparring.configs.core.errors import InputError

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
        return  # there is nothing to save
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
