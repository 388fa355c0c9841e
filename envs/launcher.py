"""Launches of kernels over a batch, shared by all simulators, and what their batches of matches have in common.

On a CPU the batch is split into one range per thread: a launch releases the GIL, so plain threads scale. On a GPU there
is one launch in torch's current stream, which first waits for Warp's own stream (allocations, copies). The last
argument of every kernel is the number of its first row.

Kernels check nothing: a bot id out of range would play another bot, a wide seed would lose its upper bits. The checks,
each raising a one-line `ConfigError`, therefore happen once, when a value is set, and none within a step.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import cache, partial
from itertools import pairwise
from numbers import Integral, Real
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from sparring.configs.core.allowed import complaint, inside
from sparring.configs.core.device import in_daemon_thread, usable_cores
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.batched import ACTIONS

COUNTS = {
    "num_envs": "[1, 10000000]",
    "max_ticks": "[1, 10000000]",
    "threads": "[0, 4096]",
    "trace": "[0, 10000000]",
    "seed": "[0, 2147483647]",
}


class Copyable(ABC):
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

    @abstractmethod
    def _bind(self) -> None: ...


class Launcher:
    """Launcher of kernels over `size` rows on `device`; `threads` applies to a CPU, 0 uses all cores of the process."""

    def __init__(self, device: torch.device, size: int, threads: int) -> None:
        with _keeping_kernels():
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
        with _keeping_kernels():
            # A compiler takes minutes, in which Python would not hear Ctrl-C.
            in_daemon_thread(partial(wp.load_module, module, device=self.wp_device))

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
            with stream_of(self.device):
                commands[0].launch()
            return
        futures = [self._workers.submit(command.launch) for command in commands[1:]]
        commands[0].launch()
        for other in futures:
            other.result()

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


@contextmanager
def _keeping_kernels() -> Iterator[None]:
    """Raise `InputError` where Warp's folder of compiled kernels cannot be made or written to."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{error.filename or wp.config.kernel_cache_dir}: {error.strerror}; compiled kernels are kept there: free "
            "some space, or set WARP_CACHE_PATH to a folder that can be written to"
        ) from error


@cache
def _start_warp() -> None:
    """Initialize Warp without its banner and, if torch finds no GPU, without the warning about that."""
    wp.config.log_level = wp.LOG_ERROR
    if torch.cuda.is_available():
        wp.init()
        return
    sys.stderr.flush()
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)  # The warning comes from native code.
    try:
        os.dup2(null, 2)
        wp.init()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


