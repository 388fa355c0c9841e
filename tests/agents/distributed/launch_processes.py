"""A run in several processes on this machine, for the tests: as torchrun starts them, without its supervisor."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from sparring.configs.serialization import to_plain

ROOT = Path(__file__).resolve().parents[3]
CODE = (
    "import sys, json; sys.path.insert(0, sys.argv[1])\n"
    "from sparring.agents.trainers import train\nfrom sparring.configs.serialization import from_plain\n"
    "train(from_plain(json.loads(sys.argv[2])))"
)


def start(config, size):
    """Begin training as `config` says in `size` processes; their stdout and stderr are pipes."""
    return start_code(CODE, [str(ROOT), json.dumps(to_plain(config))], size)


def start_code(code, arguments, size):
    """Begin Python source in `size` processes that find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | shared | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(size)
    ]


def end(processes, timeout=600):
    """Wait for all; returns exit codes and what was written, as (code, stdout, stderr) each."""
    try:
        written = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *streams) for process, streams in zip(processes, written, strict=True)]
