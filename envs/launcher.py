"""Launches of kernels over a batch, shared by all simulators.

On a CPU the batch is split into one range per thread: a launch releases the GIL, so plain threads scale. On a GPU there
is one launch in torch's current stream, which first waits for Warp's own stream (allocations, copies). The last
argument of every kernel is the number of its first row.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from sparring.configs.core.device import usable_cores


class Copyable:
    """Base of objects that refer to memory of their process: launches, structs of Warp, views of tensors.

    A copy, deep or pickled, has the same state in memory of its own: `_references` names the attributes that are left
    out, and `_bind` makes them from the others.
    """

    _references: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy."""
        return {name: value for name, value in self.__dict__.items() if name not in self._references}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a `__getstate__`."""
        self.__dict__.update(state)
        self._bind()

    def _bind(self) -> None:
        raise NotImplementedError


class Launcher:
    """Launcher of kernels over `size` rows on `device`; `threads` applies to a CPU, 0 uses all cores of the process."""

    def __init__(self, device: torch.device, size: int, threads: int) -> None:
        _start_warp()
        self.device, self.size = device, size
        self.wp_device = wp.device_from_torch(device)
        self.threads = min(threads or usable_cores(), size) if device.type == "cpu" else 1
        self._workers = ThreadPoolExecutor(self.threads - 1) if self.threads > 1 else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the arguments: a copy has worker threads of its own."""
        return Launcher, (self.device, self.size, self.threads)

    def load(self, module: ModuleType) -> None:
        """Compile a module's kernels now, before worker threads could compile them a second time."""
        wp.load_module(module, device=self.wp_device)

    def run(self, kernel: Any, inputs: list[Any]) -> None:
        """Launch a kernel over all rows."""
        self.launch(self.record(kernel, inputs))

    def record(self, kernel: Any, inputs: list[Any], *, rows: int = 0) -> list[Any]:
        """Prepare launches over all rows, or the first `rows`, a range per thread, for any number of `launch`es."""
        rows = rows or self.size
        bounds = np.linspace(0, rows, min(self.threads, rows) + 1).astype(int).tolist()
        return [
            wp.launch(kernel, dim=end - first, inputs=[*inputs, first], device=self.wp_device, record_cmd=True)
            for first, end in pairwise(bounds)
        ]

    def launch(self, commands: list[Any]) -> None:
        """Run recorded launches, on a GPU in torch's current stream; on a CPU this thread runs the first range."""
        if self._workers is None:
            with self.stream():
                commands[0].launch()
            return
        others = [self._workers.submit(command.launch) for command in commands[1:]]
        commands[0].launch()
        for other in others:
            other.result()

    def stream(self) -> AbstractContextManager[Any]:
        """Return `stream_of` this device."""
        return stream_of(self.device)

    def close(self) -> None:
        """Stop the worker threads."""
        if self._workers is not None:
            self._workers.shutdown()


def stream_of(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which Warp uses torch's current stream; a null context on a CPU.

    Launches, copies and fills by Warp all need it: without it they use Warp's own stream, which is synchronized with
    torch's default stream only.
    """
    if device.type != "cuda":
        return nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device)))


@cache
def _start_warp() -> None:
    """Initialize Warp without its banner and, if torch finds no GPU, without the warning about that."""
    wp.config.log_level = wp.LOG_ERROR
    if torch.cuda.is_available():
        wp.init()
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)  # The warning comes from native code.
    try:
        os.dup2(nowhere, 2)
        wp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
