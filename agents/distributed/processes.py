"""Data-parallel training in several processes on `torch.distributed`, started by `torchrun` or a compatible launcher.

In PPO, process r of W plays N / W of the matches, its shard. In GRPO, it plays every W-th batch of games and learns
from its part of every minibatch. All processes keep the same weights: one flat all-reduce sums the gradients and
statistics of each minibatch. Only process 0 assigns opponents, evaluates, writes files and prints. If a process dies,
the others fail in their next collective. A run of one process does not communicate.

Random numbers do not depend on the number of processes: each draws the numbers for all matches from the same generator
and keeps its own rows. So each match and the generator's state are the same as in a run of one process.

Within a process, two independent computations run in parallel, each on half of the cores: actor and critic, or two
halves of a batch. Results are bit-identical to sequential ones. For small networks this uses a second core better than
splitting each matrix product: it waits once per minibatch instead of once per layer.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sparring.configs.core.device import backend, choose_device
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.tensor_file import check_tensor
from sparring.configs.core.typed import ContentError, require

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that `torchrun` sets for every process."""
BAD_INPUT, TRY_AGAIN = 2, 75
"""Exit codes: after 75 (EX_TEMPFAIL) the run can be started again."""

T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")


class ProcessLostError(RuntimeError):
    """Another process of the run is lost; no further communication is possible."""


