"""Processes to be killed or broken, forked from one that has already loaded torch, Warp and the trainer.

So a hundred of them cost seconds, and no test process is ever forked, whatever threads it has.
"""

import multiprocessing
import os
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WARM = ("tests.agents.faults.warm", "tests.agents.language.grpo.warm_models")
"""Imported before the first fork; what cannot be imported here is left out."""


@cache
def context():
    """Return the context that forks from the preloaded process, which it starts."""
    loaded = multiprocessing.get_context("forkserver")
    loaded.set_forkserver_preload(["__main__", *WARM])
    with _environment(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1"):
        forkserver.ensure_running()
    return loaded


@contextmanager
def _environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def start(body, *arguments, out=os.devnull, **options):
    """Start a process that calls `body`, a module-level function, with all output in the file `out`."""
    process = context().Process(target=_live, args=(str(out), body, arguments, options), daemon=True)
    process.start()
    return process


def finish(body, *arguments, out=os.devnull, **options):
    """Return the exit code of a process that calls `body`; negative for a signal."""
    process = start(body, *arguments, out=out, **options)
    process.join()
    return process.exitcode


def listen(body, *arguments, **options):
    """Return exit code and output of a process that calls `body`; the output does not go through the disk."""
    process, receiver = start_telling(_speak, body, arguments, options)
    with os.fdopen(os.dup(receiver.fileno()), encoding="utf-8") as words:
        said = words.read()
    process.join()
    return process.exitcode, said


def start_telling(body, *arguments, out=os.devnull, **options):
    """Like `start`, for a `body` that also takes one end of a pipe; the other end is returned with the process."""
    receiver, sender = context().Pipe(duplex=False)
    process = start(body, *arguments, sender, out=out, **options)
    sender.close()  # from now on the victim's alone, so that its death ends the pipe
    return process, receiver


def told(receiver):
    """Wait for the victim's next message; return None when it is dead and all messages are read."""
    try:
        return receiver.recv()
    except EOFError:
        return None


def _live(out, body, arguments, options):
    target = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(target, 1)
    os.dup2(target, 2)
    body(*arguments, **options)


def _speak(body, arguments, options, sender):
    os.dup2(sender.fileno(), 1)
    os.dup2(sender.fileno(), 2)
    sender.close()
    body(*arguments, **options)
