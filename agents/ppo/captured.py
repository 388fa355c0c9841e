"""Operations on a GPU as CUDA graphs: many small kernels are launched at once.

The networks here are small, so on a GPU kernel launches dominate the time of an update. A minibatch's gradient takes
some 200 kernels of a few microseconds each, and launching one from Python takes longer than running it. A graph records
them once and then runs them without Python. It reads and writes the same memory each time. Inputs are copied into its
own tensors; weights, gradients and stored samples stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

WARM_UP = 3
"""Calls before the recording, in which libraries allocate what must not be allocated in it."""

Result = TypeVar("Result", Tensor, tuple[Tensor, ...])


class Captured(Generic[Result]):
    """`function` of CUDA tensors, recorded once; a call copies its inputs and runs it.

    The function returns a tensor or a tuple of them, which the next call overwrites. It must not read a tensor's value
    on the host. `generators` are those it draws from: its draws are those that it would make unrecorded.
    """

    def __init__(
        self, function: Callable[..., Result], *inputs: Tensor, generators: Sequence[torch.Generator] = ()
    ) -> None:
        self._inputs: list[Tensor] = [tensor.clone() for tensor in inputs]
        with uncached_casts():
            self._warm_up(function, generators)
            self._graph = torch.cuda.CUDAGraph()
            for generator in generators:
                self._graph.register_generator_state(generator)
            with torch.cuda.graph(self._graph):
                self._outputs: Result = function(*self._inputs)

    def __call__(self, *inputs: Tensor) -> Result:
        """Run it on inputs of the same shapes."""
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return self._outputs

    def _warm_up(self, function: Callable[..., Result], generators: Sequence[torch.Generator]) -> None:
        """Call it a few times aside, and draw nothing from the generators by that."""
        states = [generator.get_state() for generator in generators]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                function(*self._inputs)
        torch.cuda.current_stream().wait_stream(aside)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def uncached_casts() -> Iterator[None]:
    """Have autocast keep no low-precision copies of weights: a graph would keep reading those of its recording."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