class Processes:
    """Process group of one run: this is `rank` of `size`, and `local_rank` of `local_size` on its machine.

    All processes must call the collective methods in the same order. These return the same result everywhere and raise
    `ProcessLostError` if a process is lost. With `size` 1 they return their argument.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, local_size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.first, self.alone = rank == 0, size == 1
        self.local_rank, self.local_size = local_rank, local_size

    def share(self, matches: int) -> Shard:
        """Return the shard of this process; raises `ConfigError` if `matches` is not divisible by `size`."""
        if matches % self.size:
            low, high = matches // self.size * self.size, -(-matches // self.size) * self.size
            near = f"{low} or {high}" if low else str(high)
            raise ConfigError(f"env.num_envs={matches}: must be a multiple of {self.size}, the processes; use {near}")
        count = matches // self.size
        return Shard(self.rank * count, count, matches)

    def add_up(self, tensor: Tensor) -> Tensor:
        """Sum tensors of the same shape over the processes, in place, and return the sum."""
        if not self.alone:
            with _watched():
                dist.all_reduce(tensor)
        return tensor

    def add_up_together(self, tensors: Sequence[Tensor]) -> None:
        """Sum each of `tensors` (of one dtype and device) over the processes, in place, in one all-reduce."""
        flat = self.add_up(torch.cat([tensor.flatten() for tensor in tensors]))
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def part(self, items: Sequence[T]) -> Sequence[T]:
        """Return this process's part of `items`; the parts follow each other in rank order and differ by at most 1."""
        return items[self.rank * len(items) // self.size : (self.rank + 1) * len(items) // self.size]

    def means(self, numbers: Sequence[float]) -> list[float]:
        """Return the mean of each number over the processes."""
        if self.alone:
            return list(numbers)
        return (self.add_up(torch.tensor(numbers, dtype=torch.float64)) / self.size).tolist()

    def largest(self, number: int) -> int:
        """Return the largest of the processes' numbers."""
        if self.alone:
            return number
        tensor = torch.tensor(number)
        with _watched():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def gather(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """Concatenate tensors of one shape along `dim`, in rank order."""
        if self.alone:
            return tensor
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.size)]
        with _watched():
            dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim)

    def gather_rows(self, array: np.ndarray) -> np.ndarray:
        """Concatenate arrays of one shape along the rows, in rank order."""
        return array if self.alone else self.gather(torch.from_numpy(np.ascontiguousarray(array))).numpy()

    def counted_before(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of `counts` int64 [C] over the processes before this one, and over all."""
        everyone = self.gather_rows(counts[None])
        return everyone[: self.rank].sum(0), everyone.sum(0)

    def gather_items(self, items: list[T]) -> list[T]:
        """Concatenate the processes' lists in rank order."""
        if self.alone:
            return items
        lists: list[Any] = [None] * self.size
        with _watched():
            dist.all_gather_object(lists, items)
        return [item for part in lists for item in part]

    def broadcast(self, value: T, source: int = 0) -> T:
        """Return the `value` of process `source` everywhere; the others' values are ignored."""
        if self.alone:
            return value
        box: list[Any] = [value]
        with _watched():
            dist.broadcast_object_list(box, src=source)
        return box[0]

    def run_on_rank0(self, action: Callable[[], T]) -> T:
        """Call `action` on process 0 and broadcast its result; if it raises there, the others exit silently."""
        if self.alone:
            return action()
        if not self.first:
            answer: tuple[T, ...] = self.broadcast(())
            if not answer:
                raise SystemExit(BAD_INPUT)
            return answer[0]
        try:
            result = action()
        except BaseException:
            self.broadcast(())
            raise
        return self.broadcast((result,))[0]

    @contextmanager
    def one_before_the_others(self) -> Iterator[None]:
        """Run the body first in one process per machine, e.g. to fill a shared cache, then in the others."""
        if self.local_rank > 0:
            self.largest(0)  # waits for all processes
        try:
            yield
        finally:
            if self.local_rank == 0:
                self.largest(0)


ALONE = Processes()


@contextmanager
def joined(matches: int, device: str, patience_seconds: float) -> Iterator[Processes]:
    """Connect the processes of the run from the environment; without `WORLD_SIZE`, this process alone.

    They share `matches` (0 for none), use a device of kind `device`, and wait `patience_seconds` for
    each other. All leave at the same time. Raises `ConfigError` if the environment is incomplete or a process does not
    connect. A `ProcessLostError` in the body becomes a message and `SystemExit` with code 75.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    processes = _join(matches, device, patience_seconds)
    try:
        yield processes
        # Leave together: a process that exits while others are still connected can abort in gloo's threads.
        processes.largest(0)
    except ProcessLostError as error:
        print(f"process {processes.rank} of {processes.size}: {error}; the run ends", flush=True)
        raise SystemExit(TRY_AGAIN) from error
    finally:
        dist.destroy_process_group()


def _join(matches: int, device: str, patience_seconds: float) -> Processes:
    missing = [name for name in NAMES if name not in os.environ]
    if missing:
        raise ConfigError(f"WORLD_SIZE={os.environ['WORLD_SIZE']}: {missing[0]} is not set; start with torchrun")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    processes = Processes(rank, size, local_rank, local_size)
    processes.share(matches)
    # Imported before the group exists: torch imports it in the first optimizer step, and the default arguments of its
    # functions then keep the group and gloo's threads after `destroy_process_group`. Such a thread aborts the process
    # when it asks for the GIL of an interpreter that is ending.
    from torch.distributed.nn import functional  # noqa: F401

    patience = timedelta(seconds=patience_seconds)
    try:
        dist.init_process_group(backend(choose_device(device, local_rank), local_size), timeout=patience)
        processes.broadcast(None)  # connects all processes now, not during the first update
    except (RuntimeError, ProcessLostError) as error:
        raise ConfigError(f"process {rank} of {size}: the others were not reached: {_first_line(error)}") from error
    return processes


@contextmanager
def _watched() -> Iterator[None]:
    """Convert any `RuntimeError` of a collective to `ProcessLostError`."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(f"another process of the run is gone ({_first_line(error)})") from error


@contextmanager
def watching_exchanges() -> Iterator[None]:
    """Convert the error of an exchange that torch makes itself, for a divided model, to `ProcessLostError`."""
    try:
        yield
    except RuntimeError as error:
        exchange = isinstance(error, dist.DistError) or "gloo" in str(error)
        if not exchange or isinstance(error, ProcessLostError):
            raise
        raise ProcessLostError(f"another process of the run is gone ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    """Return the first sentence of an error, without the C++ source location that torch puts before it."""
    line = (str(error) or type(error).__name__).splitlines()[0]
    return re.sub(r"^\[\S*\]\s*", "", line).partition(". ")[0].strip()[:200]


@dataclass(frozen=True)
class Shard:
    """Matches `first` to `first + count` (exclusive) of `total`."""

    first: int
    count: int
    total: int

    @property
    def whole(self) -> bool:
        """True if the shard is all matches."""
        return self.count == self.total

    @property
    def rows(self) -> slice:
        """Slice of these matches in an array with one row per match."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True)
class ShardedGenerator:
    """Generator that draws for all rows `shape` and returns those at `index` (into the flattened rows).

    It replaces a `torch.Generator` in `draw`.
    """

    generator: torch.Generator
    shape: tuple[int, ...]
    index: Tensor

    @classmethod
    def of(cls, shard: Shard, generator: torch.Generator) -> ShardedGenerator | torch.Generator:
        """Make a generator for the matches of `shard`, one row each; if these are all matches, return `generator`."""
        if shard.whole:
            return generator
        index = torch.arange(shard.first, shard.first + shard.count, device=generator.device)
        return cls(generator, (shard.total,), index)


def draw(
    kind: Callable[..., Tensor],
    shape: torch.Size,
    generator: torch.Generator | ShardedGenerator | None,
    device: torch.device,
) -> Tensor:
    """Draw `kind` (`torch.randn` or `torch.rand`) of that `shape`; a `ShardedGenerator` returns its rows only."""
    if not isinstance(generator, ShardedGenerator):
        return kind(shape, generator=generator, device=device)
    rows, index = len(generator.shape), generator.index
    width = shape[index.dim() :]
    joint = kind((*generator.shape, *width), generator=generator.generator, device=device)
    return joint.flatten(0, rows - 1).index_select(0, index.flatten()).view(shape)


def derive_seeds(seed: int, uses: Sequence[str]) -> dict[str, int]:
    """Derive a seed in [0, 2^31) for each use of randomness of a run."""
    words = np.random.SeedSequence(seed).generate_state(len(uses))
    return dict(zip(uses, (words >> 1).tolist(), strict=True))


MERSENNE, PHILOX = 5056, 16
"""Bytes of a state on a CPU and on a GPU."""
WORDS = 624
"""Of the Mersenne Twister."""


def restore_generator(generator: torch.Generator, state: Any, name: str) -> None:
    """Set `generator` to a `get_state()` of its own kind of device, or seed it with the hash of one of another kind.

    The states of a CPU generator (Mersenne Twister) and a GPU generator (Philox) are incompatible; with the hash, equal
    states still continue identically. `name` is the state's name in the `ContentError` for other data.
    """
    size = state.numel() if isinstance(state, torch.Tensor) and state.numel() in (MERSENNE, PHILOX) else MERSENNE
    state = check_tensor(state, torch.empty(size, dtype=torch.uint8), name).cpu()
    data = state.numpy().tobytes()
    if size == MERSENNE:
        _, remaining, _, position = struct.unpack_from("<QiiQ", data)
        # torch reads word number `position`, `remaining` - 1 times before it makes new words, and checks each itself.
        require(remaining == 1 or remaining + position <= WORDS + 1, f"{name}: is not a state of a generator")
    if size != len(generator.get_state()):
        generator.manual_seed(int.from_bytes(hashlib.sha256(data).digest()[:8], "little") >> 1)
        return
    try:
        generator.set_state(state)
    except RuntimeError as error:
        raise ContentError(f"{name}: is not a state of a generator") from error


class ParallelHalves:
    """Runner of two functions: `both(f, g)` calls f here and g in a second thread, or after f if not `parallel`.

    torch releases the GIL inside its operations, so a plain thread suffices. Autocast and gradient mode are per thread,
    so g must enter its own contexts. Its operations use as many threads as the thread that created this object.
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
