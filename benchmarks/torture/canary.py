"""Code that a stranger's file would run if it could: a module, a pickle or a program that makes the file `fired`."""

from __future__ import annotations

import io
import os
import pickle
import shutil
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
SHORT = ("max_updates=1",)


class Call:
    """Pickled, the call of `os.system`."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


class Canary:
    """A folder with the module, a program and a pickle; each of them makes the file `mark`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark, self.program = folder, folder / "fired", folder / "engine"

    def build(self) -> Canary:
        """Write them; returns itself."""
        (self.folder / f"{NAME}.py").write_text(MODULE.format(mark=str(self.mark)))
        self.program.write_text(f"#!/bin/sh\ntouch {self.mark}\n")
        self.program.chmod(0o755)
        return self

    def pickle(self) -> bytes:
        """Return a pickle that fires."""
        return pickle.dumps({"weights": Call(f"touch {self.mark}")})

    def saved(self) -> bytes:
        """Return a file of torch that fires when it is unpickled."""
        buffer = io.BytesIO()
        torch.save({"weights": {"w": torch.zeros(2)}, "trap": Call(f"touch {self.mark}")}, buffer)
        return buffer.getvalue()

    def fired(self) -> bool:
        """Return whether code ran, and make it ready again."""
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
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
