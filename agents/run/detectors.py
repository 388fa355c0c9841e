"""Detectors of failing training in which every number is still finite, with one alert for each.

A detector reads the metrics of an update. Its condition must hold for `HOLD` updates in a row, so that a single
unusual rollout raises no alert; after an alert it is silent for `COOL_DOWN` updates. Detectors only alert; the guard
(`guard.py`) handles broken updates.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Protocol

from typing_extensions import TypedDict

from sparring.configs.core.typed import AnyNumber, Count, Text, read, require

Metrics = Mapping[str, float]

HOLD, COOL_DOWN = 5, 50
RECENT = 50
"""Number of updates that a value is compared with."""
ENOUGH = 20
"""Number of updates needed for a comparison."""
SPIKE = 5.0
ENTROPY_DROP = 1.5
FAR = 20.0
MASTERED, LOST = 0.9, 0.6


class DetectorsState(TypedDict):
    """`Detectors.state_dict`: earlier values and both counters of every sign."""

    recent: dict[str, list[Any]]
    held: dict[str, Count]
    silent: dict[str, Count]


class Sign(Protocol):
    """A condition on the metrics."""

    name: str
    recent: deque[Any]
    """Values from earlier updates."""

    def read(self, metrics: Metrics) -> str | None:
        """Read an update's metrics; return a description of the problem, or None."""


class Unusual:
    """A value compared with its last `RECENT` values; a value judged wrong is not added to them."""

    def __init__(self, name: str, judge: Callable[[float, deque[float]], str | None]) -> None:
        self.name, self.recent, self._judge = name, deque[float](maxlen=RECENT), judge

    def read(self, metrics: Metrics) -> str | None:
        """Judge the value, if there are at least `ENOUGH` earlier ones; one of skipped steps, NaN, does not count."""
        value = metrics.get(self.name)
        if value is None or not math.isfinite(value):
            return None
        wrong = self._judge(value, self.recent) if len(self.recent) >= ENOUGH else None
        if wrong is None:
            self.recent.append(value)
        return f"{self.name} {wrong}" if wrong else None


def spike(value: float, recent: deque[float]) -> str | None:
    """Detect a loss or gradient above `SPIKE` times the recent maximum.

    The median is unsuitable: a critic's loss correctly rises a thousandfold when many matches time out together.
    """
    times = value / max(*recent, 1e-6)
    return f"is {value:.3g}, {times:.0f} times its recent maximum" if times > SPIKE else None


def collapse(value: float, recent: deque[float]) -> str | None:
    """Detect an entropy far below its recent median: the policy has stopped exploring."""
    usual = median(recent)
    return f"fell from {usual:.2f} to {value:.2f} nats" if value < usual - ENTROPY_DROP else None


class Saturation:
    """Actions so far beyond the environment's bounds that the gradient vanishes."""

    name = "rollout/action_size"

    def __init__(self) -> None:
        self.recent = deque[float](maxlen=RECENT)

    def read(self, metrics: Metrics) -> str | None:
        """Compare the mean size of the raw continuous actions with `FAR`; the bounds are at 1."""
        value = metrics.get(self.name, 0.0)
        return f"continuous actions are {value:.3g} in size, far beyond their bounds" if value > FAR else None


class Forgetting:
    """A win rate against a bot below 0.6 after at least 0.9 for `ENOUGH` updates."""

    name = "curriculum/<bot>/win_rate"

    def __init__(self) -> None:
        self.recent = deque[str]()

    def read(self, metrics: Metrics) -> str | None:
        """Read the recent win rate against every bot; `recent` has a bot once for each update it was beaten."""
        rates = {key.split("/")[1]: value for key, value in metrics.items() if _is_win_rate(key)}
        count = Counter(self.recent)
        self.recent += [bot for bot, rate in rates.items() if rate >= MASTERED and count[bot] < ENOUGH]
        lost = [f"{bot} {rate:.0%}" for bot, rate in rates.items() if rate < LOST and count[bot] == ENOUGH]
        return f"bots mastered before are no longer beaten: {', '.join(lost)}" if lost else None


class Detectors:
    """All signs, each with its hold and cool-down counters."""

    def __init__(self) -> None:
        self._signs: list[Sign] = [
            Unusual("train/entropy", collapse),
            Saturation(),
            Unusual("train/value_loss", spike),
            Unusual("train/grad_norm", spike),
            Forgetting(),
        ]
        self._held = {sign.name: 0 for sign in self._signs}
        self._silent = {sign.name: 0 for sign in self._signs}

    def alerts(self, metrics: Metrics) -> list[str]:
        """Return the problems that lasted `HOLD` updates and were not reported in the last `COOL_DOWN`."""
        said = []
        for sign in self._signs:
            wrong, name = sign.read(metrics), sign.name
            self._held[name] = self._held[name] + 1 if wrong else 0
            self._silent[name] = max(self._silent[name] - 1, 0)
            if wrong and self._held[name] >= HOLD and self._silent[name] == 0:
                self._silent[name] = COOL_DOWN
                said.append(wrong)
        return said

    def state_dict(self) -> dict[str, Any]:
        """Return windows and counters as plain data."""
        return {
            "recent": {sign.name: list(sign.recent) for sign in self._signs},
            "held": self._held,
            "silent": self._silent,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of other signs."""
        found = read(DetectorsState, state)
        names = {sign.name for sign in self._signs}
        for part in ("recent", "held", "silent"):
            wrong = sorted(names ^ found[part].keys())  # type: ignore[literal-required]
            require(not wrong, f"{part}: must have an entry for every sign and no other, see {', '.join(wrong)}")
        recent = {
            sign.name: read(_kind(sign), found["recent"][sign.name], f"recent.{sign.name}") for sign in self._signs
        }
        for sign in self._signs:
            sign.recent.clear()
            # States of earlier versions hold the NaN of updates of which every step was skipped.
            sign.recent.extend(value for value in recent[sign.name] if value == value)
        self._held, self._silent = found["held"], found["silent"]


def _kind(sign: Sign) -> Any:
    return list[Text] if isinstance(sign, Forgetting) else list[AnyNumber]


def _is_win_rate(key: str) -> bool:
    return key.startswith("curriculum/") and key.endswith("/win_rate")
