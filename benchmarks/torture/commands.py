"""Commands of the product in processes that may be killed, limited and read to their last line.

Each is what the console script calls (`sparring train` is `sparring.train.main`). Its process is forked from one that
has loaded torch, Warp and the language models: hundreds of them then take minutes. Output goes to a file and survives
the process.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from sparring.eval.analysis.sweeps import file as sweep_file

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600.0
"""Longest time of a command, far beyond what any needs on a machine with ten times its load."""
MEMORY = 3 << 30
"""Bytes that a command may take beyond those it starts with."""
BAD_INPUT, DAMAGED = 2, 4
"""Exit codes: for bad input; of `eval/runs.py` for a run with damaged files, whose report is printed all the same."""
WARM = (
    *("sparring.train", "sparring.eval.run", "sparring.eval.runs", "sparring.envs.dogfight.evaluation.command"),
    *("sparring.agents.ppo.trainer", "sparring.envs.dogfight.training.task", "sparring.envs.diplomacy.training.task"),
    *("sparring.agents.trainers", "sparring.agents.language.grpo.trainer", "sparring.agents.language.cloning.trainer"),
    *("transformers.models.llama.modeling_llama", "peft", "tensorboard.summary.writer.event_file_writer", "pandas"),
)
"""Modules loaded once; those that are not installed are left out."""


@dataclass(frozen=True)
class Ended:
    """A command that ended: exit code (negative for a signal, None after a timeout), all its output, and its words."""

    words: tuple[str, ...]
    code: int | None
    output: str

    @property
    def last(self) -> str:
        """The last line that is not empty."""
        return next((line for line in reversed(self.output.splitlines()) if line.strip()), "")

    @property
    def crashed(self) -> str:
        """Reason why this is a fault for any input (traceback, signal, timeout, terminal escape), or empty."""
        if self.code is None:
            return "took too long"
        if "Traceback (most recent call last)" in self.output:
            return f"a traceback that ends in {self.last[:160]!r}"
        if self.code < 0:
            return f"ended by signal {-self.code}"
        raw = next((char for char in self.output if not char.isprintable() and char not in "\n\r\t"), "")
        return f"the output holds {raw!r}, which a terminal may obey" if raw else ""

    def refusal(self, *names: str) -> str:
        """Return the line with which the input was refused; empty if it was not, or if it names none of `names`.

        It must be the last line, and the only one that begins with the command's name.
        """
        start = f"{self.words[0]}: "
        lines = [line for line in self.output.splitlines() if line.startswith(start)]
        right = self.code == BAD_INPUT and lines == [self.last] and self.last.isprintable() and not self.crashed
        return self.last if right and (not names or any(name in self.last for name in names)) else ""

    def __str__(self) -> str:
        return f"{shlex.join(self.words)[:300]}: exit code {self.code}: {self.last[:300]}"


class Running:
    """A command that runs, with its output in the file `log`."""

    def __init__(self, words: Sequence[str], log: Path, place: Path | None = None) -> None:
        """Start it, in the folder `place`, where modules and sweep files are found."""
        self.words, self.log = tuple(words), log
        log.write_bytes(b"")
        self.process: ForkServerProcess = _context().Process(target=_live, args=(self.words, str(log), place))
        self.process.start()

    def alive(self) -> bool:
        return self.process.is_alive()

    def kill(self) -> bool:
        """Send SIGKILL; return whether that is what ended it."""
        self.process.kill()
        self.process.join()
        return self.process.exitcode == -signal.SIGKILL

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for the end, and kill it after `seconds`."""
        self.process.join(seconds)
        late = self.alive() and self.kill()
        return Ended(self.words, None if late else self.process.exitcode, text(self.log))


def run(words: Sequence[str], log: Path, place: Path | None = None) -> Ended:
    """Run a command to its end, as in `run(["train.py", "resume=first"], log)`."""
    return Running(words, log, place).wait()


def kept(words: Sequence[str], log: Path) -> Ended:
    """Run a command that must succeed. Raises `RuntimeError` if it does not."""
    ended = Running(words, log).wait(10 * SECONDS)
    if ended.code != 0:
        raise RuntimeError(f"without any damage, {ended}")
    return ended


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(WARM))
    offline = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "WARP_QUIET": "1"}
    with patch.dict(os.environ, offline):
        forkserver.ensure_running()
    return context


def _live(words: tuple[str, ...], log: str, place: Path | None) -> None:
    """Be the command `words`: output to `log`, a limit of memory, then the entry point of its script."""
    for output in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), output)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as the process
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    if place:
        os.chdir(place)
        sys.path.insert(0, str(place))
        sweep_file.FOLDER = place
    sys.argv = list(words)
    main = importlib.import_module(f"sparring.{words[0].removesuffix('.py').replace('/', '.')}").main
    sys.exit(main(list(words[1:])))


def text(path: Path) -> str:
    """Return the text of a file that may be damaged; empty if the file does not exist yet."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
