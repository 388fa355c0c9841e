"""Two independent computations at once, each on its half of the cores: an actor and a critic, the halves of a batch.

Nothing is exchanged, so the result is the same to the last bit as one after the other. That is a better use of a second
core than sharing each matrix product of a small network: there is one wait per minibatch instead of one per layer.
torch releases the interpreter's lock inside its operations, so a plain thread does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")


class SideBySide:
    """`both(f, g)` calls f here and g in a thread of its own, or after f where `parallel` is false.

    torch's autocast, gradient mode and thread count belong to a thread: g enters its own contexts, and its operations
    use as many threads as the maker's.
    """

    def __init__(self, *, parallel: bool) -> None:
        threads = torch.get_num_threads()
        set_threads = lambda: torch.set_num_threads(threads)  # noqa: E731
        self._pool = ThreadPoolExecutor(1, "second-half", initializer=set_threads) if parallel else None

    def both(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """Results of both; an error of either is raised once neither is running any more."""
        if self._pool is None:
            return first(), second()
        later = self._pool.submit(second)
        try:
            result = first()
        finally:
            later.exception()  # waits
        return result, later.result()

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown()
