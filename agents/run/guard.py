"""Responses to a failed update, and detectors of failing training in which every number is still finite.

The responses, from mildest to last; each is counted (`guard/...`) and reported.

1. A match whose observation or reward is not finite is quarantined: restarted, its step has reward 0 (`LearnerEnv`).
2. A step of the optimizer whose loss or gradient is not finite is skipped (by the learner).
3. An update that reaches the target KL stops there (in the learner).
4. An update that broke the policy (its KL exceeded `RESTORE_KL` targets; weights, moments or all its steps were not
   finite) is reverted, and the learning rate is reduced.
5. On a second one within `WINDOW` updates, the last training state is restored, with the lower learning rate.
6. On a third one, the run ends with a report.

A detector reads the metrics of an update. Its condition must hold for `HOLD` updates in a row, so a single unusual
rollout does not raise an alert. After an alert it is silent for `COOL_DOWN` updates. Detectors only alert.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from sparring.configs.core.files import write_atomically
from sparring.configs.core.session import GuardConfig

COUNTERS = ("skipped_steps", "kl_stops", "restored_updates", "rollbacks", "quarantined_matches", "alerts")
GAVE_UP = "the policy keeps breaking"
"""The guard's reason for ending a run."""
FACTOR, FASTEST, SLOWEST = 1.5, 10.0, 1e-3
RESTORE_KL, CUT, WINDOW = 10.0, 0.5, 50
"""Targets of KL beyond which an update is undone, the factor on its learning rate, and the updates that count."""


class GuardVerdict(Enum):
    """The action required after an update."""

    GO_ON = 0
    ROLL_BACK = 1
    GIVE_UP = 2


class LearningFailed(SystemExit):
    """Raised when the guard ends the run; `code` is 1 and the report has the reason."""


class Limits(Protocol):
    """The part of a learner's configuration that the guard reads."""

    @property
    def target_kl(self) -> float:
        """Upper limit of an update's KL; 0 for no limit."""
        ...


