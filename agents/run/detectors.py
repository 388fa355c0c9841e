"""Signs that learning goes wrong although every number is finite: one alert for each.

A detector reads the metrics of an update. What it looks for must last `hold` updates in a row, so that one unlucky
rollout is no alarm; after an alert it is silent for `cool_down` updates. Detectors only speak: what is done about a
broken update is the guard's business (`guard.py`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Protocol

Metrics = Mapping[str, float]

HOLD, COOL_DOWN = 5, 50
RECENT = 50
"""Updates a number is compared with."""
ENOUGH = 20
"""Updates it takes to know what is usual."""
SPIKE = 5.0
ENTROPY_DROP = 1.5
FAR = 20.0
MASTERED, LOST = 0.9, 0.6


class Sign(Protocol):
    """Something to look for in the metrics."""

    name: str
    recent: deque[Any]
    """What it remembers of earlier updates."""

    def read(self, metrics: Metrics) -> str | None:
        """Take an update's metrics; says what is wrong, or None."""


class Unusual:
    """A number judged by its last `RECENT` values; what is wrong does not become usual."""

    def __init__(self, name: str, judge: Callable[[float, deque[float]], str | None]) -> None:
        self.name, self.recent, self._judge = name, deque[float](maxlen=RECENT), judge

    def read(self, metrics: Metrics) -> str | None:
        """Judge the value, once `ENOUGH` earlier ones are known."""
        value = metrics.get(self.name)
        if value is None:
            return None
        wrong = self._judge(value, self.recent) if len(self.recent) >= ENOUGH else None
        if wrong is None:
            self.recent.append(value)
        return f"{self.name} {wrong}" if wrong else None


def spike(value: float, recent: deque[float]) -> str | None:
    """The loss or the gradient has left its scale: `SPIKE` times the recent maximum.

    Not the median: a critic's loss rises a thousandfold, and rightly, when many matches reach the time limit together.
    """
    times = value / max(*recent, 1e-6)
    return f"is {value:.3g}, {times:.0f} times its recent maximum" if times > SPIKE else None


def collapse(value: float, recent: deque[float]) -> str | None:
    """Entropy far below its recent median: the policy has stopped trying anything."""
    usual = median(recent)
    return f"fell from {usual:.2f} to {value:.2f} nats" if value < usual - ENTROPY_DROP else None


class Saturation:
    """Actions so far beyond the environment's bounds that the gradient no longer reaches back."""

    name = "rollout/action_size"

    def __init__(self) -> None:
        self.recent = deque[float](maxlen=RECENT)

    def read(self, metrics: Metrics) -> str | None:
        """Compare the mean size of the raw continuous actions with `FAR`; the bounds are at 1."""
        value = metrics.get(self.name, 0.0)
        return f"continuous actions are {value:.3g} in size, far beyond their bounds" if value > FAR else None


class Forgetting:
    """A bot that was beaten 9 times in 10 for `ENOUGH` updates, and now is not 6 times in 10."""

    name = "curriculum/<bot>/win_rate"

    def __init__(self) -> None:
        self.recent = deque[str]()

    def read(self, metrics: Metrics) -> str | None:
        """Look at the recent win rate against every bot; `recent` names a bot once for each update it was beaten."""
        rates = {key.split("/")[1]: value for key, value in metrics.items() if _is_win_rate(key)}
        count = Counter(self.recent)
        self.recent += [bot for bot, rate in rates.items() if rate >= MASTERED and count[bot] < ENOUGH]
        lost = [f"{bot} {rate:.0%}" for bot, rate in rates.items() if rate < LOST and count[bot] == ENOUGH]
        return f"bots mastered before are no longer beaten: {', '.join(lost)}" if lost else None


class Detectors:
    """All signs, each with its hold and its cool-down."""

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
        """What has been wrong for `HOLD` updates and was not said in the last `COOL_DOWN`."""
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
        """Windows and counters, as plain data."""
        return {
            "recent": {sign.name: list(sign.recent) for sign in self._signs},
            "held": self._held,
            "silent": self._silent,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        for sign in self._signs:
            sign.recent.clear()
            sign.recent.extend(state["recent"][sign.name])
        self._held, self._silent = dict(state["held"]), dict(state["silent"])


def _is_win_rate(key: str) -> bool:
    return key.startswith("curriculum/") and key.endswith("/win_rate")