class WarpMatches(Copyable):
    """N matches of `seats` seats in Warp arrays, which share memory with torch tensors; most of a `BatchedGame`.

    The arrays `_kept` of `_world`, of the types `_structs`, are the state, with the tensors `_carried`. Results are
    the batch's own tensors, overwritten by the next step.
    """

    _structs: ClassVar[dict[str, Any]]
    _values: ClassVar[dict[str, Any]]
    """Structs of numbers by attribute, which a copy gets."""
    _arrays: dict[str, tuple[str, ...]]
    """Arrays that belong to Warp, by the struct that refers to them; all others are tensors."""
    _references: ClassVar[tuple[str, ...]] = ("_wp_actions", "_wp_restart", "_recorded", "_results")
    _names: ClassVar[Sequence[str]]
    """Scripted players by id."""
    stat_names: tuple[str, ...] = ("length", "hp")
    num_envs: int
    seats: int
    action_repeat: int
    device: torch.device
    obs: torch.Tensor
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    outcome: torch.Tensor
    length: torch.Tensor
    final_hp: torch.Tensor
    invalid_actions: torch.Tensor
    actions: torch.Tensor
    bots: torch.Tensor
    _launcher: Launcher
    _settings: Any
    _world: Any
    _kept: tuple[str, ...]
    _carried: tuple[str, ...]
    _restart: torch.Tensor
    _recorded: list[Any]
    """The step's launches, or on a GPU its graph."""

    @property
    def longest_episode(self) -> int:
        """Steps until the time limit."""
        return -(-self._settings.max_ticks // self.action_repeat)

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Restart every match and return `obs` [N, S, D]. A seed in [0, 2^31) restarts the sequence of draws."""
        if seed is not None:
            check_counts(seed=seed)
            self._settings.seed = seed
            self._recorded = []  # The seed is part of the recorded step.
            with stream_of(self.device):
                self._world.clock.zero_()  # on which draws depend
        self.invalid_actions.zero_()
        self._restart.fill_(True)
        self._begin_marked()
        return self.obs

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play one step; `actions` float [N, S, A], ignored where a scripted player acts.

        A caller that fills the batch's own tensor `actions` and passes that saves a copy.
        Returns (reward, terminated, truncated, outcome), the batch's own tensors; observations are in `obs`.
        """
        if actions is not self.actions:
            if actions.shape != self.actions.shape:
                shape = tuple(self.actions.shape)
                raise ValueError(f"actions have shape {tuple(actions.shape)}, expected {shape} (match, seat, action)")
            self.actions.copy_(actions)
        self._play()
        return self.reward, self.terminated, self.truncated, self.outcome

    def seat_stats(self, rows: torch.Tensor) -> torch.Tensor:
        """Ticks and the seat's hp, float64 [R, 2], of the matches that just ended, for seats `rows` [R] among N S."""
        values = (self.length.index_select(0, rows // self.seats), self.final_hp.flatten().index_select(0, rows))
        return torch.stack([value.double() for value in values], dim=1)

    def assign(self, bots: torch.Tensor | np.ndarray | None, restart: torch.Tensor | None = None) -> None:
        """Set the players (`bots` int [N, S], ids or ACTIONS) and restart the matches marked in `restart` bool [N].

        Raises `ConfigError` for ids out of range; the check waits for ids on a GPU.
        """
        if bots is not None:
            values = torch.as_tensor(bots)
            if not bool(((values >= ACTIONS) & (values < len(self._names)) & (values == values.int())).all()):
                names = ", ".join(f"{index} {name}" for index, name in enumerate(self._names))
                raise ConfigError(f"bots={values.unique().tolist()}: choose from {ACTIONS} actions, {names}")
            self.bots.copy_(values.expand_as(self.bots))
        if restart is not None:
            self._restart.copy_(restart)
            self._begin_marked()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return host copies of the state, as structured arrays of the types in the kernels' `state.py`."""
        with stream_of(self.device):
            return {name: np.array(getattr(self._world, name).numpy()) for name in self._kept}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that determines further play, as tensors and numbers, for `load_state_dict`."""
        arrays = {name: torch.from_numpy(rows.reshape(-1).view(np.uint8)) for name, rows in self.snapshot().items()}
        return {"arrays": arrays, "seed": self._settings.seed} | {name: getattr(self, name) for name in self._carried}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict` of a batch with the same options and number of matches.

        Raises `ContentError`, before any change, for one of another batch.
        """
        arrays = check_tensors(state["arrays"], self.state_dict()["arrays"], "arrays")
        for name in self._carried:
            check_tensor(state[name], getattr(self, name).cpu(), name)
        self._settings.seed = state["seed"]
        self._recorded = []
        for name, rows in arrays.items():
            structs = rows.numpy().view(self._structs[name].numpy_dtype())
            self._set(name, structs.reshape(getattr(self._world, name).shape))
        for name in self._carried:
            getattr(self, name).copy_(state[name])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy: beside `state_dict`, the options and the results of the last step."""
        values = {
            part: {name: getattr(getattr(self, part), name) for name in kind.vars}
            for part, kind in self._values.items()
        }
        with stream_of(self.device):
            arrays = {
                part: {name: np.array(getattr(getattr(self, part), name).numpy()) for name in names}
                for part, names in self._arrays.items()
            }
        state = {name: value for name, value in super().__getstate__().items() if name not in (*values, *arrays)}
        return state | {"values": values, "arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a `__getstate__`."""
        values, arrays = state.pop("values"), state.pop("arrays")
        for part, kind in self._values.items():
            setattr(self, part, kind())
            for name, value in values[part].items():
                setattr(getattr(self, part), name, value)
        super().__setstate__(state)
        with stream_of(self.device):
            for part, rows in arrays.items():
                for name, row in rows.items():
                    target = getattr(getattr(self, part), name)
                    if target.size:
                        wp.copy(target, wp.array(row, dtype=target.dtype, device=self._launcher.wp_device))

    def close(self) -> None:
        """End the worker threads."""
        self._launcher.close()

    def _set(self, name: str, values: np.ndarray) -> None:
        """Copy host rows into one of the state's arrays, in order with torch's work."""
        array = getattr(self._world, name)
        with stream_of(self.device):
            wp.copy(array, wp.array(values, dtype=self._structs[name], device=self._launcher.wp_device))

    @abstractmethod
    def _begin_marked(self) -> None:
        """Restart the matches marked in `_restart`."""

    @abstractmethod
    def _play(self) -> None:
        """Run a step with `actions`."""


def check_counts(most_repeat: int = 0, **values: Any) -> None:
    """Refuse values that are not whole numbers within `COUNTS`; `action_repeat` is at most `most_repeat`."""
    for name, value in values.items():
        allowed = f"[1, {most_repeat}]" if name == "action_repeat" else COUNTS[name]
        if isinstance(value, bool) or not isinstance(value, Integral) or not inside(int(value), allowed):
            raise ConfigError(f"{name}={value}: must be a whole number in {allowed}")


def check_number(key: str, value: Any, allowed: str) -> None:
    """Refuse a value that is not a number within `allowed`."""
    wrong = complaint(value, allowed) if isinstance(value, Real) else f"must be a number in {allowed}"
    if wrong:
        raise ConfigError(f"{key}={value}: {wrong}")


def reward_weights(struct: Any, reward: Any, gamma: float, prefix: str = "") -> Any:
    """Return `struct` with the checked weights of the dataclass `reward`, and the discount; `prefix` is for errors."""
    check_number("gamma", gamma, "[0, 1]")
    for term in fields(reward):
        value = getattr(reward, term.name)
        if not isinstance(term.default, bool):
            check_number(f"{prefix}{term.name}", value, term.metadata["allowed"])
        setattr(struct, term.name, float(value))
    struct.gamma = gamma
    return struct
