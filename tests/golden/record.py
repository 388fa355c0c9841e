"""Record one checkout: run every part's commands in it and keep what they leave behind.

A recording is a folder: `recording.json` (what was recorded, where, by which versions, and how each part went) and a
folder for every part with run folders, evaluations and the commands' output (`*.log`). Two parts run at a time.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tests.golden.checkout import Checkout
from tests.golden.parts import SIMULATE, TRAIN, Command, Part
from tests.golden.renames import Renames

FILE = "recording.json"
LONGEST = 900
"""Seconds after which a command counts as hung."""


class PartFailed(RuntimeError):  # noqa: N818 - what happened, not a mistake of the recorder's
    """A command that did not end with exit code 0; the message is one line."""


@dataclass(frozen=True)
class Recorder:
    """Runs parts of one checkout into the folder `out`."""

    checkout: Checkout
    out: Path
    renames: Renames

    def record(self, parts: Sequence[Part], source: str, jobs: int) -> None:
        """Run `parts`, `jobs` at a time, and write `recording.json`; `source` says what the checkout is."""
        self.out.mkdir(parents=True)
        self.checkout.check()
        with ThreadPoolExecutor(jobs) as pool:
            results = dict(zip((part.name for part in parts), pool.map(self._play, parts), strict=True))
        about = {
            "source": source,
            "places": {str(self.out): "<out>", str(self.checkout.folder): "<checkout>"},
            "machine": machine(),
            "parts": results,
        }
        (self.out / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    def _play(self, part: Part) -> dict[str, Any]:
        """Run one part's commands, up to the first that fails."""
        folder, start, failed = self.out / part.name, time.monotonic(), ""
        folder.mkdir()
        try:
            for number, command in enumerate(part.commands, 1):
                self._run(self._line(command, folder), folder / f"{number}.log")
        except PartFailed as error:
            failed = str(error)
        seconds = time.monotonic() - start
        print(f"  {part.name:<22} {seconds:5.0f} s{'  FAILED' if failed else ''}", flush=True)
        return {"seconds": round(seconds, 1), "failed": failed}

    def _line(self, command: Command, folder: Path) -> list[str]:
        """Spell a command out for this checkout."""
        words = [word.replace("{out}", str(folder)) for word in command.arguments]
        if command.script == SIMULATE:
            return [sys.executable, str(Path(__file__).with_name(SIMULATE)), *words, self.checkout.games]
        if command.script == TRAIN:
            spelled = [self.renames.option(word, lambda: self.checkout.config_keys) for word in words]
            words = [word for word in spelled if word is not None]
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(command.processes)]
        return [sys.executable, *(several if command.processes > 1 else []), command.script, *words]

    def _run(self, line: list[str], log: Path) -> None:
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                line,
                cwd=self.checkout.folder,
                env=self.checkout.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that workers end with it
            )
            try:
                code = process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                raise PartFailed(f"{_readable(line)}: took longer than {LONGEST} s; see {log}") from None
            finally:
                _end(process)
        if code:
            last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
            raise PartFailed(f"{_readable(line)}: exit code {code}: {last}")


def machine() -> dict[str, Any]:
    """What results depend on besides the code."""
    packages = ("torch", "warp-lang", "numpy", "gymnasium")
    return {name: version(name) for name in packages} | {
        "python": platform.python_version(),
        "processor": platform.machine(),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a command's processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _readable(line: Sequence[str]) -> str:
    """Return the beginning of a command line, enough to recognize it."""
    text = " ".join(["python", *line[1:]])
    return text if len(text) <= 100 else f"{text[:97]}..."
