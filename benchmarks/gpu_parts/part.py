"""Input and output of a part: tables, checks with a result, figures and notes, all of it plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class PartOptions:
    """Device of a part; `quick` asks for tiny sizes, to test the script."""

    device: str
    seed: int = 1
    quick: bool = False

    @property
    def cuda(self) -> bool:
        """Return whether the device is a GPU."""
        return self.device.startswith("cuda")

    def sized(self, whole: Any, tiny: Any) -> Any:
        """Return `whole`, or `tiny` in a quick run."""
        return tiny if self.quick else whole


@dataclass
class Found:
    """Findings of a part.

    Attributes:
        checks: whether each named statement holds; the part has passed if all do.
        tables: dicts of title, head and rows of text, in order.
        numbers: figures by name, for programs.
        notes: sentences to print below the tables.
        skipped: why the part's own question was not answered; empty where it was.

    """

    checks: dict[str, bool] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.tables.append({"title": title, "head": list(head), "rows": [list(row) for row in rows]})

    def plain(self) -> dict[str, Any]:
        """Return all of it as data for JSON."""
        return asdict(self)


Measure = Callable[[PartOptions], Found]


def wait(device: str) -> None:
    """Wait until a GPU has finished its work; raises its errors."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@contextmanager
def seconds_into(times: list[float], device: str) -> Iterator[None]:
    """Append the seconds that the context takes, including the device's work."""
    wait(device)
    started = time.perf_counter()
    yield
    wait(device)
    times.append(time.perf_counter() - started)


def rate(work: Callable[[], Any], *, seconds: float, device: str) -> float:
    """Return calls per second over at least `seconds`, waiting for the device after blocks that double in size."""
    calls, block, times = 0, 1, [0.0]
    while sum(times) < seconds or calls == 0:
        with seconds_into(times, device):
            for _ in range(block):
                work()
        calls, block = calls + block, 2 * block if times[-1] < seconds / 8 else block
    return calls / sum(times)


def percent(share: float) -> str:
    """Return a share as text that resolves one in a million."""
    return f"{100.0 * share:.4f} %"