class Guarded(Protocol):
    """The learner interface that the guard uses."""

    @property
    def config(self) -> Limits:
        """The learner's options."""
        ...

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer, whose moments are tested."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything that an update changes."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`."""
        ...


class Guard:
    """Guard of the updates of `learner`; `alert` receives each problem. A disabled guard only counts."""

    def __init__(
        self, config: GuardConfig, learner: Guarded, *, adaptive_kl: float = 0.0, alert: Callable[[str], None]
    ) -> None:
        self.config, self.learner, self.alert = config, learner, alert
        self.rate_scale = 1.0
        """Factor of the scheduled learning rate."""
        self.sound = True
        """False if the last update broke the policy; the weights it was reverted to are then in doubt, too."""
        self.verdict = GuardVerdict.GO_ON
        """The verdict on the last update."""
        self.counts = dict.fromkeys(COUNTERS, 0)
        self._adaptive_kl = adaptive_kl
        self._broken: list[int] = []
        self._detectors = Detectors()
        self._kept: dict[str, Any] = {}
        self._kept_before = 0

    def before(self, update: int = 0) -> None:
        """Copy the learner's state before update number `update`, in case the update has to be reverted."""
        if self.config.enabled:
            self._kept, self._kept_before = copy.deepcopy(self.learner.state_dict()), update

    def take_back(self, update: int) -> None:
        """Restore the learner's state from before update number `update`, if that was started."""
        if self._kept and self._kept_before == update:
            self.learner.load_state_dict(self._kept)

    def after(self, update: int, metrics: Mapping[str, float]) -> GuardVerdict:
        """Judge the `train/...` metrics of update number `update`, and revert it if it broke the policy."""
        self.counts["skipped_steps"] += int(metrics["train/skipped_steps"])
        self.counts["kl_stops"] += int(metrics["train/kl_stop"])
        if self._adaptive_kl > 0:
            self._follow_kl(metrics["train/approx_kl"])
        wrong = self._what_broke(metrics)
        self.sound = wrong is None
        self.verdict = self._climb(update, wrong) if wrong and self.config.enabled else GuardVerdict.GO_ON
        return self.verdict

    def watch(self, metrics: Mapping[str, float], quarantined: int) -> dict[str, float]:
        """Run the detectors on an update's metrics; return the `guard/...` counters."""
        if quarantined > self.counts["quarantined_matches"]:
            new = quarantined - self.counts["quarantined_matches"]
            self.alert(f"{new} matches were not finite and were started again")
        self.counts["quarantined_matches"] = quarantined
        for text in self._detectors.alerts(metrics) if self.config.enabled else []:
            self.counts["alerts"] += 1
            self.alert(text)
        return {f"guard/{name}": float(count) for name, count in self.counts.items()} | {
            "guard/rate_scale": self.rate_scale
        }

    def report(self, path: Path, update: int, metrics: Mapping[str, float], *, reason: str) -> None:
        """Write the report at the end of the run: reason, counters, broken updates, the last metrics."""
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        content: dict[str, Any] = {"reason": reason, "update": update, "metrics": finite}
        content |= {"broken_updates": self._broken, "counts": self.counts}
        write_atomically(path, json.dumps(content, indent=1, sort_keys=True) + "\n")

    def state_dict(self) -> dict[str, Any]:
        """Return counters, windows and the learning rate's scale as plain data."""
        return {
            "rate_scale": self.rate_scale,
            "counts": self.counts,
            "broken": self._broken,
            "detectors": self._detectors.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._detectors.load_state_dict(state["detectors"])
        self.rate_scale, self._broken = state["rate_scale"], state["broken"]
        self.counts = {name: state["counts"][name] for name in COUNTERS}

    def _what_broke(self, metrics: Mapping[str, float]) -> str | None:
        limit = RESTORE_KL * self.learner.config.target_kl
        if metrics["train/epochs_completed"] == 0 and metrics["train/skipped_steps"] > 0:
            return "no step of it was finite"
        if not math.isfinite(metrics["train/weight_norm"]):
            return "its weights are not finite"
        states = self.learner.optimizer.state.values()
        moments = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        if moments and not math.isfinite(float(get_total_norm(moments))):  # an infinite one silently freezes its weight
            return "the optimizer's moments are not finite"
        if self.learner.config.target_kl > 0 and metrics["train/kl_max"] > limit:
            return f"its KL reached {metrics['train/kl_max']:.3g}, over {limit:.3g}"
        return None

    def _climb(self, update: int, wrong: str) -> GuardVerdict:
        """Revert the update; the number of reverts within the window decides the verdict."""
        # PPO's gradient scale is not reverted; otherwise an overflow would repeat.
        scale = {name: value for name, value in self.learner.state_dict().items() if name == "scaler"}
        self.learner.load_state_dict(self._kept | scale)
        self._broken = [earlier for earlier in self._broken if update - earlier < WINDOW] + [update]
        self.rate_scale *= CUT
        self.counts["restored_updates"] += 1
        self.alert(f"update {update} is undone ({wrong}); the learning rate is multiplied by {self.rate_scale:.3g}")
        verdict = list(GuardVerdict)[min(len(self._broken), len(GuardVerdict)) - 1]
        self.counts["rollbacks"] += verdict is GuardVerdict.ROLL_BACK
        return verdict

    def _follow_kl(self, kl: float) -> None:
        if kl > 2.0 * self._adaptive_kl:
            self.rate_scale = max(self.rate_scale / FACTOR, SLOWEST)
        elif kl < 0.5 * self._adaptive_kl:
            self.rate_scale = min(self.rate_scale * FACTOR, FASTEST)


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
    typical = median(recent)
    return f"fell from {typical:.2f} to {value:.2f} nats" if value < typical - ENTROPY_DROP else None


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
        parts = [(key.split("/"), value) for key, value in metrics.items()]
        rates = {key[1]: value for key, value in parts if key[0] == "curriculum" and key[-1] == "win_rate"}
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
        alerts = []
        for sign in self._signs:
            wrong, name = sign.read(metrics), sign.name
            self._held[name] = self._held[name] + 1 if wrong else 0
            self._silent[name] = max(self._silent[name] - 1, 0)
            if wrong and self._held[name] >= HOLD and self._silent[name] == 0:
                self._silent[name] = COOL_DOWN
                alerts.append(wrong)
        return alerts

    def state_dict(self) -> dict[str, Any]:
        """Return windows and counters as plain data."""
        return {
            "recent": {sign.name: list(sign.recent) for sign in self._signs},
            "held": self._held,
            "silent": self._silent,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        for sign in self._signs:
            sign.recent.clear()
            # States of earlier versions contain NaN from updates whose steps were all skipped.
            sign.recent.extend(value for value in state["recent"][sign.name] if value == value)
        self._held, self._silent = state["held"], state["silent"]
