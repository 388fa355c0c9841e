"""Run training in several local processes connected like torchrun's, forked from a preloaded process."""

import os
import socket
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from sparring.agents.trainers import train
from tests.agents.faults import victims


class Member(NamedTuple):
    """One process of the run, and its output file."""

    process: BaseProcess
    said: Path


def start(config, size, folder, body=None, arguments=()):
    """Begin training as `config` says in `size` processes; what they write goes to files in `folder`.

    Or call `body`, a module's function, with the environment of torchrun and `arguments`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    files = [folder / f"process_{rank}.txt" for rank in range(size)]
    return [
        Member(victims.start(body or _train, shared | {"RANK": str(rank)}, *(arguments or (config,)), out=file), file)
        for rank, file in enumerate(files)
    ]


def _train(environment, config):
    os.environ.update(environment)
    train(config)


def end(members, timeout=600):
    """Wait for all processes; return the exit code and output of each."""
    for process, _ in members:
        process.join(timeout)
        process.kill()
        process.join()
    return [(process.exitcode, said.read_text()) for process, said in members]
