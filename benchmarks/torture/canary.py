"""What a stranger's file would set off if it could: code that makes a file, and a secret whose reading is seen.

The canary is a module, a pickle or a program that makes the file `fired`. The secret has never been read, by the time
of its last access, until something reads it.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.torture.part import Place
from benchmarks.torture.runs import LOCAL

NAME = "canary_module"
MODULE = """
import pathlib
import numpy as np
pathlib.Path({mark!r}).write_text("fired")
class Bot:
    def act(self, obs):
        return np.zeros((len(obs), 3), dtype=np.float32)
class Orders:
    def act(self, view):
        return []
def reward(step):
    return step.builtin
"""
SECRET = 4 * 59 * 3
"""Bytes of the secret: the weights of the plainest agent."""
SHORT = ("max_updates=1",)


class Call:
    """Pickled, the call of `os.system`."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


class Canary:
    """A folder with the module, a program and a pickle, of which each makes the file `mark`, and the secret."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, folder / "fired"
        self.program, self.secret = folder / "engine", folder / "secret.bin"

    def build(self) -> Canary:
        """Write them; returns itself."""
        (self.folder / f"{NAME}.py").write_text(MODULE.format(mark=str(self.mark)))
        self.program.write_text(f"#!/bin/sh\ntouch {self.mark}\n")
        self.program.chmod(0o755)
        self.secret.write_bytes(bytes(SECRET))
        self._forget()
        return self

    def _forget(self) -> None:
        """Set the secret's last access to 1970: a file system that saves itself later accesses notes this one."""
        os.utime(self.secret, ns=(0, time.time_ns()))

    def pickle(self) -> bytes:
        """Return a pickle that fires."""
        return pickle.dumps({"weights": Call(f"touch {self.mark}")})

    def saved(self) -> bytes:
        """Return a file of torch that fires when it is unpickled."""
        buffer = io.BytesIO()
        torch.save({"weights": {"w": torch.zeros(2)}, "trap": Call(f"touch {self.mark}")}, buffer)
        return buffer.getvalue()

    def fired(self) -> bool:
        """Return whether code ran or the secret was read, and make it ready again."""
        there = self.mark.exists() or self.secret.stat().st_atime_ns > 0
        self.mark.unlink(missing_ok=True)
        self._forget()
        return there

    def train(self, *words: str) -> list[str]:
        """Return the command of a run that stays in the folder."""
        return ["train.py", *words, *LOCAL, f"checkpoint_dir={self.folder}"]

    def run_file(self, text: str, *words: str) -> list[str]:
        """Return the command that trains by a run file of this text."""
        (self.folder / "mine.yaml").write_text(f"# @package _global_\n{text}")
        return self.train(f"+run={self.folder / 'mine.yaml'}", "name=theirs", *words)

    def sweep_file(self, text: str) -> list[str]:
        """Return the command that trains a sweep of this text."""
        (self.folder / "sweep.yaml").write_text(text)
        return self.train("+sweep=sweep")


Words = Callable[[Canary], Sequence[str]]
Own = Callable[[Canary], Sequence[str] | None]
"""The user's own command, or None where the call itself opened the file without care."""


def copied(place: Place, canary: Canary) -> Path:
    """Return the folder of an unfinished run that came from elsewhere."""
    return Path(shutil.copytree(place.cut("self_play"), canary.folder / "theirs" / "self_play"))
