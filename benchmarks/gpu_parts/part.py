"""What a part is asked, and what it answers: tables to read, checks that hold or not, all of it plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class PartOptions:
    """Where a part runs; `quick` asks for tiny sizes, to see that the script works."""

    device: str
    seed: int = 1
    quick: bool = False

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.startswith("cuda")

    def sized(self, whole: Any, tiny: Any) -> Any:
        """Return `whole`, or `tiny` where a quick run is asked for."""
        return tiny if self.quick else whole


@dataclass
class Found:
    """What a part found.

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
        """All of it as data for JSON."""
        return asdict(self)


Measure = Callable[[PartOptions], Found]


def wait(device: str) -> None:
    """Wait until a GPU has done all it was given; raises what went wrong there."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@contextmanager
def seconds_into(times: list[float], device: str) -> Iterator[None]:
    """Append the seconds that the context takes, the device's work included."""
    wait(device)
    begun = time.perf_counter()
    yield
    wait(device)
    times.append(time.perf_counter() - begun)


def rate(work: Callable[[], Any], *, seconds: float, device: str) -> float:
    """Calls per second over at least `seconds`; the device is waited for after blocks that double, not every call."""
    calls, block, times = 0, 1, [0.0]
    while sum(times) < seconds or calls == 0:
        with seconds_into(times, device):
            for _ in range(block):
                work()
        calls, block = calls + block, 2 * block if times[-1] < seconds / 8 else block
    return calls / sum(times)


def percent(share: float) -> str:
    """A share as text that shows one in a million."""
    return f"{100.0 * share:.4f} %"
