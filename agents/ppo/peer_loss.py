"""What is saved when a process of a run is lost: the policy and a training state as they were after the last update.

Process 0 does it. Where that is the one that died, whoever gets the lock on the folder, which the dead no longer hold,
saves at least the policy. The matches of the lost process are gone: from such a state all matches begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sparring.agents.distributed.processes import ProcessLostError
from sparring.agents.run.lock import RunLock, RunLockedError

if TYPE_CHECKING:
    from sparring.agents.ppo.run import PPORun

ATTEMPTS, PAUSE = 20, 0.1
"""How often and how long apart (s) the lock of a folder is tried; a process that dies closes its files one by one."""


@contextmanager
def saving_on_peer_loss(run: PPORun) -> Iterator[None]:
    """Save what can be saved where a `ProcessLostError` comes from within, and let it pass."""
    try:
        yield
    except ProcessLostError:
        lost_at = time.time()
        run.guard.take_back(run.updates_done)
        if run.processes.first:
            _save(run)
        elif _inherit(run, lost_at):
            _save_policy(run)
        raise


def _save(run: PPORun) -> None:
    _save_policy(run)
    run.save_state(episodes=False)
    run.alert(f"another process was lost; continue with: python train.py resume={run.folder.name}")


def _save_policy(run: PPORun) -> None:
    if run.plan is None or run.updates_done == 0:
        return  # nothing has been learned
    try:
        plan = replace(run.plan, update=run.updates_done - 1, phase=run.phase)
        run.save(run.folder.final, plan, interrupted=True, leads=True)
    except OSError as error:
        print(f"{run.folder.final}: cannot be written ({error.strerror})", flush=True)
        return
    print(f"the policy after {run.updates_done} updates is saved: {run.folder.final}", flush=True)


def _inherit(run: PPORun, lost_at: float) -> bool:
    """Whether this process is to save, because the one that led is dead and nobody else has done it."""
    for _ in range(ATTEMPTS):
        try:
            run.lock = RunLock(run.folder.path)
        except RunLockedError:
            time.sleep(PAUSE)
            continue
        final = run.folder.final
        return not (final.exists() and final.stat().st_mtime >= lost_at)
    return False
