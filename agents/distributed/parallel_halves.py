"""Two independent computations in parallel, each on half of the cores: actor and critic, or the halves of a batch.

Nothing is exchanged, so the results equal sequential ones bit for bit. For small networks this uses a second core
better than splitting each matrix product: it waits once per minibatch instead of once per layer. torch releases the
GIL inside its operations, so a plain thread suffices.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")


class ParallelHalves:
    """Runner of two functions: `both(f, g)` calls f here and g in a second thread, or after f if not `parallel`.

    torch's autocast and gradient mode are per thread, so g must enter its own contexts. Its operations use as many
    threads as those of the thread that created this object.
    """

    def __init__(self, *, parallel: bool) -> None:
        threads = torch.get_num_threads()
        set_threads = lambda: torch.set_num_threads(threads)  # noqa: E731
        self._pool = ThreadPoolExecutor(1, "second-half", initializer=set_threads) if parallel else None

    def both(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """Return the results of both; an error of either is raised once both have ended."""
        if self._pool is None:
            return first(), second()
        later = self._pool.submit(second)
        try:
            result = first()
        finally:
            later.exception()  # waits
        return result, later.result()

    def close(self) -> None:
        """Stop the thread."""
        if self._pool is not None:
            self._pool.shutdown()
