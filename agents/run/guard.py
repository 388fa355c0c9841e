"""Responses to a failed update, from mildest to last; each is counted (`guard/...`) and reported.

1. A match whose observation or reward is not finite is quarantined: restarted, its step has reward 0 (`LearnerEnv`).
2. A step of the optimizer whose loss or gradient is not finite is skipped (by the learner).
3. An update that reaches the target KL stops there (in the learner).
4. An update that broke the policy (its KL exceeded `restore_kl` targets; weights, moments or all its steps were not
   finite) is reverted, and the learning rate is reduced.
5. On a second one within `window` updates, the last training state is restored, with the lower learning rate.
6. On a third one, the run ends with a report.

Detectors (`detectors.py`) cover problems in which every number is finite.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer
from typing_extensions import TypedDict

from sparring.agents.run.detectors import Detectors
from sparring.configs.core.files import write_atomically
from sparring.configs.core.typed import Count, Number, read, require, within
from sparring.configs.schema import GuardConfig

COUNTERS = ("skipped_steps", "kl_stops", "restored_updates", "rollbacks", "quarantined_matches", "alerts")
GAVE_UP = "the policy keeps breaking"
"""The guard's reason for ending a run."""
FACTOR, FASTEST, SLOWEST = 1.5, 10.0, 1e-3


class GuardState(TypedDict):
    """`Guard.state_dict`."""

    rate_scale: Number
    counts: dict[str, Count]
    broken: list[Count]
    detectors: dict[str, Any]


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
        """Continue from a `state_dict`; raises `ContentError` for impossible values."""
        found = read(GuardState, state)
        rate, counts = found["rate_scale"], found["counts"]
        require(0.0 < rate <= FASTEST, f"rate_scale={rate}: must be in (0, {FASTEST:g}]")
        for name in COUNTERS:
            require(name in counts, f"counts.{name} is missing")
        with within("detectors"):
            self._detectors.load_state_dict(found["detectors"])
        self.rate_scale, self._broken = rate, found["broken"]
        self.counts = {name: counts[name] for name in COUNTERS}

    def _what_broke(self, metrics: Mapping[str, float]) -> str | None:
        limit = self.config.restore_kl * self.learner.config.target_kl
        if metrics["train/epochs_completed"] == 0 and metrics["train/skipped_steps"] > 0:
            return "no step of it was finite"
        if not math.isfinite(metrics["train/weight_norm"]):
            return "its weights are not finite"
        if not self._moments_are_finite():
            return "the optimizer's moments are not finite"
        if self.learner.config.target_kl > 0 and metrics["train/kl_max"] > limit:
            return f"its KL reached {metrics['train/kl_max']:.3g}, over {limit:.3g}"
        return None

    def _moments_are_finite(self) -> bool:
        """Test the optimizer's moments: an infinite second moment silently freezes its weight."""
        states = self.learner.optimizer.state.values()
        moments = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        return not moments or math.isfinite(float(get_total_norm(moments)))

    def _climb(self, update: int, wrong: str) -> GuardVerdict:
        """Revert the update; the number of reverts within the window decides the verdict."""
        # PPO's gradient scale is not reverted; otherwise an overflow would repeat.
        scale = {name: value for name, value in self.learner.state_dict().items() if name == "scaler"}
        self.learner.load_state_dict(self._kept | scale)
        self._broken = [earlier for earlier in self._broken if update - earlier < self.config.window] + [update]
        self.rate_scale *= self.config.cut
        self.counts["restored_updates"] += 1
        self.alert(f"update {update} is taken back ({wrong}); the learning rate is cut to {self.rate_scale:.3g} of it")
        verdict = list(GuardVerdict)[min(len(self._broken), len(GuardVerdict)) - 1]
        self.counts["rollbacks"] += verdict is GuardVerdict.ROLL_BACK
        return verdict

    def _follow_kl(self, kl: float) -> None:
        if self._adaptive_kl > 0:
            if kl > 2.0 * self._adaptive_kl:
                self.rate_scale = max(self.rate_scale / FACTOR, SLOWEST)
            elif kl < 0.5 * self._adaptive_kl:
                self.rate_scale = min(self.rate_scale * FACTOR, FASTEST)
